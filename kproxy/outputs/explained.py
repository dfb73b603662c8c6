"""An explained frame as text: offset, hex, field, value, meaning."""

from __future__ import annotations

from typing import Any, TextIO

from kproxy.eventlines import finding_entry
from kproxy.explain import Explanation, Row
from kproxy.outputs.text import Piece, finding_rows, painter, safe

#: Bytes in a row of hex, and of a long value that are shown.
WIDTH = 8
MOST_BYTES = 256
_VALUE = 60


def write_explanation(explanation: Explanation, file: TextIO) -> None:
    """Write the table, then the findings."""
    paint = painter(file)
    message = explanation.message
    kind = "request" if message.is_request else "response"
    text: list[list[Piece]] = [
        [(f"{message.api} v{message.version} {kind}", "name"), (f", {len(explanation.frame)} bytes", "")]
    ]
    path = max((len(row.path) for row in explanation.rows), default=0)
    value = min(max((len(_value(row)) for row in explanation.rows), default=0), _VALUE)
    shown = 0
    for row in explanation.rows:
        again = row.start < shown  # it was read from compressed bytes, which stand above
        text.extend(_rows(b"" if again else explanation.frame, row, path, value))
        shown = max(shown, row.end)
    if message.opaque:
        text.append([(f"not decoded: {message.opaque}", "warning")])
    if explanation.error and not explanation.findings:
        text.append([(str(explanation.error), "error")])
    for finding in explanation.findings:
        text.extend(finding_rows(finding_entry(finding)))
    for pieces in text:
        file.write(paint(pieces) + "\n")


def _rows(frame: bytes, row: Row, path: int, value: int) -> list[list[Piece]]:
    shown = frame[row.start : min(row.end, row.start + MOST_BYTES)]
    within = not frame
    chunks = [shown[at : at + WIDTH] for at in range(0, len(shown), WIDTH)] or [b""]
    style = "warning" if row.path == "(not decoded)" else "" if row.counts else "name"
    made: list[list[Piece]] = []
    for number, chunk in enumerate(chunks):
        start = row.start + number * WIDTH
        place = " " * 12 if within else f"{start:>5} {start:04x}  "
        pieces: list[Piece] = [(place, "dim"), (f"{chunk.hex(' '):<{WIDTH * 3}}", "request")]
        if number == 0:
            pieces += [(f" {safe(row.path):<{path}}", style), (f"  {_value(row):<{value}}", ""),
                       (f"  {safe(row.meaning)}" if row.meaning else "", "topic")]  # fmt: skip
        made.append(pieces)
    if row.end - row.start > MOST_BYTES and not within:
        made.append([(f"{'':>12}... {row.end - row.start - MOST_BYTES} more bytes", "dim")])
    return made


def _value(row: Row) -> str:
    value: Any = row.value
    if row.path == "(not decoded)":
        return ""
    if row.counts:
        return f"({value})"
    if isinstance(value, str):
        text = safe(value[:_VALUE])
        return f'"{text}"' if len(value) <= _VALUE else f'"{text[: _VALUE - 12]}"...'
    if isinstance(value, bytes | memoryview):
        text = bytes(value[:_VALUE]).decode("utf-8", "replace")
        size = f"{len(value)} byte{'s' * (len(value) != 1)}"
        return f'"{text}" ({size})' if value and text.isprintable() and len(value) <= _VALUE - 12 else size
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))
