"""`kproxy dissect`: decodes captures and traces."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kproxy.cli import options, payload_options
from kproxy.cli.combinations import first_given, refuse
from kproxy.cli.dissect_input import dissect_input, output_of
from kproxy.errors import CLEAN, FINDINGS, NOTHING, USAGE, UserError
from kproxy.outputs.stderr import print_message, warn

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.set_completion(
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
    options.add_capture_options(parser)
    parser.add_argument(
        "--detail", choices=("summary", "full", "raw"), default="summary",
        help="what to keep of each frame: a summary (default), also its decoded body, or also its raw bytes",
    )  # fmt: skip
    # For viewers, which need the bytes of each frame at any detail.
    parser.add_argument("--frames", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the fields of each frame")
    options.add_local_time_option(parser)
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
    options.add_selection_options(parser)
    options.add_limit_option(parser)
    options.add_fail_on_option(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    _check(args)
    selection = options.selection_of(args)
    options.limits_of(args)
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
        from kproxy.verdict.causes import Causes

        summary = RunSummary(Causes())
    status = CLEAN
    flow_ids = itertools.count()  # so that connections of different captures have distinct ids
    if args.jobs > 1 and len(inputs) > 1:
        from kproxy.cli.dissect_jobs import dissect_in_parallel

        results = dissect_in_parallel(inputs, args, output)
    else:
        on_line = None if summary is None else summary.add
        results = (dissect_input(*job, flow_ids, args, output, selection, on_line=on_line) for job in inputs)
    for outcome in results:
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
    has_no_frames = output.analysed.has_no_frames
    if summary is not None and not has_no_frames:
        from kproxy.outputs.console import stderr_console

        console = stderr_console()
        with suppress(OSError):  # like `warn`
            console.print()
            summary.show(console, files=len(inputs))
    is_report = args.findings and not args.json and args.format in (None, "text")
    if (has_no_frames or args.findings) and not is_report:
        print_message(f"kproxy: {output.analysed.sentence}")
    return USAGE if output.analysed.unreadable else NOTHING if has_no_frames and status == CLEAN else status


def _check(args: argparse.Namespace) -> None:
    """Refuse options that have no effect in combination with other options.

    Raises:
        UserError: Such an option was given.
    """
    output_option = first_given(args, ("html", "findings", "fields", "json"))
    if output_option is not None:
        refuse(args, ("verbose", "quiet", "local_time"), f"is for text: leave it out with {output_option}")
    if output_option in ("--html", "--findings"):
        refuse(
            args,
            ("detail",),
            f"has no effect with {output_option}, which always shows the bytes of frames: leave it out",
        )
    if output_option is None and not (args.verbose or args.payloads or args.frames):
        refuse(args, ("detail",), "needs -v, --json or --fields: other text has no bodies of frames")


def _inputs(names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the input files, and whether the user named each one. Unreadable files in a directory are skipped."""
    from kproxy.capture.inputs import NO_INPUT, input_files

    for name in names:
        if name != "-" and Path(name).is_dir():
            paths = input_files(Path(name))
            if not paths:
                raise UserError(f"{name}: {NO_INPUT} in this directory")
            yield from ((str(path), False) for path in paths)
        else:
            yield name, True
