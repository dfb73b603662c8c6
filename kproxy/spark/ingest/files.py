"""The rows of traces and captures, including texts that are not lines."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.spark.ingest.arrow import MAX_CORRUPT, BatchReader
from kproxy.spark.ingest.decode import CaptureOptions, decode, decode_file
from kproxy.spark.ingest.inputs import File
from kproxy.spark.ingest.schema import ROW, TRACE, is_complete_line

_BAD_COLUMN = "_bad"
#: The maximum length of an example.
EXAMPLE_CHARACTERS = 200
_JSON = {
    "columnNameOfCorruptRecord": _BAD_COLUMN,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxStringLen": str((1 << 31) - 1),  # frames may be long
}
#: Files that Python reads are divided into tasks of about this size, and into at least this many, to use all cores.
_TASK_BYTES, _MIN_TASKS = 32 << 20, 8


def read_files(spark: SparkSession, files: Sequence[File], options: CaptureOptions) -> DataFrame:
    """Return the lines of files as ROW, in no particular order.

    Spark reads uncompressed traces by itself; Python on the executors, where kproxy must be installed, reads the
    other files.
    """
    plain_paths = [file.path for file in files if file.plain]
    local_files = [file for file in files if not file.plain and file.is_local]
    remote_paths = [file.path for file in files if not file.plain and not file.is_local]
    frames = []
    if plain_paths:
        frames.append(
            parse_texts(spark.read.text(plain_paths).select("value", F.col("_metadata.file_path").alias("file")))
        )
    if local_files:
        uri_rows = spark.createDataFrame([(file.uri,) for file in local_files], "uri string").coalesce(1)
        task_count = max(_MIN_TASKS, sum(file.size for file in local_files) // _TASK_BYTES)
        frames.append(
            uri_rows.repartition(min(len(local_files), task_count)).mapInArrow(partial(_decode_named, options), ROW)
        )
    if remote_paths:
        opened = spark.read.format("binaryFile").load(remote_paths).select("_metadata.file_path", "content")
        frames.append(opened.mapInArrow(partial(_decode_opened, options), ROW))
    return reduce(DataFrame.unionAll, frames)


def parse_texts(texts: DataFrame) -> DataFrame:
    """Parse texts of uncompressed traces, with the columns value and file, to ROW."""
    schema = T.StructType([*TRACE.fields, T.StructField(_BAD_COLUMN, T.StringType())])
    line = F.from_json("value", schema, _JSON)
    rows = texts.where(F.trim("value") != "").select(line.alias("line"), "value", "file")
    is_valid = (
        F.col("line")[_BAD_COLUMN].isNull()
        & is_complete_line(F.col("line"))
        & F.startswith(F.ltrim("value"), F.lit("{"))
    )
    corrupt = F.when(~is_valid, F.substring("value", 1, MAX_CORRUPT))
    rows = rows.select("line", "file", corrupt.alias("corrupt"))
    is_line = F.col("corrupt").isNull()
    damage = F.lit(None).cast("string").alias("damage")
    columns = (F.when(is_line, F.col("line")[name]).alias(name) for name in TRACE.names)
    return rows.select(*columns, "file", "corrupt", damage)


def counts() -> list[Column]:
    """Return aggregates of ROW: lines, corrupt (texts that are not lines), example (such a text with file, or null)."""
    is_corrupt = F.col("corrupt").isNotNull()
    text = F.concat_ws(": ", "file", F.left("corrupt", F.lit(EXAMPLE_CHARACTERS)))
    return [
        F.count_if(~is_corrupt & F.col("damage").isNull()).alias("lines"),
        F.count_if(is_corrupt).alias("corrupt"),
        F.min(F.when(is_corrupt, text)).alias("example"),
    ]


def bad_files() -> list[Column]:
    """Return aggregates of ROW: corrupt_files (with corrupt texts), damaged (sentences), damaged_files (a count)."""
    return [
        F.array_sort(F.collect_set(F.when(F.col("corrupt").isNotNull(), F.col("file")))).alias("corrupt_files"),
        F.array_sort(F.collect_set("damage")).alias("damaged"),
        F.size(F.collect_set(F.when(F.col("damage").isNotNull(), F.col("file")))).alias("damaged_files"),
    ]


def _decode_named(options: CaptureOptions, uri_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches = BatchReader(ROW)
    for batch in uri_batches:
        for [uri] in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from batches.read(decode_file(uri, options), uri)


def _decode_opened(options: CaptureOptions, opened: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    batches = BatchReader(ROW)
    for batch in opened:
        for uri, content in zip(*batch.columns, strict=True):
            name = Path(unquote(urlsplit(uri.as_py()).path)).name
            yield from batches.read(decode(io.BytesIO(content.as_buffer()), name, options), uri.as_py())
