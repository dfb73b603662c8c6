"""Adds whole files of traces and captures to a table, each exactly once.

A batch of files is written to ``batch=N/date=…/hour=…``: local files to a local table by this process and others
(`kproxy.spark.ingest.local_table`), anything else by Spark (`kproxy.spark.ingest.table_storage`). A record of it in
``_files/batch=N``, which is one file and so atomic, makes it part of the table: a batch whose writer was killed is
overwritten by the next one.

A lock lets one run at a time write to a table. Where locks are not available (`kproxy.spark.ingest.locks`), each run
uses unique batch numbers, and a file that two runs have converted counts only in the batch with the lower number.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.errors import UserError
from kproxy.spark.ingest import local_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.files import bad_files, counts, read_files
from kproxy.spark.ingest.inputs import File
from kproxy.spark.ingest.local_files import is_one_machine, local_input, local_output
from kproxy.spark.ingest.local_tables import write_files
from kproxy.spark.ingest.locks import lock_local_table, lock_table
from kproxy.spark.ingest.schema import ROW, TABLE
from kproxy.spark.ingest.table_storage import PARQUET, read_batches, write_batch
from kproxy.spark.session.embedded_engine import is_embedded

#: Input bytes per batch: limits the work that a kill can lose.
BATCH_BYTES = 2 << 30
_DAY_US, _HOUR_US = 86_400_000_000, 3_600_000_000
_RECORD = T.StructType(
    [
        T.StructField(
            "files",
            T.ArrayType(T.StructType([T.StructField("uri", T.StringType()), T.StructField("size", T.LongType())])),
        ),
        T.StructField("lines", T.LongType()),
        T.StructField("corrupt", T.LongType()),
        T.StructField("format", T.StringType()),
        T.StructField("staged", T.StringType()),
        T.StructField("replaces", T.ArrayType(T.LongType())),
    ]
)


#: Batches written without a lock have numbers in this range. Spark reads them as 32-bit integers.
_FIRST_UNLOCKED, _LAST_UNLOCKED = 1 << 30, (1 << 31) - 1
#: Matches the path of a data file: its batch number, and the part of its name that all files of one write share.
_WRITTEN = re.compile(r"/batch=(\d+)/(?:.*/)?part-\d+-([0-9a-f-]{36})")


@dataclass(frozen=True, slots=True)
class TableBatch:
    """A batch of a table: its number, the sizes of its files by URI, and the numbers of lines and of other texts.

    `form` is parquet, delta or iceberg, the same for all batches of a table. `staged` is the name of its directory
    before it was part of the table, `replaces` the numbers of the batches whose rows it contains. Only set for a new
    batch: `example`, one of the other texts with its file; `corrupt_files`, the files with such texts; and `damaged`,
    sentences about the `damaged_files` (a number), which could not be read completely.
    """

    number: int
    files: dict[str, int]
    lines: int
    corrupt: int
    form: str
    staged: str | None = None
    replaces: Sequence[int] = ()
    example: str | None = None
    corrupt_files: Sequence[str] = ()
    damaged: Sequence[str] = ()
    damaged_files: int = 0


def batches(spark: SparkSession | None, table: str) -> list[TableBatch] | None:
    """Return the batches of a table, in order; None if there is no table.

    Raises:
        UserError: A batch has several records.
    """
    batches = records(spark, table)
    if batches is not None and len(batches) > len({batch.number for batch in batches}):
        raise UserError(_duplicates_sentence(table))
    return batches


def records(spark: SparkSession | None, table: str) -> list[TableBatch] | None:
    """Return the records of batches in a table, valid or not, in order; None if there is no table."""
    folder = local_input(spark, table)
    if folder is not None:
        if not local_table.is_table(folder):
            return None
        table_batches = [_batch_from_record(number, record) for number, record in local_table.records(folder)]
    elif spark is None or is_embedded(spark):
        return None
    else:
        try:
            rows = spark.read.schema(_RECORD).json(f"{table}/_files").collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None
        table_batches = [_batch_from_record(row["batch"], row.asDict(recursive=True)) for row in rows]
    replaced = {number for batch in table_batches for number in batch.replaces}
    return sorted((batch for batch in table_batches if batch.number not in replaced), key=lambda batch: batch.number)


def _batch_from_record(number: int, record: Mapping[str, Any]) -> TableBatch:
    return TableBatch(
        number, {file["uri"]: file["size"] for file in record["files"]}, record["lines"], record["corrupt"],
        record.get("format") or PARQUET, record.get("staged"), record.get("replaces") or (),
    )  # fmt: skip


def to_record(batch: TableBatch) -> dict[str, Any]:
    """Convert a batch to its record, with the fields of `_RECORD`."""
    return {
        "files": [{"uri": uri, "size": size} for uri, size in batch.files.items()],
        "lines": batch.lines, "corrupt": batch.corrupt, "format": batch.form,
        "staged": batch.staged, "replaces": list(batch.replaces),
    }  # fmt: skip


def convert(
    spark: SparkSession | None,
    files: Sequence[File],
    table: str,
    options: CaptureOptions,
    *,
    where: Column | None = None,
    form: str | None = None,
    on_batch: Callable[[TableBatch], object] = lambda batch: None,
    on_wait: Callable[[], object] = lambda: None,
) -> list[TableBatch]:
    """Add the files that are not in the table yet; return the new batches.

    Only local files and a local table of Parquet work without `spark`. `where`, a condition on columns of TABLE,
    selects the lines to keep if Spark writes them. `form` is the format of a new table; None means Parquet. `on_batch`
    is called with each batch once it is part of the table. `on_wait` is called if another run holds the lock.

    Raises:
        UserError: The table has duplicate lines, or a format other than `form`.
    """
    folder = local_output(spark, table)
    table_form = next((batch.form for batch in records(spark, table) or ()), form or PARQUET)
    if form not in (None, table_form):
        raise UserError(f"{table} is a {table_form} table: write {form} to another directory")
    if folder is not None and table_form == PARQUET and is_one_machine(spark) and all(file.is_local for file in files):
        with lock_local_table(folder, on_wait):
            return _convert_locally(files, folder, options, on_batch)
    if spark is None:
        raise UserError(f"{table}: only Spark writes such a table: pass --engine spark")
    with lock_table(spark, table, on_wait) as has_lock:
        existing = batches(spark, table) or []
        check_table(spark, table, existing)
        numbers = {batch.number for batch in existing}
        new_batches = []
        for group in _group_files(_new_files(files, existing)):
            number = next_number(numbers, has_lock=has_lock)
            numbers.add(number)
            batch_counts = _write_batch(spark, group, table, table_form, number, options, where)
            new_batches.append(
                TableBatch(number, {file.uri: file.size for file in group}, form=table_form, **batch_counts)
            )
            write_record(spark, table, new_batches[-1])
            on_batch(new_batches[-1])
        return new_batches


def _convert_locally(
    files: Sequence[File], folder: Path, options: CaptureOptions, on_batch: Callable[[TableBatch], object]
) -> list[TableBatch]:
    existing = batches(None, str(folder)) or []
    check_table(None, str(folder), existing)
    local_table.finish(folder)
    (folder / "_files").mkdir(exist_ok=True)  # also if there are no files
    first_number = next_number({batch.number for batch in existing}, has_lock=True)
    new_batches = []
    for number, group in enumerate(_group_files(_new_files(files, existing)), start=first_number):
        staged = local_table.new_folder(folder)
        batch_counts = write_files(group, staged, options)
        batch = TableBatch(
            number, {file.uri: file.size for file in group}, form=PARQUET, staged=staged.name, **batch_counts
        )
        local_table.write_record(folder, number, to_record(batch))
        local_table.finish(folder)
        new_batches.append(batch)
        on_batch(batch)
    return new_batches


def _new_files(files: Sequence[File], existing: Sequence[TableBatch]) -> list[File]:
    known_uris = {uri for batch in existing for uri in batch.files}
    return [file for file in files if file.uri not in known_uris]


def next_number(numbers: Set[int], *, has_lock: bool) -> int:
    """Return a number for a new batch, not in `numbers`; without a lock, one that no other run will use."""
    if has_lock:
        return max((number for number in numbers if number < _FIRST_UNLOCKED), default=0) + 1
    return _FIRST_UNLOCKED + secrets.randbelow(_LAST_UNLOCKED - _FIRST_UNLOCKED)


def grown_files(files: Sequence[File], existing: Sequence[TableBatch]) -> list[File]:
    """Return the files whose size has changed since they were added to a table; newer data is not in it."""
    sizes = {uri: size for batch in existing for uri, size in batch.files.items()}
    return [file for file in files if sizes.get(file.uri, file.size) != file.size]


def _group_files(files: Sequence[File]) -> Iterator[list[File]]:
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


def _write_batch(
    spark: SparkSession,
    files: Sequence[File],
    table: str,
    form: str,
    number: int,
    options: CaptureOptions,
    where: Column | None,
) -> dict[str, Any]:
    """Write the lines of files that satisfy `where` as a batch; return the counts of all lines."""
    rows = read_files(spark, files, options)
    observation = Observation()
    rows = with_dates(rows.observe(observation, *counts(), *bad_files()))
    if where is not None:
        rows = rows.where(where | F.col("corrupt").isNotNull() | F.col("damage").isNotNull())
    write_batch(rows, table, form, number)
    return dict(observation.get)


def write_record(spark: SparkSession, table: str, batch: TableBatch) -> None:
    """Make a batch part of its table, after its rows were written."""
    record = spark.createDataFrame([to_record(batch)], _RECORD)
    record.coalesce(1).write.mode("overwrite").json(f"{table}/_files/batch={batch.number}")


def with_dates(rows: DataFrame) -> DataFrame:
    """Convert rows of ROW to TABLE: add the date and hour of `ts` in UTC, independent of the session's time zone."""
    # Engines divide as doubles, which represent the microseconds of a day exactly, but not those of a distant year.
    at = F.unix_micros("ts")
    time_of_day_us = F.pmod(at, F.lit(_DAY_US))
    return rows.withColumns(
        {
            "date": F.date_from_unix_date(F.round((at - time_of_day_us) / _DAY_US).cast("int")),
            "hour": F.floor(time_of_day_us / _HOUR_US).cast("int"),
        }
    )


def read_table(spark: SparkSession, table: str, *, may_have: Callable[[str], bool] = lambda path: True) -> DataFrame:
    """Return the lines of a table, as TABLE.

    `may_have` tells whether a path may have lines that are needed; the embedded engine skips other paths.

    Raises:
        ValueError: There is no table.
        UserError: The table has duplicate lines, or the embedded engine cannot read its format.
    """
    table_batches = batches(spark, table)
    if table_batches is None:
        raise ValueError(f"{table} is not a table of traces")
    if not table_batches:
        return spark.createDataFrame([], TABLE)
    check_table(spark, table, table_batches)
    duplicates_by_batch = duplicate_files(table_batches)
    unique_batches = [batch for batch in table_batches if batch.number not in duplicates_by_batch]
    frames = [_read(spark, table, unique_batches, may_have)] if unique_batches else []
    for number, files in duplicates_by_batch.items():
        rows = _read(spark, table, [batch for batch in table_batches if batch.number == number], may_have)
        frames.append(rows.where(~F.col("file").isin(*files)))
    return reduce(DataFrame.unionAll, frames).where(F.col("date").isNotNull())


def _read(spark: SparkSession, table: str, batches: Sequence[TableBatch], may_have: Callable[[str], bool]) -> DataFrame:
    """Return the rows of batches as TABLE, including rows that are not lines."""
    folder, form = local_input(spark, table), batches[0].form
    if form == PARQUET and folder is not None:
        folders = [local_table.batch_folder(folder, batch.number, batch.staged) for batch in batches]
        if is_embedded(spark):
            return _read_files(spark, [path for folder in folders for path in local_table.data_files(folder)], may_have)
        if any(batch_directory.parent != folder for batch_directory in folders):
            reader = spark.read.schema(TABLE)
            return reduce(DataFrame.unionAll, (reader.parquet(str(folder)).select(*TABLE.names) for folder in folders))
    elif is_embedded(spark):
        raise UserError(f"{table} is a {form} table, which the embedded engine does not read: pass --engine spark")
    return read_batches(spark, table, form, [batch.number for batch in batches])


def _read_files(spark: SparkSession, paths: Sequence[Path], may_have: Callable[[str], bool]) -> DataFrame:
    """Return the rows of local Parquet files, whose dates are computed: Sail fails on partitions without a date."""
    needed_paths = [str(path) for path in paths if may_have(str(path))]
    if not needed_paths:
        return spark.createDataFrame([], TABLE)
    rows = with_dates(spark.read.schema(ROW).parquet(*needed_paths))
    return rows.withColumn("date", F.when(F.col("corrupt").isNull() & F.col("damage").isNull(), F.col("date")))


def duplicate_files(batches: Sequence[TableBatch]) -> dict[int, set[str]]:
    """Return, by batch number, the files that an earlier batch also has, because two runs without a lock read them."""
    seen_uris: set[str] = set()
    duplicates_by_batch = {}
    for batch in batches:
        if files := batch.files.keys() & seen_uris:
            duplicates_by_batch[batch.number] = files
        seen_uris |= batch.files.keys()
    return duplicates_by_batch


def check_table(spark: SparkSession | None, table: str, batches: Sequence[TableBatch]) -> None:
    """Check that the batches of a table are valid.

    Raises:
        UserError: A batch has duplicate lines.
    """
    if batches and batches[0].form == PARQUET and batches_written_twice(spark, table, batches):
        raise UserError(_duplicates_sentence(table))


def batches_written_twice(spark: SparkSession | None, table: str, batches: Sequence[TableBatch]) -> set[int]:
    """Return the batches of a Parquet table with files from several writes; a valid batch has files from one."""
    numbers = sorted({batch.number for batch in batches})
    if (folder := local_input(spark, table)) is not None:
        paths = [str(path) for number in numbers for path in local_table.data_files(folder / f"batch={number}")]
    else:
        assert spark is not None
        paths = read_batches(spark, table, PARQUET, numbers).inputFiles()
    writes: dict[int, set[str]] = {}
    for path in paths:
        if (match := _WRITTEN.search(path)) is not None:
            writes.setdefault(int(match[1]), set()).add(match[2])
    return {number for number, write_ids in writes.items() if len(write_ids) > 1}


def _duplicates_sentence(table: str) -> str:
    return (
        f"{table} has duplicate lines, because two runs of convert wrote to it at once: "
        f"run kproxy analyze convert --repair --out {table}"
    )
