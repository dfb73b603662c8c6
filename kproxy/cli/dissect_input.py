"""Reads one input of `kproxy dissect`, a capture or a trace, and writes its lines to the output."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kproxy.cli import payload_options
from kproxy.cli.combinations import refuse
from kproxy.cli.options import limits_of
from kproxy.errors import UserError
from kproxy.outputs.stderr import warn
from kproxy.outputs.streams import is_output_error

if TYPE_CHECKING:
    from kproxy.capture.kafka_flows import Dissector
    from kproxy.outputs.finding_selection import Selection
    from kproxy.outputs.output import Output
    from kproxy.trace.lines import Line

_MAX_NAMED = 5  # servers that a sentence about failed connections names at most
#: Expected reasons to skip a packet, which are not reported.
_EXPECTED = frozenset({"not IP", "not TCP"})


class Outcome(NamedTuple):
    """Whether an input has a finding at or above `--fail-on`, and whether it is wholly or partly unreadable."""

    has_finding: bool
    is_unreadable: bool


class _NotACaptureError(UserError):
    """An option does not apply to a trace, so the command cannot do what was asked for."""


def output_of(args: argparse.Namespace, selection: Selection, *, headings: bool) -> Output:
    """Make the output that the options describe.

    Raises:
        UserError: A filter or field is invalid, or options cannot be combined.
    """
    from kproxy.outputs.line_outputs import OutputOptions, filter_for, output_for

    line_filter = filter_for(args.filter)
    if args.html:
        from kproxy.html.page import HtmlOutput

        if conflicting := next(
            (name for name in ("json", "fields", "findings", "format") if getattr(args, name)), None
        ):
            raise UserError(f"use --html or --{conflicting}, not both")
        return HtmlOutput(sys.stdout, line_filter)
    if args.findings and args.fields:
        raise UserError("use --findings or --fields, not both")
    if args.findings and args.json and args.format not in (None, "json"):
        raise UserError(f"use --json or --format {args.format}, not both")
    if args.format and not args.findings:
        raise UserError(f"--format {args.format} needs --findings")
    output_options = OutputOptions(
        line_filter,
        json=args.json,
        verbose=args.verbose,
        payloads=args.payloads,
        local_time=args.local_time,
        quiet=args.quiet,
        headings=headings,
        fields=tuple(name.strip() for name in (args.fields or "").split(",") if name.strip()),
        report=(args.format or ("json" if args.json else "text")) if args.findings else None,
    )
    return output_for(output_options, sys.stdout, selection)


def dissect_input(
    name: str,
    was_named: bool,
    flow_ids: Iterator[int],
    args: argparse.Namespace,
    output: Output,
    selection: Selection,
    *,
    on_line: Callable[[Line], None] | None = None,
) -> Outcome:
    """Write the lines of one input to `output`, and pass each line to `on_line`.

    Raises:
        UserError: The input was named and cannot be read, or an option does not apply to it.
    """
    output.begin(display_name(name))
    output.analysed.begin(display_name(name))
    has_finding = is_unreadable = False

    def report_damage(sentence: str) -> None:
        nonlocal is_unreadable
        is_unreadable = True
        _report(output, sentence)

    try:
        for batch in _lines(name, flow_ids, args, output, report_damage):
            lines = selection.filter(batch)
            if on_line is not None:
                for line in lines:
                    on_line(line)
            shown_lines = output.write_all(lines)
            has_finding = has_finding or any(map(selection.fails_for, shown_lines))
    except UserError as error:
        if was_named or isinstance(error, _NotACaptureError):
            output.flush()  # the lines of earlier inputs
            raise
        report_damage(str(error))
    return Outcome(has_finding, is_unreadable)


def display_name(name: str) -> str:
    return "standard input" if name == "-" else name


def _lines(
    name: str, flow_ids: Iterator[int], args: argparse.Namespace, output: Output, report_damage: Callable[[str], None]
) -> Iterator[Sequence[Line]]:
    """Yield the lines of an input, as many at a time as are ready."""
    from kproxy.io.pipe import PipeReader
    from kproxy.trace.reader import open_trace

    try:
        # The `with` statement below closes the file.
        if name == "-":
            source = cast("BinaryIO", PipeReader(sys.stdin.fileno(), output.flush))
        else:
            source = Path(name).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    with source:
        displayed_name = display_name(name)
        try:
            traced = open_trace(source, displayed_name, partial(_report, output), report_damage)
            if traced.lines is not None:
                if args.payloads:
                    raise _NotACaptureError(
                        f"{displayed_name} is a trace, and --payloads decodes the records of captures only: pass "
                        "--payloads to the proxy that writes the trace, and leave it out here"
                    )
                if args.files == [name]:
                    refuse(
                        args,
                        ("port", "keylog", "rule"),
                        f"is for captures, and {displayed_name} is a trace: leave it out",
                    )
                yield from ([line] for line in traced.lines)
                output.end()
            else:
                yield from _capture_lines(traced.source, displayed_name, flow_ids, args, output)
        except OSError as error:
            if is_output_error(error):  # from `output.end`, or from a flush while a pipe is empty
                raise
            raise UserError(f"{displayed_name}: {error.strerror or error}") from None


def _capture_lines(
    source: BinaryIO, name: str, flow_ids: Iterator[int], args: argparse.Namespace, output: Output
) -> Iterator[Sequence[Line]]:
    from kproxy.capture import Capture
    from kproxy.capture.lines import CaptureLines, stem_of
    from kproxy.inspection.inspector import Inspector
    from kproxy.inspection.needs import EVERYTHING
    from kproxy.inspection.record_budget import CAPTURE_ADVANCE, RecordBudget
    from kproxy.outputs.progress import ReadingProgress
    from kproxy.trace.lines import Detail

    payload_options.check_filter(args)
    can_fail = args.fail_on not in (None, "never")
    needs = EVERYTHING if can_fail or args.select or args.ignore else output.needs
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
        limits=limits_of(args),
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
        shows_lines = sys.stdout.isatty() and not (args.findings or args.html)
        for batch in lines.batches():
            if shows_lines:
                bar.stop_drawing()
            yield batch
    output.end(lines.packets)
    if capture.truncated:
        _report(output, f"{name}: {capture.truncated}; everything before that point was read")
    for reason, count in lines.skipped.items():
        if reason not in _EXPECTED:
            _report(output, f"{name}: {count} packets skipped: {reason}")
    _report_unreadable_traffic(name, lines.dissector, lines.packets, args, output)


def _report(output: Output, sentence: str) -> None:
    warn(sentence)
    output.note(sentence)


def _failed_attempts(failed: Counter[tuple[str, str]]) -> str:
    """Return a sentence about connections that were never established, by server and outcome."""
    attempts = [f"{server} {outcome} ({count})" for (server, outcome), count in failed.most_common(_MAX_NAMED)]
    remainder_text = f", and {len(failed) - len(attempts)} more" if len(failed) > len(attempts) else ""
    count = failed.total()
    suffix = "s were" if count > 1 else " was"
    return f"{count} connection{suffix} attempted but never established: {', '.join(attempts)}{remainder_text}"


def _report_unreadable_traffic(
    name: str, dissector: Dissector, packets: int, args: argparse.Namespace, output: Output
) -> None:
    other_kinds = ", ".join(f"{count} {kind}" for kind, count in dissector.other.most_common())
    if dissector.flows == 0:
        port_text = f" on port {', '.join(map(str, args.port))}" if args.port else ""
        others_text = f"; other TCP connections: {other_kinds}" if other_kinds else ""
        _report(output, f"{name}: no Kafka connection{port_text} in {packets} packets{others_text}")
        if dissector.failed:
            _report(output, f"{name}: {_failed_attempts(dissector.failed)}")
        if dissector.other["TLS"] and not args.keylog:
            _report(output, f"{name}: Kafka may be inside TLS: decrypt it with --keylog FILE")
    if dissector.undecrypted:
        remainder_text = f" (and {len(dissector.undecrypted) - 1} more)" if len(dissector.undecrypted) > 1 else ""
        _report(output, f"{name}: not decrypted: {dissector.undecrypted[0]}{remainder_text}")
