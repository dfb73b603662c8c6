"""The report as text: each cause like a compiler message, with its number of occurrences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.findings import full_rows
from kproxy.outputs.text import Piece, painter
from kproxy.trace.formatting import RANK, safe
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes


def write(causes: Causes, file: TextIO, analysed: AnalysedInputs) -> None:
    """Write each cause, then the totals."""
    paint = painter(file)
    verdict = causes.verdict()
    for cause in verdict:
        for row in rows(cause):
            file.write(paint(row) + "\n")
        file.write("\n")
    severity_counts = Counter(cause.finding.severity for cause in verdict)
    worst_first = sorted(RANK, key=lambda severity: -RANK[severity])
    totals = ", ".join(
        f"{severity_counts[severity]} info" if severity == "info" else _plural(severity_counts[severity], severity)
        for severity in worst_first
        if severity_counts[severity]
    )
    if totals or not analysed.has_no_frames:
        file.write(f"{totals or 'no findings'}\n")
    file.write(f"{analysed.sentence}\n")


def rows(cause: Cause) -> Iterator[list[Piece]]:
    """Yield the rows of a cause: its first finding in full, then other messages, counts and consequences."""
    yield from full_rows(cause.finding, location_lines(cause))
    for sentence in cause.sentences:
        yield [("            = ", "dim"), ("also: ", "name"), (safe(sentence), "")]
    yield [("            = ", "dim"), ("seen: ", "name"), (cause.seen, "")]
    for consequence in cause.consequences:
        finding = consequence.finding
        yield [("            = ", "dim"), ("so: ", "name"), (f"{finding.code} {finding.name}", finding.severity),
               (f"  {safe(finding.message)}", "")]  # fmt: skip


def location_lines(cause: Cause) -> Iterator[str]:
    """Yield lines about the location of the first finding: connection, frame, stream."""
    position = cause.place
    ends = f" ({position.client} -> {position.server})" if position.client else ""
    yield f"{position.file}: connection {position.connection_id}{ends}"
    frame = (
        f"{position.api or 'unknown'} v{position.api_version} {position.direction}"
        if position.api
        else position.direction or ""
    )
    parts = [
        frame,
        "" if position.correlation_id is None else f"correlation id {position.correlation_id}",
        "" if position.offset is None else f"byte {position.offset} of the stream",
        position.ts,
    ]
    yield ", ".join(filter(None, parts))


def _plural(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"
