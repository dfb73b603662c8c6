"""Events of running queries, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Row
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from kproxy.spark.streaming.lines import COUNTS_NAME


@dataclass(frozen=True, slots=True)
class QueryRows:
    """New or changed rows of a query."""

    query: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A completed micro-batch of a query.

    Attributes:
        lines, corrupt: Number of lines read, and of texts that are not lines; `example` is such a text, with its file.
        until: The time of the newest line.
        late: Number of rows dropped because they arrived too late, each for at least one line.
        ahead: Number of lines from the future; `ahead_file` is a file with such lines.
    """

    query: str
    lines: int
    corrupt: int
    example: str | None
    until: datetime | None
    late: int
    ahead: int = 0
    ahead_file: str | None = None


class QueryListener(StreamingQueryListener):
    """Passes on each micro-batch, which names its query."""

    def __init__(self, emit: Callable[[MicroBatch], object]) -> None:
        self._emit = emit

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's names
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Pass on the micro-batch."""
        self._emit(_micro_batch(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the owner checks the query's state."""


def _micro_batch(progress: StreamingQueryProgress) -> MicroBatch:
    metrics = progress.observedMetrics.get(COUNTS_NAME)
    lines, corrupt, example, until, ahead, file = metrics if metrics is not None else (0, 0, None, None, 0, None)
    late_rows = sum(state.numRowsDroppedByWatermark for state in progress.stateOperators)
    return MicroBatch(progress.name or "", lines or 0, corrupt or 0, example, until, late_rows, ahead or 0, file)
