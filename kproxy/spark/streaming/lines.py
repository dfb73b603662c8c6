"""The lines of traces as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.errors import UserError
from kproxy.spark.ingest.convert import batches, check_table, with_dates
from kproxy.spark.ingest.decode import local_path
from kproxy.spark.ingest.files import counts, parse_texts
from kproxy.spark.ingest.schema import TABLE, TEXT
from kproxy.spark.ingest.table_storage import PARQUET
from kproxy.spark.source import KproxyDataSource

#: The name of each micro-batch's counts: see `kproxy.spark.ingest.files.counts`.
COUNTS_NAME = "counted"
#: How far the clock of a proxy may be ahead of this machine's. Later times are reduced to this limit.
_MAX_AHEAD: Final = "interval 1 second"


def follow_lines(
    spark: SparkSession, paths: Sequence[str], *, late: str = "30 seconds", since: datetime | None = None
) -> DataFrame:
    """Return a stream of the lines at paths, as TABLE with a watermark; hours that ended before `since` may be skipped.

    Lines arrive from a local directory as they are written, from a remote directory when (uncompressed) traces are
    complete, and from a table when `convert` adds them. The observation `COUNTS_NAME` has the number of texts that are
    not lines, and of lines from the future, whose time is reduced to the latest possible one.

    Raises:
        UserError: A path is not a directory, or it is a table that is not Parquet or has duplicate lines.
    """
    rows = reduce(DataFrame.unionAll, [_rows(spark, path, since) for path in paths])
    latest_time = F.current_timestamp() + F.expr(_MAX_AHEAD)
    # Otherwise one line with a wrong date would make all following lines count as late, permanently.
    with_capped_time = rows.withColumn("ahead", F.when(F.col("ts") > latest_time, F.col("file"))).withColumn(
        "ts", F.least("ts", latest_time)
    )
    # An observation is a barrier for filters: if Spark applied these first, few lines would advance the time.
    with_watermark = with_capped_time.withWatermark("ts", late).observe(
        COUNTS_NAME,
        *counts(),
        F.max("ts").alias("until"),
        F.count("ahead").alias("ahead"),
        F.min("ahead").alias("ahead_file"),
    )
    return with_watermark.where(F.col("corrupt").isNull() & F.col("damage").isNull()).drop("ahead")


def _rows(spark: SparkSession, path: str, since: datetime | None) -> DataFrame:
    if (table_batches := batches(spark, path)) is not None:
        if table_batches and table_batches[0].form != PARQUET:
            raise UserError(f"{path} is a {table_batches[0].form} table: follow its traces, or a Parquet table")
        check_table(spark, path, table_batches)
        # A batch is complete before its record exists; only a kill between the two could repeat its rows.
        table = spark.readStream.schema(TABLE).option("basePath", path).parquet(f"{path}/batch=*")
        return table.select(*TABLE.names)
    texts = (
        _growing_lines(spark, path, since) if urlsplit(path).scheme in ("", "file") else _complete_traces(spark, path)
    )
    return with_dates(parse_texts(texts.withColumn("value", F.col("value").cast("string"))))


def _growing_lines(spark: SparkSession, path: str, since: datetime | None) -> DataFrame:
    folder = local_path(path) if path.startswith("file:") else Path(path)
    if not folder.exists():
        raise UserError(f"{path}: no such directory")
    if not folder.is_dir():
        raise UserError(f"{path} is a file: --follow needs a directory of traces")
    spark.dataSource.register(KproxyDataSource)
    reader = spark.readStream.format("kproxy").schema(TEXT)
    if since is not None:
        reader = reader.option("since", since.isoformat())
    return reader.load(str(folder))


def _complete_traces(spark: SparkSession, path: str) -> DataFrame:
    reader = spark.readStream.option("recursiveFileLookup", True).option("pathGlobFilter", "*.jsonl")
    try:
        return reader.text(path).select("value", F.col("_metadata.file_path").alias("file"))
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise UserError(f"{path}: no such directory") from None
