"""Adds whole files of traces and captures to a table, each exactly once.

A batch of files is written by `kproxy.spark.ingest.table_storage` (Parquet: to ``batch=N/date=…/hour=…``), then a
record of it to ``_files/batch=N``, which is one file and so atomic. Data without a record is not part of the table: a
batch whose writer was killed is overwritten by the next one.

A lock lets one run at a time write to a table. Where locks are not available (`kproxy.spark.ingest.locks`), each run
uses unique batch numbers, and a file that two runs have converted counts only in the batch with the lower number.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.errors import UserError
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.files import bad_files, counts, read_files
from kproxy.spark.ingest.inputs import File
from kproxy.spark.ingest.local_files import local_input
from kproxy.spark.ingest.local_tables import is_local_spark, write_local_batch
from kproxy.spark.ingest.locks import local_folder, locked
from kproxy.spark.ingest.schema import TABLE
from kproxy.spark.ingest.table_storage import PARQUET, read_batches, write_batch

#: Input bytes per batch: limits the work that a kill can lose.
BATCH_BYTES = 2 << 30
_DAY_S, _HOUR_S = 86_400, 3600
_RECORD = T.StructType(
    [
        T.StructField(
            "files",
            T.ArrayType(T.StructType([T.StructField("uri", T.StringType()), T.StructField("size", T.LongType())])),
        ),
        T.StructField("lines", T.LongType()),
        T.StructField("corrupt", T.LongType()),
        T.StructField("format", T.StringType()),
    ]
)


#: Batches written without a lock have numbers from here on. Spark makes them 32-bit integers.
_UNLOCKED, _END = 1 << 30, (1 << 31) - 1
#: The batch of a data file, and the part of its name that all files of one write share.
_WRITTEN = re.compile(r"/batch=(\d+)/(?:.*/)?part-\d+-([0-9a-f-]{36})")


@dataclass(frozen=True, slots=True)
class TableBatch:
    """A batch of a table: its number, its files by URI with their sizes, and the number of lines and of other texts.

    `form` is parquet, delta or iceberg, the same for all batches of a table. Only set for a new batch: `example`, one
    of the other texts with its file; `corrupt_files`, the number of files with some; and `damaged`, sentences about the
    `damaged_files`, which could not be read completely.
    """

    number: int
    files: dict[str, int]
    lines: int
    corrupt: int
    form: str
    example: str | None = None
    corrupt_files: Sequence[str] = ()
    damaged: Sequence[str] = ()
    damaged_files: int = 0


def batches(spark: SparkSession, table: str) -> list[TableBatch] | None:
    """Return the batches of a table, in order; None if there is no table.

    Raises:
        UserError: A batch has several records.
    """
    found = records(spark, table)
    if found is not None and len(found) > len({batch.number for batch in found}):
        raise UserError(_sentence(table))
    return found


def records(spark: SparkSession, table: str) -> list[TableBatch] | None:
    """Return the records of batches in a table, valid or not, in order; None if there is no table."""
    here = local_input(spark, table)
    if here is not None and not (here / "_files").exists():
        return None
    try:
        rows = spark.read.schema(_RECORD).json(f"{table}/_files").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    return sorted(
        (
            TableBatch(row["batch"], dict(row["files"]), row["lines"], row["corrupt"], row["format"] or PARQUET)
            for row in rows
        ),
        key=lambda batch: batch.number,
    )


def convert(
    spark: SparkSession,
    files: Sequence[File],
    table: str,
    options: CaptureOptions,
    *,
    where: Column | None = None,
    form: str | None = None,
    made: Callable[[TableBatch], object] = lambda batch: None,
    waiting: Callable[[], object] = lambda: None,
) -> list[TableBatch]:
    """Add the files that are not in the table yet; return the new batches.

    `where`, a condition on columns of TABLE, selects the lines to keep. `form` is the format of a new table; None means
    Parquet. `made` is called with each batch when it is part of the table. `waiting` is called if another run holds the
    lock. Raises:
        UserError: The table has duplicate lines, or another format than `form`.
    """
    with locked(spark, table, waiting) as has_lock:
        known = batches(spark, table) or []
        there = known[0].form if known else form or PARQUET
        if form not in (None, there):
            raise UserError(f"{table} is a {there} table: write {form} to another directory")
        check(spark, table, known)
        have = {uri for batch in known for uri in batch.files}
        numbers = {batch.number for batch in known}
        added = []
        for group in _groups([file for file in files if file.uri not in have]):
            number = next_number(numbers, has_lock=has_lock)
            numbers.add(number)
            folder = local_folder(spark, table) if has_lock and there == PARQUET and where is None else None
            if folder is not None and is_local_spark(spark) and all(file.is_local for file in group):
                counted = write_local_batch(spark, group, Path(folder, f"batch={number}"), options)
            else:
                counted = _write(spark, group, table, there, number, options, where)
            added.append(TableBatch(number, {file.uri: file.size for file in group}, form=there, **counted))
            write_record(spark, table, added[-1])
            made(added[-1])
        return added


def next_number(numbers: Set[int], *, has_lock: bool) -> int:
    """Return a number for a new batch, not in `numbers`; without a lock, one that no other run will use."""
    if has_lock:
        return max((number for number in numbers if number < _UNLOCKED), default=0) + 1
    return _UNLOCKED + secrets.randbelow(_END - _UNLOCKED)


def grown(files: Sequence[File], known: Sequence[TableBatch]) -> list[File]:
    """Return the files whose size has changed since they were added to a table; newer data is not in it."""
    sizes = {uri: size for batch in known for uri, size in batch.files.items()}
    return [file for file in files if sizes.get(file.uri, file.size) != file.size]


def _groups(files: Sequence[File]) -> Iterator[list[File]]:
    group: list[File] = []
    size = 0
    for file in files:
        if group and size + file.size > BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def _write(
    spark: SparkSession,
    files: Sequence[File],
    table: str,
    form: str,
    number: int,
    options: CaptureOptions,
    where: Column | None,
) -> dict[str, Any]:
    """Write the lines of files that satisfy a condition as a batch; return their counts."""
    rows = read_files(spark, files, options)
    counted = Observation()
    rows = dated(rows.observe(counted, *counts(), *bad_files()))
    if where is not None:
        rows = rows.where(where | F.col("corrupt").isNotNull() | F.col("damage").isNotNull())
    write_batch(rows, table, form, number)
    return dict(counted.get)


def write_record(spark: SparkSession, table: str, batch: TableBatch) -> None:
    """Make a batch, whose rows are written, part of its table."""
    record = spark.createDataFrame([(list(batch.files.items()), batch.lines, batch.corrupt, batch.form)], _RECORD)
    record.coalesce(1).write.mode("overwrite").json(f"{table}/_files/batch={batch.number}")


def dated(rows: DataFrame) -> DataFrame:
    """Convert rows of ROW to TABLE: adds the date and hour of `ts` in UTC, independent of the session's time zone."""
    at = F.unix_seconds("ts")  # Spark divides doubles, which are exact for seconds, but not for microseconds
    return rows.withColumns(
        {
            "date": F.date_from_unix_date(F.floor(at / _DAY_S).cast("int")),
            "hour": F.pmod(F.floor(at / _HOUR_S), F.lit(24)).cast("int"),
        }
    )


def read_table(spark: SparkSession, table: str) -> DataFrame:
    """Return the lines of a table, as TABLE.

    Raises:
        ValueError: There is no table.
        UserError: It has duplicate lines.
    """
    found = batches(spark, table)
    if found is None:
        raise ValueError(f"{table} is not a table of traces")
    if not found:
        return spark.createDataFrame([], TABLE)
    check(spark, table, found)
    surplus = again(found)
    form = found[0].form
    parts = [read_batches(spark, table, form, [batch.number for batch in found if batch.number not in surplus])]
    for number, files in surplus.items():
        parts.append(read_batches(spark, table, form, [number]).where(~F.col("file").isin(*files)))
    return reduce(DataFrame.unionAll, parts).where(F.col("date").isNotNull())


def again(found: Sequence[TableBatch]) -> dict[int, set[str]]:
    """Return by batch the files that an earlier batch has too: two runs without a lock have converted them."""
    seen: set[str] = set()
    surplus = {}
    for batch in found:
        if files := batch.files.keys() & seen:
            surplus[batch.number] = files
        seen |= batch.files.keys()
    return surplus


def check(spark: SparkSession, table: str, found: Sequence[TableBatch]) -> None:
    """Check whether the batches of a table are valid.

    Raises:
        UserError: A batch has duplicate lines.
    """
    if found and found[0].form == PARQUET and written_twice(spark, table, found):
        raise UserError(_sentence(table))


def written_twice(spark: SparkSession, table: str, found: Sequence[TableBatch]) -> set[int]:
    """Return the batches of a Parquet table with files of several writes; a valid batch has those of one write."""
    writes: dict[int, set[str]] = {}
    for path in read_batches(spark, table, PARQUET, sorted({batch.number for batch in found})).inputFiles():
        if (name := _WRITTEN.search(path)) is not None:
            writes.setdefault(int(name[1]), set()).add(name[2])
    return {number for number, names in writes.items() if len(names) > 1}


def _sentence(table: str) -> str:
    return (
        f"{table} has duplicate lines, because two runs of convert wrote to it at once: "
        f"run kproxy analyze convert --repair --out {table}"
    )
