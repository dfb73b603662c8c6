"""Trace lines as text: one row per frame, findings below it, and optionally the decoded body."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from rich.color import ColorSystem
from rich.style import Style

from dissectors.bounded import BoundedDict
from kproxy.inspection.late_responses import WaitingResponse
from kproxy.outputs.console import Console
from kproxy.outputs.decoded_text import TOMBSTONE, data_text, facts, is_tombstone, problem
from kproxy.outputs.record_rows import record_rows
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RepeatedFinding,
    RequestLine,
    ResponseLine,
    StallLine,
    TopicEntry,
)
from kproxy.trace.record_values import is_decoded
from kproxy.trace.time_display import UTC_DISPLAY, TimeDisplay

#: A piece of text and its style, a key of `STYLES`.
Piece = tuple[str, str]

STYLES = {
    "": Style(),
    "dim": Style(dim=True),
    "request": Style(color="cyan"),
    "response": Style(color="green"),
    "name": Style(bold=True),
    "error": Style(color="red", bold=True),
    "warning": Style(color="yellow"),
    "info": Style(color="blue"),
    "topic": Style(color="magenta"),
}

#: Limits for a body: lines, and characters per value and per decoded value of a record.
BODY_LINES = 60
VALUE_CHARACTERS = 120
RECORD_CHARACTERS = 400


#: The expected and actual values are shown if together they have at most this many characters.
SIDES_CHARACTERS = 80
#: How many ongoing stalls to remember with their findings, so that their ends need only one short row.
MAX_STALLS = 1_000
#: Columns for the name of a frame and its correlation id; longer ones move the rest of their row.
_NAME_WIDTH = 28
#: The APIs whose responses accept a login; None is a SASL token without a header.
_LOGIN = frozenset({"SaslAuthenticate", None})


#: The rule about secrets that kproxy withholds. Its findings are in the trace and in summaries.
WITHHELD = "K004"


class TextOutput:
    """Writes lines as text.

    Args:
        file: The output; with colours only if it is a terminal and NO_COLOR is not set.
        quiet: Write only findings and gaps; not the findings that a secret is withheld (K004), which is not a fault.
        verbose: Also write the client of responses, what was rewritten, and bodies.
        payloads: Write a row for each record, unless bodies are written.
        rows_above: Returns rows to write before those of a line.
        clock: How times are shown.
    """

    def __init__(
        self,
        file: TextIO,
        *,
        quiet: bool = False,
        verbose: bool = False,
        payloads: bool = False,
        rows_above: Callable[[Line], Iterable[list[Piece]]] = lambda _: (),
        clock: TimeDisplay = UTC_DISPLAY,
    ) -> None:
        self._file = file
        self._rows_above = rows_above
        self._clock = clock
        self._is_labelled = not clock.is_local and not file.isatty()  # programs read text without the label
        self._quiet = quiet
        self._verbose = verbose
        self._payloads = payloads and not verbose and not quiet
        self._paint = painter(file)
        self._last_finding = ""
        self._stalls: BoundedDict[tuple[str | None, str, int | None], str] = BoundedDict(MAX_STALLS)  # their findings

    def shows(self, line: Line) -> bool:
        """Whether a line of the trace has any rows of text."""
        return (
            not self._quiet
            or any(finding.code != WITHHELD for finding in getattr(line, "findings", ()))
            or isinstance(line, GapLine | FindingLine | StallLine)
        )

    def write(self, line: Line) -> None:
        """Write the rows of one line, if it has any."""
        if rows := [*self.rows(line)]:
            self._label_times(line.ts)
            self.write_rows([*self._rows_above(line), *rows])

    def _label_times(self, ts: str) -> None:
        """Name the time zone once, before the first row."""
        if not self._is_labelled:
            self._is_labelled = True
            hint = "" if self._clock.is_local else "; --local-time shows local times"
            self.write_rows([[(f"times are {self._clock.label(ts)}{hint}", "dim")]])

    def write_rows(self, rows: Iterable[list[Piece]]) -> None:
        """Write rows of pieces."""
        self._file.write("".join(self._paint(row) + "\n" for row in rows))

    def show_waiting(self, waiting: WaitingResponse, ts: str) -> None:
        """Show that a request is still without a response at `ts`, unless quiet."""
        if not self._quiet:
            self._label_times(ts)
            self.write_rows([self._waiting_row(waiting, ts), [(" " * 29 + waiting.wait.text, "dim")]])

    def _waiting_row(self, waiting: WaitingResponse, ts: str) -> list[Piece]:
        request, seconds, other_requests, _ = waiting
        text = f"still waiting for {_frame_name(request)}{_correlation_text(request)} ({seconds} s)"
        more_text = f"; {other_requests} more wait{'s' * (other_requests == 1)} behind it" if other_requests else ""
        return [*self._row_start(ts, request.connection_id), (". ", "warning"), (text, "warning"), (more_text, "dim")]

    def rows(self, line: Line) -> Iterator[list[Piece]]:
        """Yield the rows of text for a line of the trace."""
        if not self.shows(line) or (isinstance(line, StallLine) and self._is_already_reported(line)):
            return
        yield self._row(line)
        if isinstance(line, FRAME_LINES):
            if self._verbose and not self._quiet and line.body is not None:
                for text in _body_lines(line.body):
                    yield [(" " * 27 + text, "dim")]
            elif self._payloads and line.body is not None:
                for row in record_rows(line):
                    yield [(" " * 27, ""), *row]
            for finding in line.findings:
                if not (self._quiet and finding.code == WITHHELD):
                    yield from finding_rows(finding)
            if line.repeats and not self._quiet:
                yield _repeats_row(line.repeats)
        elif isinstance(line, FindingLine):
            self._last_finding = line.message
            if line.code.startswith("G"):
                self._stalls[line.group_id, line.connection_id, line.offset] = f"{line.code} {line.name}"
            yield from _advice_rows(line, 29)
        elif isinstance(line, StallLine):
            if (key := _stall_key(line)) not in self._stalls:
                yield _hint_row(line.hint, 29)
            elif line.until is not None:
                del self._stalls[key]

    def _is_already_reported(self, line: StallLine) -> bool:
        """Whether the finding before a stall has the same message; traces from older versions lack that finding."""
        return line.until is None and self._last_finding.endswith(line.message)

    def _row(self, line: Line) -> list[Piece]:
        pieces = self._row_start(line.ts, line.connection_id)
        if isinstance(line, FRAME_LINES):
            pieces += self._frame_pieces(line)
        elif isinstance(line, OpenLine):
            pieces += [("+ ", "info"), (f"open   {line.client} -> {line.server}", "")]
            if line.midstream:
                pieces.append(("  (already open)", "dim"))
        elif isinstance(line, CloseLine):
            ending = " ".join(part for part in (line.how, f"by {line.by}" if line.by else None) if part)
            counts_text = f"{line.requests} requests, {line.responses} responses"
            pieces += [
                ("- ", "info"),
                (f"close  {line.client} -> {line.server}  {ending}", ""),
                (f"  {counts_text}", "dim"),
            ]
            if line.unanswered:
                pieces.append((f"  {line.unanswered} unanswered", "warning"))
            if line.repeated:
                repeats = ", ".join(f"{entry.code} {entry.count}x" for entry in line.repeated)
                pieces.append((f"  repeated: {repeats}", "dim"))
        elif isinstance(line, GapLine):
            frames = f", {line.frames} frames" if line.frames else ""
            missing_text = (
                f"{line.direction}: {line.bytes} bytes{frames} not inspected: " if line.bytes or frames else ""
            )
            pieces += [("! gap    ", "warning"), (missing_text + safe(line.reason), "")]
        elif isinstance(line, StallLine):
            reported_finding = self._stalls.get(_stall_key(line))
            if line.until is not None and reported_finding is not None:
                text = f"over after {duration(line.duration_us)}: {safe(reported_finding)}"
                return [*pieces, (f"! {text}", "info"), (f"  group {safe(line.group_id) or '(empty)'}", "dim")]
            ended_text = "" if line.until is None else f"  (ended after {duration(line.duration_us)})"
            pieces += [(f"! stall {safe(line.stall)}", line.severity)]
            pieces += [(f"  group {safe(line.group_id) or '(empty)'}: {safe(line.message)}", ""), (ended_text, "dim")]
        else:
            pieces += [(f"! {line.code} {line.name}", line.severity), (f"  {safe(line.message)}", "")]
        return pieces

    def _row_start(self, ts: str, connection_id: str) -> list[Piece]:
        """Return the start of each row: time and connection."""
        return [(self._clock.time(ts), "dim"), (f" {'#' + connection_id.rpartition('-')[2]:>6} ", "dim")]

    def _frame_pieces(self, line: RequestLine | ResponseLine) -> Iterator[Piece]:
        is_request = isinstance(line, RequestLine)
        yield ("> " if is_request else "< "), "request" if is_request else "response"
        name, identity = _frame_name(line), _correlation_text(line)
        yield name, "name"
        yield identity.ljust(_NAME_WIDTH - len(name)), "dim"
        yield f"{size(line.size):>9}", ""
        yield f"{'' if is_request else duration(getattr(line, 'latency_us', None)):>10}  ", ""
        yield from self._facts(line)

    def _facts(self, line: RequestLine | ResponseLine) -> Iterator[Piece]:
        if isinstance(line, RequestLine) or self._verbose:
            for client in (line.client_id, " ".join(filter(None, (line.software_name, line.software_version)))):
                if client:
                    yield f"{safe(client)}  ", "dim"
        if line.group_id is not None:
            yield f"group {safe(line.group_id) or '(empty)'}  ", ""
        if line.transactional_id:
            yield f"transaction {safe(line.transactional_id)}  ", ""
        if line.topics:
            yield topics_text(line.topics) + "  ", "topic"
        if isinstance(line, RequestLine):
            if line.acks is not None:
                yield f"acks={line.acks}  ", "dim"
        else:
            if line.principal and line.api in _LOGIN:
                yield f"{safe(line.principal)}  ", ""
            if lag := sum(entry.lag or 0 for entry in line.topics):
                yield f"lag {lag}  ", "dim"
            if line.throttle_time_ms:
                yield f"throttled {line.throttle_time_ms} ms  ", "warning"
            if line.errors:
                names = dict.fromkeys(error.name for error in line.errors)
                yield ", ".join(names) + "  ", "error"
        if line.rewritten:
            changes = ", ".join(f"{change.path} {change.was} -> {change.now}" for change in line.rewritten)
            yield f"rewritten: {safe(changes)}  " if self._verbose else "rewritten  ", "dim"
        if line.not_decoded:
            yield f"({safe(line.not_decoded)})", "dim"


def _stall_key(line: StallLine) -> tuple[str | None, str, int | None]:
    return line.group_id, line.connection_id, line.request_offset


def _frame_name(line: RequestLine | ResponseLine) -> str:
    return f"{line.api} v{line.api_version}" if line.api else "?"


def _correlation_text(line: RequestLine | ResponseLine) -> str:
    """Return the correlation id as text that follows the name of a frame."""
    return "" if line.correlation_id is None else f" #{line.correlation_id}"


def finding_rows(finding: FindingEntry) -> Iterator[list[Piece]]:
    """Yield the rows of a finding below its frame: message, expected and actual value if short, and hint."""
    location = f" [bytes {finding.span[0]}..{finding.span[1]}]" if finding.span else ""
    yield [(" " * 22, ""), (f"{finding.code} {finding.name}", finding.severity), (f"  {safe(finding.message)}", ""),
           (location, "dim")]  # fmt: skip
    yield from _advice_rows(finding, 27)


def _repeats_row(repeats: list[RepeatedFinding]) -> list[Piece]:
    """Return the row with the findings that a frame repeats, and the connections that had them first."""
    row: list[Piece] = [(" " * 22, "")]
    for number, repeat in enumerate(repeats):
        location = "" if repeat.connection_id is None else f" (first in #{repeat.connection_id.rpartition('-')[2]})"
        row += [(", " * (number > 0), "dim"), (f"{repeat.code} again", repeat.severity), (safe(location), "dim")]
    return row


def _advice_rows(finding: FindingEntry | FindingLine, indent: int) -> Iterator[list[Piece]]:
    expected, actual = finding.expected, finding.got
    if expected and actual and len(expected) + len(actual) <= SIDES_CHARACTERS:
        yield [(" " * indent + "expected ", "dim"), (safe(expected), ""), (", got ", "dim"), (safe(actual), "")]
    if finding.hint:
        yield _hint_row(finding.hint, indent)


def _hint_row(hint: str, indent: int) -> list[Piece]:
    return [(" " * indent + "hint: ", "dim"), (safe(hint), "")]


def painter(file: TextIO) -> Callable[[list[Piece]], str]:
    """Return a function that renders a row of pieces for a file, with colours if it is a terminal that supports them.

    Every text output ends here, so it escapes whatever could control a terminal, even in pieces from a forged trace.
    """
    console = Console(file=file)
    system = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}.get(
        console.color_system or ""
    )
    if system is None or console.no_color or not console.is_terminal:
        return lambda pieces: safe("".join(text for text, _ in pieces)).rstrip()
    return lambda pieces: "".join(
        STYLES.get(style, STYLES[""]).render(safe(text), color_system=system) for text, style in pieces
    )


def topics_text(entries: list[TopicEntry], maximum: int = 3) -> str:
    """Return the topics of a frame as text: ``orders[0,1] 12 records 3.4 KB, payments[2] +4 more``."""
    texts = []
    for entry in entries[:maximum]:
        text = safe(entry.topic or entry.topic_id or "?")
        if entry.partitions:
            partitions_text = ",".join(map(str, entry.partitions[:6]))
            text += f"[{partitions_text}{',..' if len(entry.partitions) > 6 else ''}]"
        if entry.bytes:
            text += f" {entry.records} record{'s' * (entry.records != 1)} {size(entry.bytes)}"
        texts.append(text)
    more_count = len(entries) - maximum
    return ", ".join(texts) + (f" +{more_count} more" if more_count > 0 else "")


def value_text(value: Any, maximum: int = 60) -> str:
    """Return a decoded value as one line: ``42``, ``null``, ``"orders"``, ``"key-1" (5 bytes)``, ``16 bytes``."""
    if isinstance(value, str):
        text = safe(value[:maximum])
        return f'"{text}"' if len(value) <= maximum else f'"{text[: maximum - 12]}"...'
    if isinstance(value, bytes | memoryview):
        text = bytes(value[:maximum]).decode("utf-8", "replace")
        size_text = f"{len(value)} byte{'s' * (len(value) != 1)}"
        return f'"{text}" ({size_text})' if value and text.isprintable() and len(value) <= maximum - 12 else size_text
    return _WORDS.get(str(value), str(value))


def _body_lines(body: dict[str, Any]) -> Iterator[str]:
    rows = _value_lines(body, "")
    for count, row in enumerate(rows):
        if count == BODY_LINES:
            yield "... (use --detail full to get all of it in the trace)"
            return
        yield row


def _value_lines(value: Any, indent: str) -> Iterator[str]:
    """Yield a body as indented ``name: value`` lines."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        label = f"{indent}{safe(name)}:" if isinstance(name, str) else f"{indent}[{name}]"
        if is_decoded(item):
            yield f"{label} {facts(item)}  {data_text(item['data'], RECORD_CHARACTERS)}"
            if sentence := problem(item):
                yield f"{indent}  {sentence}"
        elif isinstance(item, dict | list) and item:
            yield label
            yield from _value_lines(item, indent + "  ")
        elif name == "value" and is_tombstone(value):
            yield f"{label} {TOMBSTONE}"
        else:
            yield f"{label} {_scalar_text(item)}"


def _scalar_text(value: Any) -> str:
    if isinstance(value, bytes | memoryview):
        raw = bytes(value[:VALUE_CHARACTERS])
        text = raw.decode("utf-8", "replace")
        if not text.isprintable():
            text = "base64 " + base64.b64encode(raw).decode("ascii")
        return f"{text}{'...' if len(value) > VALUE_CHARACTERS else ''} ({len(value)} bytes)"
    if isinstance(value, str):
        return safe(value[:VALUE_CHARACTERS]) + ("..." if len(value) > VALUE_CHARACTERS else "")
    return _WORDS.get(str(value), str(value))


_WORDS = {"None": "null", "True": "true", "False": "false"}
