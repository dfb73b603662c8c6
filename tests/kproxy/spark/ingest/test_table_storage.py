"""Tables of Delta and Iceberg, if SPARK_CONF_DIR adds their packages to the session (see docs/spark.md)."""

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
from tests.kproxy.spark.files import TRACE_1, lines_in, parse_lines, text_of, write
from tests.kproxy.spark.sample_lines import request, response

_HOUR = 3600


@pytest.fixture(params=[table_storage.DELTA, table_storage.ICEBERG])
def form(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name: str = request.param
    if name not in spark.conf.get("spark.jars.packages", ""):
        pytest.skip(f"{name} is not on the session")
    return name


def trace(folder: Path, number: int, *, lines: int = 3) -> Path:
    """A trace of two hours of its own; its lines have its number as their connection."""
    lines_ = (
        request(at=(number + index % 2) * _HOUR, connection_id=f"n-1-{number}", offset=index) for index in range(lines)
    )
    return write(folder / f"{number:02d}.jsonl", text_of(*lines_) + b"no line\n")


def add(spark: SparkSession, traces: Path, table: Path, form: str | None = None) -> list[int]:
    """Convert new files; return the number of files of each batch."""
    files = find_files(spark, [str(traces)])
    return [len(batch.files) for batch in convert(spark, files, str(table), CaptureOptions(), form=form)]


def count_lines(spark: SparkSession, table: Path) -> dict[str, int]:
    """The lines of each connection."""
    rows = read_table(spark, str(table)).groupBy("connection_id").count().collect()
    return {row["connection_id"]: row["count"] for row in rows}


def count_visible_rows(spark: SparkSession, table: Path, form: str) -> int:
    """The number of rows that other readers see."""
    return spark.read.format(form).load(str(table)).where("corrupt is null").count()


def test_table_has_the_lines_of_its_files(spark: SparkSession, tmp_path: Path, form: str) -> None:
    table = tmp_path / "a `table`"
    write(tmp_path / "in" / "a.jsonl", TRACE_1.read_bytes())
    assert add(spark, tmp_path / "in", table, form) == [1]
    rows = read_table(spark, str(table))
    assert [(field.name, field.dataType) for field in rows.schema] == [(each.name, each.dataType) for each in TABLE]
    assert lines_in(rows) == parse_lines(TRACE_1.read_text().splitlines())
    assert count_visible_rows(spark, table, form) == rows.count()
    trace(tmp_path / "in", 1)
    assert add(spark, tmp_path / "in", table) == [1]  # in its own format
    assert add(spark, tmp_path / "in", table, form) == []
    assert count_lines(spark, table)["n-1-1"] == 3
    assert [(batch.number, batch.corrupt, batch.form) for batch in batches(spark, str(table)) or ()] == [
        (1, 0, form), (2, 1, form),
    ]  # fmt: skip
    with pytest.raises(UserError, match=f"is a {form} table: write parquet to another directory"):
        add(spark, tmp_path / "in", table, table_storage.PARQUET)


def test_killed_run_neither_loses_nor_duplicates_lines(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    monkeypatch.setattr(converting, "BATCH_BYTES", 1)  # a batch a file
    trace(traces, 1)
    assert add(spark, traces, table, form) == [1]
    shutil.rmtree(table / "_files")  # killed before the first record
    assert batches(spark, str(table)) is None
    assert add(spark, traces, table, form) == [1]
    trace(traces, 5)
    assert add(spark, traces, table) == [1]
    shutil.rmtree(table / "_files" / "batch=2")
    assert count_lines(spark, table) == {"n-1-1": 3}
    trace(traces, 3)  # which is now first, and of other hours
    assert add(spark, traces, table) == [1, 1]
    assert count_lines(spark, table) == {"n-1-1": 3, "n-1-3": 3, "n-1-5": 3}
    assert count_visible_rows(spark, table, form) == 9


def test_table_of_an_earlier_release_accepts_new_columns(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns in structs of arrays are added too; before that they are null."""
    table = str(tmp_path / "table")
    rows = sample_lines.table(spark, response(topics=[TopicEntry("orders", lag=3)]))
    topic = TABLE["topics"].dataType.elementType
    older = T.StructType([each for each in TABLE if each.name not in ("topics", "latency_us")]).add(
        "topics", T.ArrayType(T.StructType([each for each in topic if each.name != "lag"]))
    )
    with monkeypatch.context() as patch:
        patch.setattr(table_storage, "TABLE", older)
        table_storage.write_batch(rows.to(older), table, form, 1)

    def read(*numbers: int) -> list[Any]:
        frame = table_storage.read_batches(spark, table, form, numbers)
        return [tuple(row) for row in frame.selectExpr("latency_us", "topics[0].topic", "topics[0].lag").collect()]

    assert read(1) == [(None, "orders", None)]
    table_storage.write_batch(rows, table, form, 2)
    assert read(1) == [(None, "orders", None)]
    assert read(2) == [(1000, "orders", 3)]


def test_invalid_format_is_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    traces, table = str(trace(tmp_path / "in", 1).parent), str(tmp_path / "table")
    add(spark, tmp_path / "in", tmp_path / "table")
    wrong = {
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
        new = ("convert", traces, "--out", f"{table}2", "--format")
        package = "; add its package: --conf spark.jars.packages="
        wrong |= {(*new, form): package for form in (table_storage.DELTA, table_storage.ICEBERG)}
    for args, says in wrong.items():
        capfd.readouterr()
        assert main(["analyze", "--engine", "spark", *args]) == 2
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert says in err
        assert "org.apache.spark." not in err
