"""Delta and Iceberg tables are tested if SPARK_CONF_DIR adds their packages to the session (see docs/spark.md)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from kproxy.cli import main
from kproxy.errors import UserError
from kproxy.spark.ingest import convert as converting
from kproxy.spark.ingest import table_storage
from kproxy.spark.ingest.convert import batches, convert, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.schema import TABLE
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark import sample_lines
from tests.kproxy.spark.files import TRACE_1, lines_in, parse_lines, trace_bytes, write
from tests.kproxy.spark.sample_lines import request, response

_HOUR = 3600


@pytest.fixture(params=[table_storage.DELTA, table_storage.ICEBERG])
def table_format(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name: str = request.param
    if name not in spark.conf.get("spark.jars.packages", ""):
        pytest.skip(f"{name} is not on the session")
    return name


def write_trace(folder: Path, number: int, *, lines: int = 3) -> Path:
    """Write a trace of two consecutive hours, whose connection id contains `number`."""
    requests = (
        request(at=(number + index % 2) * _HOUR, connection_id=f"n-1-{number}", offset=index) for index in range(lines)
    )
    return write(folder / f"{number:02d}.jsonl", trace_bytes(*requests) + b"no line\n")


def convert_new_files(spark: SparkSession, traces: Path, table: Path, table_format: str | None = None) -> list[int]:
    """Convert new files; return the number of files in each batch."""
    files = find_files(spark, [str(traces)])
    return [len(batch.files) for batch in convert(spark, files, str(table), CaptureOptions(), form=table_format)]


def count_lines(spark: SparkSession, table: Path) -> dict[str, int]:
    """Return the number of lines per connection."""
    rows = read_table(spark, str(table)).groupBy("connection_id").count().collect()
    return {row["connection_id"]: row["count"] for row in rows}


def count_visible_rows(spark: SparkSession, table: Path, table_format: str) -> int:
    """Return the number of rows that other readers see."""
    return spark.read.format(table_format).load(str(table)).where("corrupt is null").count()


def test_table_contains_the_lines_of_its_input_files(spark: SparkSession, tmp_path: Path, table_format: str) -> None:
    table = tmp_path / "a `table`"
    write(tmp_path / "in" / "a.jsonl", TRACE_1.read_bytes())
    assert convert_new_files(spark, tmp_path / "in", table, table_format) == [1]
    rows = read_table(spark, str(table))
    assert [(field.name, field.dataType) for field in rows.schema] == [
        (column.name, column.dataType) for column in TABLE
    ]
    assert lines_in(rows) == parse_lines(TRACE_1.read_text().splitlines())
    assert count_visible_rows(spark, table, table_format) == rows.count()
    write_trace(tmp_path / "in", 1)
    assert convert_new_files(spark, tmp_path / "in", table) == [1]  # the table keeps its format
    assert convert_new_files(spark, tmp_path / "in", table, table_format) == []
    assert count_lines(spark, table)["n-1-1"] == 3
    assert [(batch.number, batch.corrupt, batch.form) for batch in batches(spark, str(table)) or ()] == [
        (1, 0, table_format), (2, 1, table_format),
    ]  # fmt: skip
    with pytest.raises(UserError, match=f"is a {table_format} table: write parquet to another directory"):
        convert_new_files(spark, tmp_path / "in", table, table_storage.PARQUET)


def test_killed_run_neither_loses_nor_duplicates_lines(
    spark: SparkSession, tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    monkeypatch.setattr(converting, "BATCH_BYTES", 1)  # one batch per file
    write_trace(traces, 1)
    assert convert_new_files(spark, traces, table, table_format) == [1]
    shutil.rmtree(table / "_files")  # as if killed before the first record was written
    assert batches(spark, str(table)) is None
    assert convert_new_files(spark, traces, table, table_format) == [1]
    write_trace(traces, 5)
    assert convert_new_files(spark, traces, table) == [1]
    shutil.rmtree(table / "_files" / "batch=2")
    assert count_lines(spark, table) == {"n-1-1": 3}
    write_trace(traces, 3)  # this trace now comes first; its lines are from other hours
    assert convert_new_files(spark, traces, table) == [1, 1]
    assert count_lines(spark, table) == {"n-1-1": 3, "n-1-3": 3, "n-1-5": 3}
    assert count_visible_rows(spark, table, table_format) == 9


def test_table_of_an_earlier_release_accepts_new_columns(
    spark: SparkSession, tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns in structs inside arrays are also added, and are null until then."""
    table = str(tmp_path / "table")
    rows = sample_lines.table(spark, response(topics=[TopicEntry("orders", lag=3)]))
    topic = TABLE["topics"].dataType.elementType
    older_schema = T.StructType([column for column in TABLE if column.name not in ("topics", "latency_us")]).add(
        "topics", T.ArrayType(T.StructType([column for column in topic if column.name != "lag"]))
    )
    with monkeypatch.context() as patch:
        patch.setattr(table_storage, "TABLE", older_schema)
        table_storage.write_batch(rows.to(older_schema), table, table_format, 1)

    def read_rows(*numbers: int) -> list[Any]:
        frame = table_storage.read_batches(spark, table, table_format, numbers)
        return [tuple(row) for row in frame.selectExpr("latency_us", "topics[0].topic", "topics[0].lag").collect()]

    assert read_rows(1) == [(None, "orders", None)]
    table_storage.write_batch(rows, table, table_format, 2)
    assert read_rows(1) == [(None, "orders", None)]
    assert read_rows(2) == [(1000, "orders", 3)]


def test_invalid_format_is_reported_in_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    traces, table = str(write_trace(tmp_path / "in", 1).parent), str(tmp_path / "table")
    convert_new_files(spark, tmp_path / "in", tmp_path / "table")
    messages = {
        ("convert", traces, "--out", table, "--format", "json"): "convert supports --format parquet, delta, iceberg",
        (table, "--format", "delta", "--out", table): "--format delta works only with convert",
        (
            "convert",
            traces,
            "--out",
            table,
            "--format",
            "delta",
        ): f"{table} is a parquet table: write delta to another",
    }
    if not spark.conf.get("spark.jars.packages", ""):
        convert_to_new_table = ("convert", traces, "--out", f"{table}2", "--format")
        package = "; add its package: --conf spark.jars.packages="
        messages |= {
            (*convert_to_new_table, table_format): package
            for table_format in (table_storage.DELTA, table_storage.ICEBERG)
        }
    for args, message in messages.items():
        capfd.readouterr()
        assert main(["analyze", "--engine", "spark", *args]) == 2
        output, error_output = capfd.readouterr()
        assert (output, error_output.count("\n")) == ("", 1)
        assert message in error_output
        assert "org.apache.spark." not in error_output
