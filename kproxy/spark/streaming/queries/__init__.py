"""The queries of a stream: each file here registers one, a pure function from a stream of lines to a table.

In a notebook::

    from kproxy.spark.streaming import queries
    from kproxy.spark.streaming.lines import follow_lines

    table = queries.find("latency").run(follow_lines(spark, ["kproxy-trace"]), queries.Span())
    table.writeStream.format("console").outputMode("append").start()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kproxy.spark.registry import RegisteredFunction, Registry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Queries with windows; other queries report new items.
ROLLING: Final = ("latency", "errors")
_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """The time spans of queries, in microseconds.

    Attributes:
        window: Length of a window.
        step: Interval between starts of windows. If it equals `window`, each line is in one window, else in several.
        late: Lines up to this much older than the newest line count; older lines are dropped.
        horizon: An item is new if it was not reported for this long.
    """

    window: int = 60 * _SECOND
    step: int = 60 * _SECOND
    late: int = 30 * _SECOND
    horizon: int = 24 * 3600 * _SECOND

    def windows(self) -> Column:
        """Return the windows of a line, as a column to group by."""
        from pyspark.sql import functions as F

        return F.window("ts", interval(self.window), interval(self.step))

    def watermark(self, name: str) -> str:
        """Return how late the lines of a query may arrive; queries for new items remember items for twice as long."""
        return interval(self.late if name in ROLLING else self.horizon // 2)

    def per_second(self, count: str) -> Column:
        """Return a count per window as a rate per second."""
        from pyspark.sql import functions as F

        return F.col(count) / (self.window / _SECOND)


def interval(us: int) -> str:
    """Convert microseconds to Spark's interval format."""
    return f"{us} microseconds"


#: Takes lines as TABLE of `kproxy.spark.ingest.schema`, from a stream with its watermark.
Run: TypeAlias = "Callable[[DataFrame, Span], DataFrame]"
Query: TypeAlias = RegisteredFunction[Run]

_REGISTRY: Final = Registry[Run](__name__, __path__)
query, names, find = _REGISTRY.add, _REGISTRY.names, _REGISTRY.find
