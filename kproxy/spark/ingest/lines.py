"""Opens the lines to analyze from tables, and from traces and captures, which are converted to a table first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.errors import UserError
from kproxy.spark.columns import computed_once
from kproxy.spark.derived.clusters import clustered, names_cluster
from kproxy.spark.derived.unique_ids import with_unique_ids
from kproxy.spark.ingest.convert import TableBatch, batches, convert, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.hours import hour_of
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.local_files import is_one_machine
from kproxy.spark.ingest.local_lines import local_lines
from kproxy.spark.ingest.schema import TABLE
from kproxy.spark.session.embedded_engine import is_embedded

_HOUR = timedelta(hours=1)
#: Connections are divided into this many parts; a sample consists of some of them.
_SAMPLE_PARTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Period:
    """A period from `since` (inclusive) to `until` (exclusive); either may be None."""

    since: datetime | None = None
    until: datetime | None = None

    def column(self) -> Column:
        """Return whether a row of TABLE is in the period; partitions of other hours are not read."""
        condition, date, hour = F.lit(True), F.col("date"), F.col("hour")
        if self.since is not None:
            since = self.since.astimezone(UTC)
            condition &= (F.col("ts") >= since) & (
                (date > since.date()) | ((date == since.date()) & (hour >= since.hour))
            )
        if self.until is not None:
            until = self.until.astimezone(UTC)
            condition &= (F.col("ts") < until) & (
                (date < until.date()) | ((date == until.date()) & (hour <= until.hour))
            )
        return condition

    def may_have(self, path: str) -> bool:
        """Whether a file may have lines in the period, according to the hour in its path."""
        hour = hour_of(path)
        if hour is None:
            return True
        return (self.since is None or hour + _HOUR > self.since) and (self.until is None or hour < self.until)


def sampled(share: float) -> Column:
    """Return whether a line is in a sample of connections: about `share` (0 to 1) of them, with all their lines.

    A connection that is in a sample is also in every larger one.
    """
    return F.pmod(F.xxhash64("connection_id"), F.lit(_SAMPLE_PARTS)) < round(share * _SAMPLE_PARTS)


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows of TABLE with the column `kproxy.spark.derived.clusters.CLUSTER`, and the names of all clusters."""

    rows: DataFrame
    clusters: Sequence[str]


@contextmanager
def open_lines(
    spark: SparkSession,
    paths: Iterable[str],
    options: CaptureOptions,
    *,
    period: Period,
    where: Column | None = None,
    on_batch: Callable[[TableBatch], object] = lambda batch: None,
    on_empty: Callable[[str], object] = lambda path: None,
) -> Iterator[Lines]:
    """Open the lines at paths, as TABLE with their cluster: tables made by `convert`, traces, and captures.

    Traces and captures are converted to a table that lasts as long as the context; if there are few lines, Spark gets
    them in memory instead. The table is in a local directory, so for a cluster they have to be converted beforehand.
    `on_batch` is called with each batch of lines that was read, `on_empty` with the path of each file of 0 bytes.

    Raises:
        UserError: A path does not exist, or has traces or captures although the session is not local.
    """
    # Cluster names and unique ids also come from lines that the filter excludes.
    condition = None if where is None and period == Period() else period.column()
    if condition is not None and where is not None:
        condition &= where | names_cluster() | (F.col("kind") == "open")
    is_table_by_path = {path: batches(spark, path) is not None for path in paths}
    table_paths = [path for path, is_table in is_table_by_path.items() if is_table]
    other_paths = [path for path, is_table in is_table_by_path.items() if not is_table]
    memory_frames: list[DataFrame] = []
    with tempfile.TemporaryDirectory(prefix="kproxy-analyze-") as folder:
        if other_paths:
            if not is_one_machine(spark):
                raise UserError(
                    "a cluster can only analyze converted traces: run kproxy analyze convert TRACES --out DIR, "
                    "where DIR is visible to all machines, then kproxy analyze DIR"
                )
            files = [
                file
                for file in find_files(spark, other_paths, growing=True, on_empty=on_empty)
                if period.may_have(file.path)
            ]
            if not is_embedded(spark) and (local_result := local_lines(spark, files, options)) is not None:
                rows, batch = local_result
                memory_frames.append(rows if condition is None else rows.where(condition))
                on_batch(batch)
            elif convert(spark, files, folder, options, where=condition, on_batch=on_batch):
                table_paths.append(folder)
        all_frames = [
            *memory_frames,
            *(read_table(spark, path, may_have=period.may_have) for path in table_paths),
        ] or [spark.createDataFrame([], TABLE)]
        rows, clusters = clustered(reduce(DataFrame.unionAll, all_frames).where(period.column()))
        # Ids are made unique after filtering, because a user's filter names the ids that are in the trace.
        yield Lines(with_unique_ids(rows, rows if where is None else _filter_rows(rows, where)), clusters)


def _filter_rows(rows: DataFrame, where: Column) -> DataFrame:
    """Return the rows that satisfy a condition."""
    if not is_embedded(rows.sparkSession):
        return rows.where(where)
    # Sail 0.7.2 fails if it pushes a list function down into its Parquet reader; it pushes nothing below `explode`.
    return rows.withColumn("_chosen", computed_once(where)).where("_chosen").drop("_chosen")
