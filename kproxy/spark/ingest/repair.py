"""Repairs a table with duplicate lines, written by several runs of convert at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from kproxy.errors import UserError
from kproxy.spark.ingest import local_table
from kproxy.spark.ingest.convert import TableBatch, batches_written_twice, next_number, records, write_record
from kproxy.spark.ingest.decode import local_path
from kproxy.spark.ingest.local_files import local_input
from kproxy.spark.ingest.locks import delete, lock_table
from kproxy.spark.ingest.schema import TABLE
from kproxy.spark.ingest.table_storage import PARQUET, read_batches, write_batch


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What was repaired in a batch with duplicate lines.

    Attributes:
        number: The number of the batch.
        removed: The number of duplicates removed.
        lost: Whether lines are missing because only some were written.
        again: Files that the next `convert` reads again, because some of their lines were lost.
    """

    number: int
    removed: int
    lost: bool
    again: Sequence[str]


def repair(spark: SparkSession, table: str, *, on_wait: Callable[[], object] = lambda: None) -> list[RepairResult]:
    """Remove duplicate lines from a table; can be killed at any time and run again.

    If two runs have written a batch, or its files are also in other batches, its distinct rows are written as a new
    batch, and the old batch is deleted. The lines of a trace are distinct: they have a time and an offset.

    Raises:
        UserError: There is no Parquet table, or the session cannot delete files.
    """
    if is_remote():
        raise UserError("a Spark Connect server cannot delete files: repair the table with a local session")
    with lock_table(spark, table, on_wait) as has_lock:
        if (folder := local_input(spark, table)) is not None:
            local_table.finish(folder)
        batches = records(spark, table)
        if not batches:
            raise UserError(f"{table} is not a table of traces")
        if batches[0].form != PARQUET:
            raise UserError(f"{table} is a {batches[0].form} table, which cannot have partial batches")
        by_number: dict[int, list[TableBatch]] = {}
        for batch in batches:
            by_number.setdefault(batch.number, []).append(batch)
        duplicated_numbers = {number for number, records_of_number in by_number.items() if len(records_of_number) > 1}
        invalid_numbers = duplicated_numbers | batches_written_twice(spark, table, batches)
        used_numbers, kept_files, results = set(by_number), set[str](), []
        for number in sorted(
            by_number, key=lambda number: (number in invalid_numbers, number)
        ):  # valid batches keep their files
            files = {uri for batch in by_number[number] for uri in batch.files}
            if number in invalid_numbers or files & kept_files:
                new_number = next_number(used_numbers, has_lock=has_lock)
                used_numbers.add(new_number)
                results.append(_rewrite(spark, table, by_number[number], new_number, kept_files))
            kept_files |= files
        return results


def _rewrite(
    spark: SparkSession, table: str, batches: Sequence[TableBatch], new_number: int, kept_files: set[str]
) -> RepairResult:
    """Write the distinct rows of a batch, which may have several records, as a new batch; delete the old one."""
    number = batches[0].number
    files = {uri: size for batch in batches for uri, size in batch.files.items()}
    own_files = {uri: size for uri, size in files.items() if uri not in kept_files}
    rows = read_batches(spark, table, PARQUET, [number])
    old_line_count = rows.where(F.col("date").isNotNull()).count()
    lost, lines, corrupt = False, 0, 0
    if own_files:
        distinct_rows = rows.where(F.col("file").isin(*own_files)).select(*TABLE.names).dropDuplicates().persist()
        lines = distinct_rows.where(F.col("date").isNotNull()).count()
        corrupt = distinct_rows.where(F.col("corrupt").isNotNull()).count()
        expected_lines = max(batch.lines for batch in batches)
        # Each record counts the lines of all its files, so the numbers are comparable only if no file is left out.
        lost = len(own_files) == len(files) and lines < expected_lines
        if not (lost and all(map(_exists, own_files))):
            write_batch(distinct_rows, table, PARQUET, new_number)
            write_record(
                spark, table, replace(batches[0], number=new_number, files=own_files, lines=lines, corrupt=corrupt)
            )
        distinct_rows.unpersist()
    delete(spark, f"{table}/_files/batch={number}")
    delete(spark, f"{table}/batch={number}")
    read_again = sorted(own_files) if lost and all(map(_exists, own_files)) else []
    return RepairResult(number, old_line_count - lines, lost, read_again)


def _exists(uri: str) -> bool:
    return uri.startswith("file:") and local_path(uri).is_file()
