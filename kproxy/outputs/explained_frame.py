"""An explained frame as text (offset, hex, field, value, meaning) and as JSON, and the findings to show with it."""

from __future__ import annotations

from typing import Any, TextIO

from dissectors.wire.paths import render
from kproxy.inspection.event_lines import finding_entry
from kproxy.inspection.explain import NOT_DECODED, NOT_SHOWN, ExplainedRow, Explanation
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.findings import full_rows
from kproxy.outputs.text import Piece, painter, value_text
from kproxy.trace.formatting import safe
from kproxy.trace.lines import FindingEntry
from kproxy.verdict.as_json import finding_as_json
from kproxy.verdict.ranking import best_first

#: Bytes per row of hex, and the maximum number of bytes shown of a value.
WIDTH = 8
MAX_BYTES = 256
_VALUE_WIDTH = 60


def selected_findings(explanation: Explanation, selection: Selection) -> list[FindingEntry]:
    """Return the selected findings, the most important first."""
    selected = (finding for finding in explanation.findings if selection.shows(finding.code))
    return best_first(finding_entry(finding, explanation.frame) for finding in selected)


def is_failure(explanation: Explanation, findings: list[FindingEntry], selection: Selection) -> bool:
    """Whether ``--fail-on`` is reached. A frame that does not decode counts as an error, regardless of its findings."""
    decode_failures = ["error"] if explanation.error or explanation.message.opaque else []
    severities = [finding.severity for finding in findings]
    return any(selection.fails(severity) for severity in decode_failures + severities)


def explanation_json(explanation: Explanation, findings: list[FindingEntry]) -> dict[str, Any]:
    """Return the explanation as an object: the message, its fields with spans, any decode error, and the findings."""
    message = explanation.message
    entry: dict[str, Any] = {
        "api": message.api,
        "api_version": message.version,
        "type": "request" if message.is_request else "response",
        "header": message.header,
        "body": explanation.body,
        "fields": [
            {"path": row.path, "span": [row.start, row.end], "value": row.value}
            | ({"meaning": row.meaning} if row.meaning else {})
            for row in explanation.rows
        ],
    }
    if explanation.error:
        error = explanation.error
        entry["error"] = {"message": str(error), "offset": error.offset, "path": render(error.path)}
    elif message.opaque:
        entry["error"] = {
            "message": message.opaque,
            "offset": message.body_start - 4 * explanation.prefix_missing,
            "path": "",
        }
    if explanation.prefix_missing:
        entry["length_prefix"] = "missing"
    entry["findings"] = [finding_as_json(finding) for finding in findings]
    return entry


def write_explanation(explanation: Explanation, findings: list[FindingEntry], file: TextIO, note: str = "") -> None:
    """Write the fields as a table, with the codes of findings next to their bytes, then the findings in full.

    `note` is appended to the first line.
    """
    paint = painter(file)
    message = explanation.message
    kind = "request" if message.is_request else "response"
    output_rows: list[list[Piece]] = [
        [(f"{message.api} v{message.version} {kind}", "name"), (f", {len(explanation.frame)} bytes{note}", "")]
    ]
    if message.diagnosis is not None and explanation.error is None:  # an unlikely diagnosis is not applied
        output_rows.append([("decoded as actually written: ", "dim"), (safe(str(message.diagnosis.edit)), "warning")])
    path_width = max((len(row.path) for row in explanation.rows), default=0)
    value_width = min(max((len(_row_value_text(row)) for row in explanation.rows), default=0), _VALUE_WIDTH)
    written_end = 0
    marks = _marks(explanation.rows, findings)
    for row in explanation.rows:
        is_repeated = row.start < written_end  # the field is inside compressed bytes, which are already shown
        row_lines = _field_rows(b"" if is_repeated else explanation.frame, row, path_width, value_width)
        row_lines[0] += marks.pop(id(row), [])
        output_rows.extend(row_lines)
        written_end = max(written_end, row.end)
    if message.opaque:
        output_rows.append([(f"not decoded: {message.opaque}", "warning")])
    if explanation.error and not findings:
        output_rows.append([(str(explanation.error), "error")])
    for finding in findings:
        output_rows += [[], *full_rows(finding)]
    for pieces in output_rows:
        file.write(paint(pieces) + "\n")


def _marks(rows: list[ExplainedRow], findings: list[FindingEntry]) -> dict[int, list[Piece]]:
    """Return the marks of each finding for the first row that its span overlaps, by the `id` of that row."""
    marks: dict[int, list[Piece]] = {}
    for finding in findings:
        if finding.span is None:
            continue
        start, end = finding.span[0], max(finding.span[1], finding.span[0] + 1)
        row = next((row for row in rows if row.start < end and start < row.end), None)
        if row is not None:
            marks.setdefault(id(row), []).append((f"  <- {finding.code}", finding.severity))
    return marks


def _field_rows(frame: bytes, row: ExplainedRow, path_width: int, value_width: int) -> list[list[Piece]]:
    """Return the rows of text for a field; without `frame`, its bytes are not shown."""
    visible = frame[row.start : min(row.end, row.start + MAX_BYTES)]
    hides_bytes = not frame
    chunks = [visible[index : index + WIDTH] for index in range(0, len(visible), WIDTH)] or [b""]
    style = "warning" if row.path in (NOT_DECODED, NOT_SHOWN) else "" if row.counts else "name"
    text_rows: list[list[Piece]] = []
    for number, chunk in enumerate(chunks):
        start = row.start + number * WIDTH
        offset_text = " " * 12 if hides_bytes else f"{start:>5} {start:04x}  "
        pieces: list[Piece] = [(offset_text, "dim"), (f"{chunk.hex(' '):<{WIDTH * 3}}", "request")]
        if number == 0:
            pieces += [(f" {safe(row.path):<{path_width}}", style), (f"  {_row_value_text(row):<{value_width}}", ""),
                       (f"  {safe(row.meaning)}" if row.meaning else "", "topic")]  # fmt: skip
        text_rows.append(pieces)
    if row.end - row.start > MAX_BYTES and not hides_bytes:
        text_rows.append([(f"{'':>12}... {row.end - row.start - MAX_BYTES} more bytes", "dim")])
    return text_rows


def _row_value_text(row: ExplainedRow) -> str:
    value: Any = row.value
    if row.path in (NOT_DECODED, NOT_SHOWN):
        return ""
    if row.counts:
        return f"({value})"
    return value_text(value, _VALUE_WIDTH)
