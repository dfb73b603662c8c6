"""Growing traces, written as kproxy writes them, and queries over them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kproxy.spark.streaming.lines import follow_lines
from kproxy.spark.streaming.queries import Span, find
from kproxy.trace.lines import Line
from kproxy.trace.writer import TraceWriter
from tests.kproxy.spark.sample_lines import BEGIN_NS

SECOND = 1_000_000
#: The pause between polls of a query, in seconds; without a pause, queries would poll all the time.
POLL_S = 0.1
#: Windows of ten seconds.
TENS = Span(window=10 * SECOND, step=10 * SECOND, late=5 * SECOND)


class Traces:
    """A directory of traces, written by the proxy's trace writer."""

    def __init__(self, folder: Path, *, node: str = "n", max_bytes: int = 1 << 20) -> None:
        self.folder = folder
        self._writer = TraceWriter(folder, node=node, max_bytes=max_bytes, warn=print)

    def write(self, *lines: Line, at: float) -> None:
        """Write lines to the file that is open at `at` seconds, and flush them."""
        now = BEGIN_NS + round(at * 1e9)
        for line in lines:
            self._writer.add(line, at=now)
        self._writer.flush(at=now, final=True)

    def close(self, *, at: float) -> None:
        """Close the last file, which is then given its final name."""
        self._writer.close(at=BEGIN_NS + round(at * 1e9))


def build_query(spark: SparkSession, folder: Path, name: str, span: Span) -> DataFrame:
    """Build a query over a directory, as the command does."""
    return find(name).run(follow_lines(spark, [str(folder)], late=span.watermark(name)), span)


def wait_until_processed(query: StreamingQuery) -> None:
    """Wait until a query has processed all data and has notified its listeners.

    The query processes its input twice; the second time closes the windows before its new watermark.
    """
    for _ in range(2):
        query.processAllAvailable()
    SparkSession.active()._jsc.sc().listenerBus().waitUntilEmpty()


class QueryResults:
    """A query over a directory, and the results that it has produced so far."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, span: Span, *, mode: str = "append") -> None:
        self.name = f"told_{name}"
        self._spark = spark
        table = build_query(spark, folder, name, span)
        writer = table.writeStream.format("memory").queryName(self.name).outputMode(mode)
        self.query = writer.trigger(processingTime=f"{POLL_S * 1000:.0f} milliseconds").start()

    def rows(self) -> list[Row]:
        """Return the results so far, after all existing lines are processed."""
        wait_until_processed(self.query)
        return list(self._spark.table(self.name).collect())
