"""Findings in full, like compiler messages (sentence, location, bytes with carets, edit, hint)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dissectors.edits import EditError, parse
from kproxy.inspection.event_lines import ROW_BYTES
from kproxy.outputs.text import Piece
from kproxy.trace.formatting import safe
from kproxy.trace.lines import EditEntry, ExcerptEntry, FindingEntry

#: The maximum number of alternative diagnoses to show.
_MAX_RIVALS = 3
_MARGIN = " " * 12


def sentence(edit: EditEntry) -> str:
    """Return an edit as a sentence; only its kind and field if it is from a later version of kproxy."""
    try:
        return str(parse(msgspec.to_builtins(edit)))
    except EditError:
        return f"{edit.kind} of {edit.field}" + (f", and {sentence(edit.then)}" if edit.then else "")


def full_rows(finding: FindingEntry, locations: Iterable[str] = ()) -> Iterator[list[Piece]]:
    """Yield the rows of a finding in full. `locations` are lines about its location, besides its field and span."""
    yield [(finding.severity, finding.severity), (": ", ""), (f"{finding.code} {finding.name}", finding.severity),
           (": ", ""), (safe(finding.message), "name")]  # fmt: skip
    for number, line in enumerate(filter(None, (*locations, _location_text(finding)))):
        yield [("  --> " if number == 0 else "      ", "dim"), (safe(line), "")]
    if finding.excerpt is not None and finding.span is not None:
        yield from _excerpt_rows(finding.excerpt, finding.span, finding.severity)
    for name, note in notes(finding):
        yield [(f"{_MARGIN}= ", "dim"), (f"{name}: ", "name"), (safe(note), "")]


def _location_text(finding: FindingEntry) -> str:
    parts = [finding.path] if finding.path else []
    if finding.span is not None:
        start, end = finding.span
        size = end - start
        parts.append(
            f"bytes {start}..{end} of the frame ({size} byte{'s' * (size != 1)})"
            if size
            else f"byte {start} of the frame"
        )
    return ", ".join(parts)


def notes(finding: FindingEntry) -> Iterator[tuple[str, str]]:
    """Yield the notes of a finding besides its message, as (name, sentence)."""
    if finding.expected:
        yield "expected", finding.expected
    if finding.got:
        yield "got", finding.got
    if finding.edit is not None:
        yield "edit", sentence(finding.edit) + confidence_text(finding.confidence)
    for edit in finding.also:
        yield "same bytes", sentence(edit)
    for edit in finding.rivals[:_MAX_RIVALS]:
        yield "or", sentence(edit) + confidence_text(edit.confidence)
    if (more_count := len(finding.rivals) - _MAX_RIVALS) > 0:
        yield "or", f"{more_count} more"
    if finding.hint:
        yield "hint", finding.hint


def confidence_text(confidence: float | None) -> str:
    """Return the probability of an edit (0 to 1) as a suffix for its text: `` (97% sure)``; empty for None."""
    if confidence is None:
        return ""
    return f" ({'over 99' if confidence > 0.99 else round(100 * confidence)}% sure)"


def excerpt_bytes(excerpt: ExcerptEntry) -> bytes:
    """Return the bytes of an excerpt, empty if it is invalid."""
    try:
        return bytes.fromhex(excerpt.hex)
    except ValueError:
        return b""


def _excerpt_rows(excerpt: ExcerptEntry, span: tuple[int, int], style: str) -> Iterator[list[Piece]]:
    """Yield rows of hex and text, with a row of carets below each row that overlaps the span."""
    data = excerpt_bytes(excerpt)
    width = _column(min(ROW_BYTES, len(data))) - 1
    # An empty span has one caret, where the bytes are missing.
    first = min(span[0] - excerpt.start, len(data))
    end = max(span[1] - excerpt.start, first + 1)
    yield [(f"{_MARGIN}|", "dim")]
    for row_start in range(0, len(data), ROW_BYTES):
        row = data[row_start : row_start + ROW_BYTES]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield [(f"{excerpt.start + row_start:>6} {excerpt.start + row_start:04x} | ", "dim"),
               (f"{_hex(row):<{width}}", "request"), (f" | {text}", "dim")]  # fmt: skip
        is_last = row_start + ROW_BYTES >= len(data)
        caret_start, caret_end = max(first, row_start), min(end, row_start + ROW_BYTES + is_last)
        if caret_start < caret_end:
            first_column, end_column = _column(caret_start - row_start), _column(caret_end - 1 - row_start) + 2
            yield [(f"{_MARGIN}| ", "dim"), (" " * first_column + "^" * (end_column - first_column), style)]
    shown_size = len(data) // ROW_BYTES * ROW_BYTES
    if end > len(data) + 1 and len(data) == shown_size:
        yield [(f"{_MARGIN}| ", "dim"), (f"and {span[1] - excerpt.start - len(data)} more bytes", "dim")]


def _hex(row: bytes) -> str:
    half = ROW_BYTES // 2
    return f"{row[:half].hex(' ')}  {row[half:].hex(' ')}" if len(row) > half else row.hex(" ")


def _column(number: int) -> int:
    """Return the column at which a byte of a row starts."""
    return 3 * number + (number >= ROW_BYTES // 2)
