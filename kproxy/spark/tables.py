"""Output of job tables: as text, as JSON or CSV lines, or as files."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.errors import UserError
from kproxy.outputs.terminal_table import Column, write_columns
from kproxy.spark.session.embedded_engine import is_embedded
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import duration, safe, size

#: The formats of files; the formats of standard output are table, json and csv.
FILES = ("parquet", "json", "csv")


def write_files(table: DataFrame, folder: str, form: str) -> None:
    """Write a table to a file in a directory, replacing existing files.

    Raises:
        UserError: The embedded engine's table cannot be written.
    """
    if is_embedded(table.sparkSession):
        try:
            _write_file(table, Path(folder.removeprefix("file:")), form)
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror or error}") from None
        return
    if form == "csv":
        table = _flatten(table)
    writer = table.coalesce(1).write.mode("overwrite").option("header", True)
    if form != "parquet":  # by default, Spark cuts times to milliseconds
        writer = writer.option("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
    writer.format(form).save(folder)


def _write_file(table: DataFrame, folder: Path, form: str) -> None:
    """Write a table as Spark would; Sail's writer reorders rows, and writes no file for an empty table."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / f"part-00000.{form}"
    if form == "parquet":
        pq.write_table(table.toArrow(), path, compression="zstd")
    elif form == "csv":
        with path.open("w", encoding="utf-8") as file:
            write_csv(table, file)
    else:
        with path.open("wb") as json_file:
            for row in table.toLocalIterator():
                json_file.write(encode_json(_without_nulls(_plain_value(row.asDict(recursive=True)))) + b"\n")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def write_json(table: DataFrame, job: str, file: TextIO) -> None:
    """Write one JSON line per row, including the job's name."""
    write_rows(table.toLocalIterator(), job, file)


def write_rows(rows: Iterable[Row], job: str, file: TextIO) -> None:
    """Write rows that are already collected, like `write_json`."""
    for row in rows:
        file.buffer.write(encode_json({"job": job, **_plain_value(row.asDict(recursive=True))}) + b"\n")
    file.flush()


def write_csv(table: DataFrame, file: TextIO) -> None:
    """Write comma-separated values with a header; nested values as JSON."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    for row in _flatten(table).toLocalIterator():
        writer.writerow(["" if value is None else value for value in _plain_value(row.asDict()).values()])


def first_rows(table: DataFrame, max_rows: int) -> list[Row]:
    """Return the first rows, plus one more if the table has more rows."""
    return list(table.limit(max_rows + 1).collect())


def write_table(table: DataFrame, title: str, collected: Sequence[Row], max_rows: int, file: TextIO) -> None:
    """Write the result of `first_rows` as text: aligned on a terminal, else tab-separated; units are by column name."""
    rows = [[cell(name, value) for name, value in row.asDict().items()] for row in collected]
    has_more = len(rows) > max_rows
    if not file.isatty():
        file.write(f"# {title}\n" + "".join("\t".join(row) + "\n" for row in [table.columns, *rows[:max_rows]]))
        if has_more:
            file.write(f"# more rows omitted: use --rows N to show more than {max_rows}\n")
        file.write("\n")
        return
    if not rows:
        file.write(f"{title}: no rows\n")
        return

    numeric_columns = {field.name for field in table.schema if isinstance(field.dataType, T.NumericType)}
    cells = zip(*rows[:max_rows], strict=True)
    columns = [
        Column(_heading(name), column_cells, name in numeric_columns)
        for name, column_cells in zip(table.columns, cells, strict=True)
    ]
    write_columns(
        title, columns, f"more rows omitted: use --rows N to show more than {max_rows}" if has_more else "", file
    )


def _heading(name: str) -> str:
    return name.removesuffix("_us").removesuffix("_bytes").replace("_", " ")


def cell(name: str, value: Any) -> str:
    """Format a value in the unit that its column's name ends in."""
    if value is None:
        return ""
    if name.endswith("_us"):
        return duration(round(value))
    if name.endswith("bytes"):
        return size(round(value))
    if name == "share" or name.endswith("_share"):
        return f"{100 * value:.3g} %"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list):
        return ", ".join(cell("", element) for element in value)
    return safe(str(value))


def _flatten(table: DataFrame) -> DataFrame:
    nested_types = (T.ArrayType, T.MapType, T.StructType)
    return table.select(
        *(
            F.to_json(field.name).alias(field.name) if isinstance(field.dataType, nested_types) else F.col(field.name)
            for field in table.schema
        )
    )


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_value(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain_value(element) for element in value]
    if isinstance(value, datetime):  # Spark returns it in this process's time zone
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return value
