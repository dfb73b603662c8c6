"""`kproxy dissect`: captures and traces, decoded."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from kproxy.cli import options
from kproxy.cli.errors import CLEAN, FINDINGS, NOTHING, USAGE, CommandError
from kproxy.outputs.stderr import say, warn

if TYPE_CHECKING:
    from kproxy.capture import Capture, Event
    from kproxy.capture.kafka_flows import Dissector
    from kproxy.capture.tls import TlsDecryptor
    from kproxy.inspection.inspector import Inspector
    from kproxy.outputs.selecting import Output
    from kproxy.trace.lines import Line

HELP = "decode captures (pcap, pcapng) and traces"

_EXAMPLES = """
examples:
  kproxy dissect capture.pcap
  kproxy dissect -f 'api=Fetch and latency>50ms' *.pcap.gz
  kproxy dissect --json --detail full capture.pcapng | jq .body
  kproxy dissect --fields ts,api,latency_us,error kproxy-trace/
  kproxy dissect --findings --ignore X --fail-on warning capture.pcap
  kproxy dissect --findings --format sarif *.pcap.gz > kproxy.sarif
  kproxy dissect --html capture.pcap > page.html
  tcpdump -i lo -w - port 9092 | kproxy dissect -

exit status: 0 decoded, 1 a finding of at least --fail-on, 2 usage error or unreadable input,
5 nothing analysed: no input has a Kafka frame (no packets, no Kafka, or TLS without keys); a finding takes precedence
If a frame triggers a bug in kproxy, it gets finding K007 (an error), and decoding continues with the next frame.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.completes(
        parser.add_argument(
            "files",
            nargs="+",
            metavar="FILE",
            help="pcap, pcapng or trace (also .gz, .zst), a directory of these, or '-' for standard input",
        ),
        options.FILE,
    )
    parser.add_argument("--json", action="store_true", help="print trace lines (JSON), as the proxy writes them")
    parser.add_argument(
        "-f", "--filter", metavar="FILTER", help="print only matching lines, e.g. 'api=Fetch and error!=0'"
    )
    parser.add_argument(
        "--fields", metavar="A,B", help="print only these fields, tab-separated (with --json: as objects)"
    )
    options.add_capture(parser)
    parser.add_argument(
        "--detail", choices=("summary", "full", "raw"), default="summary",
        help="what to keep of each frame: a summary (default), also its decoded body, or also its raw bytes",
    )  # fmt: skip
    # The bytes of each frame at any detail: what a viewer needs.
    parser.add_argument("--frames", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the fields of each frame")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only findings and gaps")
    parser.add_argument(
        "--findings", action="store_true", help="print only findings: each root cause once, with a count"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "sarif", "junit"),
        help="format of --findings (default: text; json with --json)",
    )
    parser.add_argument(
        "--html",
        action="store_true",
        help="write a self-contained HTML page to standard output, e.g. to attach to an issue",
    )
    options.add_selection(parser)
    options.add_fail_on(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from kproxy.outputs.selecting import output_for
    from kproxy.outputs.selection import Selection

    selection = Selection.of_options(args)
    output = output_for(args, sys.stdout, selection)
    status = CLEAN
    stems: Counter[str] = Counter()
    unreadable = False
    for name, chosen in _inputs(args.files):
        output.begin(_shown(name))
        output.analysed.begin(_shown(name))
        stem = stem_of(_shown(name))
        stems[stem] += 1
        if stems[stem] > 1:
            stem += f"~{stems[stem]}"
        try:
            for line in map(selection.of, _lines(name, stem, args, output)):
                if line is not None and output.write(line) and selection.fails_for(line):
                    status = FINDINGS
        except CommandError as error:
            if chosen:
                raise
            unreadable = True
            _tell(output, str(error))
    output.close()
    for sentence in output.warnings:
        warn(sentence)
    for failure, count in output.failures.items():
        if count > 1:
            warn(f"{count} lines could not be shown: {failure}")
        if selection.fails("error"):
            status = FINDINGS
    nothing = output.analysed.is_nothing
    has_summary = args.findings and not args.json and args.format in (None, "text")
    if (nothing or args.findings) and not has_summary:
        say(f"kproxy: {output.analysed.sentence}")
    return USAGE if unreadable else NOTHING if nothing and status == CLEAN else status


def _inputs(names: list[str]) -> Iterator[tuple[str, bool]]:
    """The files, and whether the user has chosen each: one of a directory that cannot be read is passed over."""
    from kproxy.capture.inputs import NO_INPUT, input_files

    for name in names:
        if name != "-" and Path(name).is_dir():
            found = input_files(Path(name))
            if not found:
                raise CommandError(f"{name}: {NO_INPUT} in this directory")
            yield from ((str(each), False) for each in found)
        else:
            yield name, True


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


def _lines(name: str, stem: str, args: argparse.Namespace, output: Output) -> Iterator[Line]:
    from kproxy.capture import CaptureError
    from kproxy.io.pipe import Piped
    from kproxy.trace.reader import TraceError, open_trace

    try:
        # Closed below.
        source = cast("BinaryIO", Piped(sys.stdin.fileno(), output.flush)) if name == "-" else Path(name).open("rb")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
    with source:
        shown = _shown(name)
        try:
            traced = open_trace(source, shown, partial(_tell, output))
            yield from traced.lines if traced.lines is not None else _captured(traced.source, shown, stem, args, output)
        except (CaptureError, TraceError) as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{shown}: {error.strerror or error}") from None


def _captured(source: BinaryIO, name: str, stem: str, args: argparse.Namespace, output: Output) -> Iterator[Line]:
    from kproxy.capture import Capture, Reassembler
    from kproxy.capture.kafka_flows import Dissector
    from kproxy.inspection.inspector import Inspector
    from kproxy.outputs.progress import progress
    from kproxy.trace.lines import Detail

    inspector = Inspector(stem, output.detail(Detail(args.detail)), excerpts=args.findings, frames=args.frames)
    reassembler = Reassembler()
    packets = at = 0
    capture = Capture(source, name, owned=False)
    dissector = Dissector(inspector, ports=frozenset(args.port), decryptor=decryptor_for(args.keylog, capture))
    with capture, progress(capture, Path(name)) as advance:
        for packet in capture:
            packets += 1
            at = packet.at
            if not packets & 0x3FFF:
                advance()
            yield from _dissected(dissector, inspector, partial(reassembler.receive, packet), packet.at)
        yield from _dissected(dissector, inspector, reassembler.close, at)
    output.analysed.packet_count(packets)
    if capture.truncated:
        _tell(output, f"{name}: {capture.truncated}; everything before that point was read")
    for reason, count in reassembler.skipped.items():
        if reason not in _EXPECTED:
            _tell(output, f"{name}: {count} packets skipped: {reason}")
    _tell_other(name, dissector, packets, args, output)


def _dissected(
    dissector: Dissector, inspector: Inspector, more: Callable[[], Iterable[Event]], at: int
) -> Iterator[Line]:
    """The lines of the next events. A bug triggered by one packet or TCP connection skips only that one."""
    try:
        events = list(more())
    except Exception as error:  # noqa: BLE001
        yield from inspector.fail("reassembling a packet", error, at=at)
        return
    for event in events:
        try:
            lines = dissector.take(event)
        except CommandError:
            raise
        except Exception as error:  # noqa: BLE001
            lines = inspector.fail("dissecting a TCP connection", error, at=event.at) + dissector.drop(event)
        yield from lines


def _tell(output: Output, sentence: str) -> None:
    warn(sentence)
    output.note(sentence)


#: Expected reasons to skip a packet, which are not reported.
_EXPECTED = frozenset({"not IP", "not TCP"})


def _tell_other(name: str, dissector: Dissector, packets: int, args: argparse.Namespace, output: Output) -> None:
    other = ", ".join(f"{count} {kind}" for kind, count in dissector.other.most_common())
    if dissector.flows == 0:
        where = f" on port {', '.join(map(str, args.port))}" if args.port else ""
        beside = f"; other TCP connections: {other}" if other else ""
        _tell(output, f"{name}: no Kafka connection{where} in {packets} packets{beside}")
        if dissector.other["TLS"] and not args.keylog:
            _tell(output, f"{name}: Kafka may be inside TLS: decrypt it with --keylog FILE")
    if dissector.undecrypted:
        more = f" (and {len(dissector.undecrypted) - 1} more)" if len(dissector.undecrypted) > 1 else ""
        _tell(output, f"{name}: not decrypted: {dissector.undecrypted[0]}{more}")


def stem_of(name: str) -> str:
    """The prefix of a capture's connection ids: its file name without the capture and compression suffixes."""
    stem = Path(name).name
    for suffix in (".gz", ".zst", ".pcap", ".pcapng", ".cap"):
        stem = stem.removesuffix(suffix)
    return stem


def decryptor_for(path: str | None, capture: Capture) -> Callable[[], TlsDecryptor | None]:
    """A factory of decryptors, one per TLS flow, with the keys of a key log and those inside the pcapng."""
    from kproxy.capture.keylog import KeyLog

    keys = KeyLog()
    if path is not None:
        try:
            keys.add(Path(path).read_text(encoding="ascii", errors="replace"))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None

    def make() -> TlsDecryptor | None:
        if path is None and not capture.tls_keys:
            return None
        try:
            from kproxy.capture.tls import TlsDecryptor
        except ImportError:
            from kproxy.io.extras import install_command

            raise CommandError(f"TLS decryption needs the cryptography package: {install_command('tls')}") from None
        keys.add(capture.tls_keys)
        return TlsDecryptor(keys)

    return make
