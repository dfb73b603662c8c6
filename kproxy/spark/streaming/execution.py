"""Runs queries that write to files with a checkpoint, or emit their rows as events."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kproxy.errors import UserError
from kproxy.spark.streaming.events import MicroBatch, QueryListener, QueryRows

#: In the directory of tables: the checkpoints by query, and the options of each query.
_CHECKPOINTS, _OPTIONS = "_checkpoints", "_asked"
_RECORD = "query string, asked string"


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Tables as files in a directory, in one of Spark's formats."""

    directory: str
    form: str


def claim(spark: SparkSession, directory: str, names: list[str], options: str) -> None:
    """Record the options of queries whose tables are in a directory; a restart must use the same options.

    Raises:
        UserError: The queries were started with other options.
    """
    try:
        rows = spark.read.schema(_RECORD).json(f"{directory}/{_OPTIONS}").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        rows = []
    recorded = {row["query"]: row["asked"] for row in rows}
    for name in names:
        if (recorded_options := recorded.get(name, options)) != options:
            raise UserError(
                f"{directory}/{name} was started as {recorded_options}: use the same options, or another --out"
            )
    if new_rows := [(name, options) for name in names if name not in recorded]:
        spark.createDataFrame(new_rows, _RECORD).coalesce(1).write.mode("append").json(f"{directory}/{_OPTIONS}")


class RunningQueries:
    """The queries of a session, by name, and their events; queries run within the context.

    Args:
        every: The interval between micro-batches in seconds; 0 means as often as possible.
    """

    def __init__(self, spark: SparkSession, *, every: float) -> None:
        self.queries: dict[str, StreamingQuery] = {}
        self._spark, self._every = spark, every
        self._events: SimpleQueue[QueryRows | MicroBatch | PySparkException | Py4JError] = SimpleQueue()
        self._listener = QueryListener(self._events.put)
        self._folder = tempfile.TemporaryDirectory(prefix="kproxy-follow-", ignore_cleanup_errors=True)

    def __enter__(self) -> RunningQueries:
        self._spark.streams.addListener(self._listener)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for query in self.queries.values():
            query.stop()
        self._spark.streams.removeListener(self._listener)
        self._folder.cleanup()

    def to_files(self, table: DataFrame, name: str, files: TableFiles) -> None:
        """Write a query's rows to a table in a directory, each row once; after a kill, continue where it stopped."""
        # Partitioned by the day of the first column, which is a time: a partition without rows has no file.
        day = F.to_date(F.to_utc_timestamp(table.columns[0], F.current_timezone()))
        writer = table.withColumn("date", day).writeStream.format(files.form).partitionBy("date").outputMode("append")
        writer = writer.option("header", True)  # for CSV
        self._start(writer, name, f"{files.directory}/{_CHECKPOINTS}/{name}", f"{files.directory}/{name}")

    def to_rows(self, table: DataFrame, name: str, *, mode: str = "append") -> None:
        """Run a query and emit its rows when they are final (``append``) or on each change (``update``)."""

        def emit(rows: DataFrame, _: int) -> None:
            try:
                collected_rows = rows.collect()
            except (PySparkException, Py4JError) as error:
                # Not raised here: Spark would parse its own messages recursively until the stack overflows.
                self._events.put(error)
                return
            if collected_rows:
                self._events.put(QueryRows(name, collected_rows))

        self._start(table.writeStream.foreachBatch(emit).outputMode(mode), name, f"{self._folder.name}/{name}")

    def next_event(self, timeout: float) -> QueryRows | MicroBatch | None:
        """Return the next event, or None if there is none within the timeout.

        Raises:
            PySparkException, Py4JError: A query has failed.
        """
        try:
            event = self._events.get(timeout=timeout)
        except Empty:
            for name, query in self.queries.items():
                if not query.isActive:
                    raise query.exception() or PySparkException(f"{name} has ended") from None
            return None
        if isinstance(event, PySparkException | Py4JError):
            raise event
        return event

    def _start(self, writer: DataStreamWriter, name: str, checkpoint: str, path: str | None = None) -> None:
        interval = f"{round(self._every * 1000)} milliseconds"
        writer = writer.queryName(name).trigger(processingTime=interval).option("checkpointLocation", checkpoint)
        self.queries[name] = writer.start(path)
