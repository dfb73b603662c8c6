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
    found = causes.verdict()
    for cause in found:
        for row in rows(cause):
            file.write(paint(row) + "\n")
        file.write("\n")
    count = Counter(cause.finding.severity for cause in found)
    worst_first = sorted(RANK, key=lambda severity: -RANK[severity])
    totals = ", ".join(
        f"{count[severity]} info" if severity == "info" else _plural(count[severity], severity)
        for severity in worst_first
        if count[severity]
    )
    if totals or not analysed.is_nothing:
        file.write(f"{totals or 'no findings'}\n")
    file.write(f"{analysed.sentence}\n")


def rows(cause: Cause) -> Iterator[list[Piece]]:
    """The rows of a cause: its first finding in full, then other messages, counts and consequences."""
    yield from full_rows(cause.finding, where(cause))
    for sentence in cause.sentences:
        yield [("            = ", "dim"), ("also: ", "name"), (safe(sentence), "")]
    yield [("            = ", "dim"), ("seen: ", "name"), (cause.seen, "")]
    for consequence in cause.consequences:
        finding = consequence.finding
        yield [("            = ", "dim"), ("so: ", "name"), (f"{finding.code} {finding.name}", finding.severity),
               (f"  {safe(finding.message)}", "")]  # fmt: skip


def where(cause: Cause) -> Iterator[str]:
    """The place of the first finding: connection, frame, stream."""
    place = cause.place
    ends = f" ({place.client} -> {place.server})" if place.client else ""
    yield f"{place.file}: connection {place.connection_id}{ends}"
    frame = f"{place.api or 'unknown'} v{place.api_version} {place.direction}" if place.api else place.direction or ""
    parts = [
        frame,
        "" if place.correlation_id is None else f"correlation id {place.correlation_id}",
        "" if place.offset is None else f"byte {place.offset} of the stream",
        place.ts,
    ]
    yield ", ".join(filter(None, parts))


def _plural(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"
