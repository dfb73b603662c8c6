"""Warnings about lines that a stream skips or redates: when it first happens, and in total at the end."""

from __future__ import annotations

from kproxy.outputs.stderr import warn
from kproxy.spark.streaming.events import MicroBatch, QueryRows
from kproxy.trace.formatting import safe


class StreamWarnings:
    """Warns about texts that are not lines, and about lines that arrived too late or have a time in the future.

    Args:
        first: The query whose texts are counted: all queries read the same texts.
        late: How late a line may arrive, as the user wrote it.
    """

    def __init__(self, first: str, max_delay: str) -> None:
        self._counted_query, self._late_limit = first, max_delay
        self._corrupt = self._reported_corrupt = 0
        self._ahead = self._reported_ahead = 0
        self._late: dict[str, int] = {}
        self._reported_late: dict[str, int] = {}

    def handle(self, batch: QueryRows | MicroBatch) -> None:
        """Warn about new problems in a micro-batch."""
        if isinstance(batch, QueryRows):
            return
        if batch.query == self._counted_query and batch.corrupt:
            self._corrupt += batch.corrupt
            if not self._reported_corrupt:
                self._reported_corrupt = self._corrupt
                example = f", as in {safe(batch.example)}" if batch.example else ""
                warn(f"{_lines_text(batch.corrupt)} could not be read and were skipped{example}")
        if batch.query == self._counted_query and batch.ahead:
            self._ahead += batch.ahead
            if not self._reported_ahead:
                self._reported_ahead = self._ahead
                file = safe(batch.ahead_file or "")
                warn(
                    f"{_lines_text(batch.ahead)} had a time in the future and counted as of now, as in {file}: "
                    "check that machine's clock"
                )
        if batch.late:
            self._late[batch.query] = self._late.get(batch.query, 0) + batch.late
            if batch.query not in self._reported_late:
                self._reported_late[batch.query] = batch.late
                warn(f"{self._too_late_text(batch.query)}; the limit is --late {self._late_limit}")

    def close(self) -> None:
        """Warn about the totals, if they have increased."""
        if self._corrupt > self._reported_corrupt:
            warn(f"{_lines_text(self._corrupt)} could not be read in total")
        if self._ahead > self._reported_ahead:
            warn(f"{_lines_text(self._ahead)} had a time in the future in total")
        for query, count in self._late.items():
            if count > self._reported_late[query]:
                warn(f"{self._too_late_text(query)} in total")

    def _too_late_text(self, query: str) -> str:
        # "At least", because lines with the same window and key have become one row here.
        return f"at least {_lines_text(self._late[query])} arrived too late for {query} and were skipped"


def _lines_text(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"
