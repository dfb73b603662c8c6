"""The queries of a stream: each file here registers one, a pure function from lines, as they come, to what they tell.

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

from kproxy.spark.registry import Registered, Registry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The queries that tell of windows; the others tell what is new.
ROLLING: Final = ("latency", "errors")
_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """The time that queries look at, in microseconds.

    Attributes:
        window: What a rolling figure is over.
        step: A window begins each so often: with `window`, each line is in one of them; with a part of it, in several.
        late: A line counts that is so much older than the newest one; what is older yet is left out.
        horizon: What is new was not told for so long.
    """

    window: int = 60 * _SECOND
    step: int = 60 * _SECOND
    late: int = 30 * _SECOND
    horizon: int = 24 * 3600 * _SECOND

    def windows(self) -> Column:
        """The windows of a line, as a column to group by."""
        from pyspark.sql import functions as F

        return F.window("ts", interval(self.window), interval(self.step))

    def watermark(self, name: str) -> str:
        """How late the lines of a query may come; where it tells what is new, it forgets after twice that."""
        return interval(self.late if name in ROLLING else self.horizon // 2)

    def per_second(self, count: str) -> Column:
        """A count of a window, a second."""
        from pyspark.sql import functions as F

        return F.col(count) / (self.window / _SECOND)


def interval(us: int) -> str:
    """Microseconds as Spark takes them."""
    return f"{us} microseconds"


#: Takes lines as `kproxy.spark.ingest.schema.TABLE` has them, of a stream that has its watermark.
Run: TypeAlias = "Callable[[DataFrame, Span], DataFrame]"
Query: TypeAlias = Registered[Run]

_REGISTRY: Final = Registry[Run](__name__, __path__)
query, names, find = _REGISTRY.add, _REGISTRY.names, _REGISTRY.find
