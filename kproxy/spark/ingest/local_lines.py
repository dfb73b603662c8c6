"""Reads lines in the driver if they are few: a Spark job, a table and Python workers would cost more than the work.

The rows become a part of each plan, so that Spark plans no work for conditions that no line satisfies.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.ingest.arrow import BatchReader
from kproxy.spark.ingest.arrow_types import arrow_schema
from kproxy.spark.ingest.convert import TableBatch, with_dates
from kproxy.spark.ingest.decode import CaptureOptions, lines_of
from kproxy.spark.ingest.files import bad_files, counts
from kproxy.spark.ingest.inputs import File
from kproxy.spark.ingest.schema import ROW
from kproxy.spark.ingest.table_storage import PARQUET

#: Maximum sizes in bytes: of the files, and of their rows in memory.
FILE_BYTES, ARROW_BYTES = 4 << 20, 16 << 20


def local_lines(
    spark: SparkSession, files: Sequence[File], options: CaptureOptions
) -> tuple[DataFrame, TableBatch] | None:
    """Return the lines of files as TABLE, with their counts; None without files, or if too large or not local."""
    if not files or sum(file.size for file in files) > FILE_BYTES or not all(file.is_local for file in files):
        return None
    schema, reader = arrow_schema(ROW), BatchReader(ROW)
    batches: list[pa.RecordBatch] = []
    size = 0
    for file in files:
        for batch in reader.read(lines_of(file.uri, options, plain=file.plain), file.uri):
            batches.append(batch)
            size += batch.nbytes
            if size > ARROW_BYTES:
                return None
    table = pa.Table.from_batches(batches, schema)
    rows = spark.createDataFrame(table) if batches else spark.createDataFrame([], ROW)
    has_bad_lines = table["corrupt"].null_count + table["damage"].null_count < 2 * table.num_rows
    bad_counts = rows.agg(*counts(), *bad_files()).first() if has_bad_lines else None
    all_counts = {"lines": table.num_rows, "corrupt": 0} if bad_counts is None else bad_counts.asDict()
    return with_dates(rows.where("corrupt is null and damage is null")), TableBatch(
        0, {file.uri: file.size for file in files}, form=PARQUET, **all_counts
    )
