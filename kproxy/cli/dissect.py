"""`kproxy dissect`: decodes captures and traces."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kproxy.cli import options, payload_options
from kproxy.cli.combinations import given, refuse
from kproxy.errors import CLEAN, FINDINGS, NOTHING, USAGE, UserError
from kproxy.outputs.stderr import say, warn
from kproxy.outputs.streams import is_of_output

if TYPE_CHECKING:
    from kproxy.capture.kafka_flows import Dissector
    from kproxy.outputs.finding_selection import Selection
    from kproxy.outputs.output import Output
    from kproxy.trace.lines import Line

HELP = "decode captures (pcap, pcapng) and traces"

_EXAMPLES = """
examples:
  kproxy dissect capture.pcap
  kproxy dissect -f 'api=Fetch and latency>50ms' *.pcap.gz
  kproxy dissect --json --detail full capture.pcapng | jq .body
  kproxy dissect --json --payloads --schemas schemas/ capture.pcap | jq '.. | .records? // empty'
  kproxy dissect --fields ts,api,latency_us,error kproxy-trace/
  kproxy dissect --findings --ignore X --fail-on warning capture.pcap
  kproxy dissect --findings --format sarif *.pcap.gz > kproxy.sarif
  kproxy dissect --html capture.pcap > page.html
  tcpdump -i lo -w - port 9092 | kproxy dissect -

If a frame triggers a bug in kproxy, it gets finding K007 (an error), and decoding continues with the next frame.
"""


class Outcome(NamedTuple):
    """Whether an input has a finding of at least `--fail-on`, and whether it, or some of its lines, cannot be read."""

    has_finding: bool
    is_unreadable: bool


class _NoCapture(UserError):
    """An option does not apply to a trace, so that the command cannot do what was asked for."""


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
        "--fields",
        metavar="A,B",
        help="print only these fields, tab-separated (with --json: as objects); findings are computed only if a field, "
        "the filter, --select, --ignore or --fail-on asks for them",
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=1, metavar="N",
        help="read several files at the same time, in up to N processes (with --json or --fields)",
    )  # fmt: skip
    options.add_capture(parser)
    parser.add_argument(
        "--detail", choices=("summary", "full", "raw"), default="summary",
        help="what to keep of each frame: a summary (default), also its decoded body, or also its raw bytes",
    )  # fmt: skip
    # For viewers: the bytes of each frame at any detail.
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
    payload_options.configure(parser)
    options.add_selection(parser)
    options.add_fail_on(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    _check(args)
    selection = options.selection_of(args)
    payload_options.record_values_of(args)
    inputs = [*_inputs(args.files)]
    if args.jobs < 1:
        raise UserError(f"invalid number of jobs {args.jobs}: use 1 or more")
    if args.jobs > 1 and (args.findings or args.html or not (args.json or args.fields) or "-" in args.files):
        raise UserError("-j needs --json or --fields, without --findings and standard input")
    is_text = not (args.json or args.fields or args.findings or args.html)
    has_summary = is_text and len(inputs) > 1
    output = output_of(args, selection, headings=has_summary)
    summary = None
    if has_summary:
        from kproxy.outputs.run_summary import RunSummary

        summary = RunSummary()
    status = CLEAN
    flow_ids = itertools.count()  # so that connections of different captures have distinct ids
    if args.jobs > 1 and len(inputs) > 1:
        from kproxy.cli.dissect_jobs import outcomes

        done = outcomes(inputs, args, output)
    else:
        add = None if summary is None else summary.add
        done = (dissect_input(*each, flow_ids, args, output, selection, add=add) for each in inputs)
    for outcome in done:
        status = FINDINGS if outcome.has_finding else status
        output.analysed.unreadable += outcome.is_unreadable
    output.close()
    for sentence in output.warnings:
        warn(sentence)
    for failure, count in output.failures.items():
        if count > 1:
            warn(f"{count} lines could not be shown: {failure}")
        if selection.fails("error"):
            status = FINDINGS
    nothing = output.analysed.is_nothing
    if summary is not None and not nothing:
        from kproxy.outputs.console import stderr_console

        console = stderr_console()
        with suppress(OSError):  # like `warn`
            console.print()
            summary.show(console, files=len(inputs))
    is_report = args.findings and not args.json and args.format in (None, "text")
    if (nothing or args.findings) and not is_report:
        say(f"kproxy: {output.analysed.sentence}")
    return USAGE if output.analysed.unreadable else NOTHING if nothing and status == CLEAN else status


def _check(args: argparse.Namespace) -> None:
    """Refuse options that others leave without effect.

    Raises:
        UserError: There are some.
    """
    shown = given(args, ("html", "findings", "fields", "json"))
    if shown is not None:
        refuse(args, ("verbose", "quiet"), f"is for text: leave it out with {shown}")
    if shown in ("--html", "--findings"):
        refuse(args, ("detail",), f"has no effect with {shown}, which always shows the bytes of frames: leave it out")
    if shown is None and not (args.verbose or args.payloads or args.frames):
        refuse(args, ("detail",), "needs -v, --json or --fields: other text has no bodies of frames")


def dissect_input(
    name: str,
    was_named: bool,
    flow_ids: Iterator[int],
    args: argparse.Namespace,
    output: Output,
    selection: Selection,
    *,
    add: Callable[[Line], None] | None = None,
) -> Outcome:
    """Write the lines of one input to `output`; give each also to `add`.

    Raises:
        UserError: The input was named, and cannot be read, or an option does not apply to it.
    """
    output.begin(display_name(name))
    output.analysed.begin(display_name(name))
    write, fails_for = output.write, selection.fails_for
    has_finding = is_unreadable = False

    def damaged(sentence: str) -> None:
        nonlocal is_unreadable
        is_unreadable = True
        _report(output, sentence)

    try:
        for line in selection.filter(_lines(name, flow_ids, args, output, damaged)):
            if add is not None:
                add(line)
            if write(line) and fails_for(line):
                has_finding = True
    except UserError as error:
        if was_named or isinstance(error, _NoCapture):
            output.flush()  # the lines of earlier inputs
            raise
        damaged(str(error))
    return Outcome(has_finding, is_unreadable)


def output_of(args: argparse.Namespace, selection: Selection, *, headings: bool) -> Output:
    """The output for the options.

    Raises:
        UserError: A filter or field is invalid, or options cannot be combined.
    """
    from kproxy.outputs.line_outputs import OutputOptions, filter_for, output_for

    was_named = filter_for(args.filter)
    if args.html:
        from kproxy.html.page import HtmlOutput

        if other := next((name for name in ("json", "fields", "findings", "format") if getattr(args, name)), None):
            raise UserError(f"use --html or --{other}, not both")
        return HtmlOutput(sys.stdout, was_named)
    if args.findings and args.fields:
        raise UserError("use --findings or --fields, not both")
    if args.findings and args.json and args.format not in (None, "json"):
        raise UserError(f"use --json or --format {args.format}, not both")
    if args.format and not args.findings:
        raise UserError(f"--format {args.format} needs --findings")
    shown = OutputOptions(
        was_named,
        json=args.json,
        verbose=args.verbose or args.payloads,
        quiet=args.quiet,
        headings=headings,
        fields=tuple(name.strip() for name in (args.fields or "").split(",") if name.strip()),
        report=(args.format or ("json" if args.json else "text")) if args.findings else None,
    )
    return output_for(shown, sys.stdout, selection)


def _inputs(names: list[str]) -> Iterator[tuple[str, bool]]:
    """The files, and whether the user named each one. Unreadable files of a directory are skipped."""
    from kproxy.capture.inputs import NO_INPUT, input_files

    for name in names:
        if name != "-" and Path(name).is_dir():
            found = input_files(Path(name))
            if not found:
                raise UserError(f"{name}: {NO_INPUT} in this directory")
            yield from ((str(each), False) for each in found)
        else:
            yield name, True


def display_name(name: str) -> str:
    return "standard input" if name == "-" else name


def _lines(
    name: str, flow_ids: Iterator[int], args: argparse.Namespace, output: Output, damaged: Callable[[str], None]
) -> Iterator[Line]:
    from kproxy.io.pipe import Piped
    from kproxy.trace.reader import open_trace

    try:
        # Closed below.
        source = cast("BinaryIO", Piped(sys.stdin.fileno(), output.flush)) if name == "-" else Path(name).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    with source:
        shown = display_name(name)
        try:
            traced = open_trace(source, shown, partial(_report, output), damaged)
            if traced.lines is not None:
                if args.payloads:
                    raise _NoCapture(
                        f"{shown} is a trace, and --payloads decodes the records of captures only: pass --payloads to "
                        "the proxy that writes the trace, and leave it out here"
                    )
                if args.files == [name]:
                    refuse(args, ("port", "keylog"), f"is for captures, and {shown} is a trace: leave it out")
                yield from traced.lines
                output.end()
            else:
                yield from _captured(traced.source, shown, flow_ids, args, output)
        except OSError as error:
            if is_of_output(error):  # of `output.end`, or of a flush while a pipe is empty
                raise
            raise UserError(f"{shown}: {error.strerror or error}") from None


def _captured(
    source: BinaryIO, name: str, flow_ids: Iterator[int], args: argparse.Namespace, output: Output
) -> Iterator[Line]:
    from kproxy.capture import Capture
    from kproxy.capture.lines import CaptureLines, stem_of
    from kproxy.inspection.inspector import Inspector
    from kproxy.inspection.needs import EVERYTHING
    from kproxy.inspection.record_budget import CAPTURE_ADVANCE, RecordBudget
    from kproxy.outputs.progress import ReadingProgress
    from kproxy.trace.lines import Detail

    payload_options.check_filter(args)
    needs = EVERYTHING if args.fail_on or args.select or args.ignore else output.needs
    detail = output.detail(payload_options.detail_of(args))
    inspector = Inspector(
        stem_of(name),
        detail,
        excerpts=args.findings,
        frames=args.frames,
        needs=needs,
        record_values=payload_options.record_values_of(args),
        withholds_records=not (args.payloads or args.frames or detail is Detail.RAW),
        record_budget=RecordBudget(CAPTURE_ADVANCE),
    )
    with ReadingProgress(Path(name)) as bar, Capture(source, name, owned=False, advance=bar.advance) as capture:
        bar.reading = capture
        lines = CaptureLines(
            capture,
            inspector,
            ports=frozenset(args.port),
            keylog=args.keylog,
            flow_ids=flow_ids,
        )
        if sys.stdout.isatty() and not (args.findings or args.html):
            for line in lines:
                bar.output_follows()
                yield line
        else:
            yield from lines
    output.end(lines.packets)
    if capture.truncated:
        _report(output, f"{name}: {capture.truncated}; everything before that point was read")
    for reason, count in lines.skipped.items():
        if reason not in _EXPECTED:
            _report(output, f"{name}: {count} packets skipped: {reason}")
    _report_other(name, lines.dissector, lines.packets, args, output)


def _report(output: Output, sentence: str) -> None:
    warn(sentence)
    output.note(sentence)


#: Expected reasons to skip a packet, which are not reported.
_MAX_NAMED = 5  # servers in a sentence about failed connections
_EXPECTED = frozenset({"not IP", "not TCP"})


def _failed_attempts(failed: Counter[tuple[str, str]]) -> str:
    """A sentence about connections that were never established, by server and outcome."""
    named = [f"{server} {outcome} ({count})" for (server, outcome), count in failed.most_common(_MAX_NAMED)]
    more = f", and {len(failed) - len(named)} more" if len(failed) > len(named) else ""
    count = failed.total()
    were = "s were" if count > 1 else " was"
    return f"{count} connection{were} attempted but never established: {', '.join(named)}{more}"


def _report_other(name: str, dissector: Dissector, packets: int, args: argparse.Namespace, output: Output) -> None:
    other = ", ".join(f"{count} {kind}" for kind, count in dissector.other.most_common())
    if dissector.flows == 0:
        where = f" on port {', '.join(map(str, args.port))}" if args.port else ""
        beside = f"; other TCP connections: {other}" if other else ""
        _report(output, f"{name}: no Kafka connection{where} in {packets} packets{beside}")
        if dissector.failed:
            _report(output, f"{name}: {_failed_attempts(dissector.failed)}")
        if dissector.other["TLS"] and not args.keylog:
            _report(output, f"{name}: Kafka may be inside TLS: decrypt it with --keylog FILE")
    if dissector.undecrypted:
        more = f" (and {len(dissector.undecrypted) - 1} more)" if len(dissector.undecrypted) > 1 else ""
        _report(output, f"{name}: not decrypted: {dissector.undecrypted[0]}{more}")
