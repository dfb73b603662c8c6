"""What running queries tell, in the order in which it happens."""

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

from kproxy.spark.streaming.lines import COUNTED


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of a query: new ones, or those that have changed."""

    query: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch of a query is done.

    Attributes:
        lines, corrupt: How many it read, and how many texts were none; `example` is one of these, with its file.
        until: The time of the newest line.
        late: Rows that were left out since they came too late, a line at least each.
    """

    query: str
    lines: int
    corrupt: int
    example: str | None
    until: datetime | None
    late: int


class QueryListener(StreamingQueryListener):
    """Hands each micro-batch on, of queries by their names."""

    def __init__(self, hand: Callable[[MicroBatch], object]) -> None:
        self._hand = hand

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's names
        """Nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Hand it on."""
        self._hand(_batch(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing: who started the query asks it."""


def _batch(progress: StreamingQueryProgress) -> MicroBatch:
    counted = progress.observedMetrics.get(COUNTED)
    lines, corrupt, example, until = counted if counted is not None else (0, 0, None, None)
    late = sum(state.numRowsDroppedByWatermark for state in progress.stateOperators)
    return MicroBatch(progress.name or "", lines or 0, corrupt or 0, example, until, late)
