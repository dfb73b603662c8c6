"""Merges small batches of a local Parquet table: each costs time in every read, no matter how few lines it has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kproxy.errors import UserError
from kproxy.spark.ingest import local_table
from kproxy.spark.ingest.convert import TableBatch, batches, check_table, duplicate_files, next_number, to_record
from kproxy.spark.ingest.local_files import local_output
from kproxy.spark.ingest.local_tables import METADATA
from kproxy.spark.ingest.locks import lock_local_table
from kproxy.spark.ingest.process_pool import run_tasks
from kproxy.spark.ingest.table_storage import PARQUET

#: Batches with fewer bytes are merged.
_SMALL: Final = 64 << 20
#: Rows in memory at once.
_CHUNK_ROWS: Final = 65_536


def compact(table: str, *, on_wait: Callable[[], object] = lambda: None) -> list[TableBatch]:
    """Merge the small batches of a table into one; return the replaced batches, none if fewer than two are small.

    It can be killed at any time, and run again. A run that is reading the table may fail because a file is missing.

    Raises:
        UserError: It is not a local Parquet table, or has duplicate lines.
    """
    folder = local_output(None, table)
    if folder is None or not local_table.is_table(folder):
        raise UserError(f"{table} is not a table of traces in a local directory")
    with lock_local_table(folder, on_wait):
        table_batches = batches(None, table) or []
        if table_batches and table_batches[0].form != PARQUET:
            raise UserError(f"{table} is a {table_batches[0].form} table, which its own tools compact")
        check_table(None, table, table_batches)
        if duplicate_files(table_batches):
            raise UserError(f"{table} has files twice: run kproxy analyze convert --repair --out {table}")
        local_table.finish(folder)
        small_batches = [batch for batch in table_batches if _batch_size(folder / f"batch={batch.number}") < _SMALL]
        if len(small_batches) < 2:
            return []
        staged_folder = local_table.new_folder(folder)
        _merge([folder / f"batch={batch.number}" for batch in small_batches], staged_folder)
        merged = TableBatch(
            next_number({batch.number for batch in table_batches}, has_lock=True),
            {uri: size for batch in small_batches for uri, size in batch.files.items()},
            sum(batch.lines for batch in small_batches), sum(batch.corrupt for batch in small_batches), PARQUET,
            staged=staged_folder.name, replaces=[batch.number for batch in small_batches],
        )  # fmt: skip
        local_table.write_record(folder, merged.number, to_record(merged))
        local_table.finish(folder)
        return small_batches


def _batch_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in local_table.data_files(folder))


def _merge(folders: Sequence[Path], target: Path) -> None:
    """Write the rows of batches to a new batch, one file per hour and schema: releases of kproxy add columns."""
    hours: dict[Path, list[Path]] = defaultdict(list)
    for folder in folders:
        for path in local_table.data_files(folder):
            hours[path.parent.relative_to(folder)].append(path)
    target.mkdir(parents=True)
    for _ in run_tasks(partial(_merge_hour, target), list(hours.items())):
        pass


def _merge_hour(target: Path, hour_files: tuple[Path, Sequence[Path]]) -> None:
    hour_folder, paths = hour_files
    (target / hour_folder).mkdir(parents=True)
    writers: list[pq.ParquetWriter] = []
    try:
        for path in paths:
            with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                schema = _utc_schema(file.schema_arrow)
                writer = next((writer for writer in writers if writer.schema.equals(schema)), None)
                if writer is None:
                    name = f"part-{len(writers):05d}-{target.name}.c000.zstd.parquet"
                    writer = pq.ParquetWriter(
                        target / hour_folder / name, schema, compression="zstd", store_schema=False
                    )
                    writers.append(writer)
                for batch in file.iter_batches(_CHUNK_ROWS):
                    writer.write_batch(batch.cast(schema))
    finally:
        for writer in writers:
            writer.close()


def _utc_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with times in UTC: times that Spark wrote have no zone in Parquet (INT96)."""
    utc = pa.timestamp("us", tz="UTC")
    fields = (field.with_type(utc) if pa.types.is_timestamp(field.type) else field for field in schema)
    return pa.schema(list(fields), METADATA)
