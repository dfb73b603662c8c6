"""The Parquet table contains every complete file once, even after interruptions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kproxy.spark.ingest import convert as converting
from kproxy.spark.ingest.convert import batches, convert, grown_files, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.schema import TABLE
from kproxy.trace.lines import RequestLine
from tests.kproxy.spark.files import TRACE_1, lines_in, parse_lines, trace_bytes, write
from tests.kproxy.spark.sample_lines import request

_HOUR = 3600


def write_trace(folder: Path, number: int, *, lines: int = 3, tail: bytes = b"") -> Path:
    """Write a trace of a separate hour, whose connection id contains `number`."""
    requests = (
        request(at=number * _HOUR + index, connection_id=f"n-1-{number}", offset=index) for index in range(lines)
    )
    return write(folder / f"{number:02d}.jsonl", trace_bytes(*requests) + tail)


def convert_new_files(spark: SparkSession, traces: Path, table: Path) -> list[int]:
    """Convert new files; return the number of files in each batch."""
    files = find_files(spark, [str(traces)])
    return [len(batch.files) for batch in convert(spark, files, str(table), CaptureOptions())]


def count_lines(spark: SparkSession, table: Path) -> dict[str, int]:
    """Return the number of lines per connection."""
    rows = read_table(spark, str(table)).groupBy("connection_id").count().collect()
    return {row["connection_id"]: row["count"] for row in rows}


def test_table_contains_the_lines_of_its_input_files_by_date_and_hour(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", TRACE_1.read_bytes())
    write(tmp_path / "in" / "b.jsonl.gz", trace_bytes(request(at=19 * _HOUR)))  # the next day
    assert convert_new_files(spark, tmp_path / "in", tmp_path / "table") == [2]
    table = read_table(spark, str(tmp_path / "table"))
    assert table.schema.names == TABLE.names
    assert [field.dataType for field in table.schema] == [field.dataType for field in TABLE]
    assert lines_in(table) == parse_lines([*TRACE_1.read_text().splitlines(), trace_bytes(request(at=19 * _HOUR))])
    days = table.select(F.col("date").cast("string"), "hour", F.date_format("ts", "yyyy-MM-dd HH")).distinct().collect()
    assert {f"{day} {hour:02d}" for day, hour, _ in days} == {at for *_, at in days}
    assert {(day, hour) for day, hour, _ in days} > {("2026-11-22", 0)}
    [path] = (tmp_path / "table" / "batch=1").glob("date=2026-11-22/hour=*")
    assert path.name == "hour=00"


def test_table_of_an_older_release_has_nulls_in_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    write_trace(tmp_path / "in", 0)
    convert_new_files(spark, tmp_path / "in", tmp_path / "table")
    for path in (tmp_path / "table").glob("batch=1/date=*/hour=*/*"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns("request_offset"), path)
    table = read_table(spark, str(tmp_path / "table"))
    assert table.schema.names == TABLE.names
    assert table.where("request_offset is null").count() == 3


def test_only_new_files_are_added(spark: SparkSession, tmp_path: Path) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    write_trace(traces, 0), write_trace(traces, 1)
    assert convert_new_files(spark, traces, table) == [2]
    assert convert_new_files(spark, traces, table) == []
    write_trace(traces, 2)
    write(traces / ".03.jsonl.part", b"{")
    assert convert_new_files(spark, traces, table) == [1]
    assert convert_new_files(spark, traces, table) == []
    assert count_lines(spark, table) == {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3}


def test_corrupt_lines_are_counted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    traces, table = tmp_path / "in", str(tmp_path / "table")
    path = write_trace(traces, 0, tail=b"no line\n" + b"y" * 9000 + b"\n{")
    [batch] = convert(spark, find_files(spark, [str(traces)]), table, CaptureOptions())
    assert (batch.lines, batch.corrupt) == (3, 3)
    assert batch.example == f"file:{path}: no line"
    assert [(batch.lines, batch.corrupt) for batch in batches(spark, table) or ()] == [(3, 3)]
    assert read_table(spark, table).count() == 3
    corrupt_lines = ds.dataset(table, format="parquet").to_table(columns=["corrupt"])["corrupt"].drop_null()
    assert sorted(map(len, corrupt_lines.to_pylist())) == [1, 7, 4096]


def test_extreme_timestamps_are_stored_in_the_partition_of_their_day(spark: SparkSession, tmp_path: Path) -> None:
    """As a double, the microseconds of a distant year would be rounded up to the next day."""
    times = ["0001-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"]
    lines = trace_bytes(*(RequestLine(**(structs.asdict(request()) | {"ts": at})) for at in times))
    for name in ("a.jsonl", "b.jsonl.gz"):
        write(tmp_path / "in" / name, lines)
    assert convert_new_files(spark, tmp_path / "in", tmp_path / "table") == [2]
    partitions = sorted(path.relative_to(tmp_path / "table") for path in tmp_path.glob("table/batch=1/date=*/hour=*"))
    assert [str(path) for path in partitions] == [
        "batch=1/date=0001-01-01/hour=00", "batch=1/date=1969-12-31/hour=23", "batch=1/date=9999-12-31/hour=23",
    ]  # fmt: skip
    days = read_table(spark, str(tmp_path / "table")).select(F.col("date").cast("string"), F.col("ts").cast("string"))
    assert sorted(map(tuple, days.distinct().collect())) == [
        (at[:10], at[:-1].replace("T", " ").removesuffix(".000000")) for at in times
    ]


def test_file_that_has_grown_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    write_trace(traces, 0), write_trace(traces, 1)
    convert_new_files(spark, traces, table)
    files = find_files(spark, [str(traces)])
    assert grown_files(files, batches(spark, str(table)) or []) == []
    grown_trace = write_trace(traces, 1, lines=4)
    write_trace(traces, 2)
    files = find_files(spark, [str(traces)])
    assert [file.path for file in grown_files(files, batches(spark, str(table)) or [])] == [f"file:{grown_trace}"]
    assert convert_new_files(spark, traces, table) == [1]
    assert count_lines(spark, table) == {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3}


def test_killed_run_neither_loses_nor_duplicates_lines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    monkeypatch.setattr(converting, "BATCH_BYTES", 1)  # one batch per file
    for number in range(3):
        write_trace(traces, number)
    assert convert_new_files(spark, traces, table) == [1, 1, 1]
    batch, record = table / "batch=3", table / "_files" / "batch=3"
    files = "date=*/hour=*/*.parquet"
    states = {
        "rows are written, but their record is not begun": lambda: shutil.rmtree(record),
        "the record is begun": lambda: _make_unfinished(record),
        "rows are begun": lambda: (shutil.rmtree(record), _make_unfinished(batch)),
        "some rows are in place": lambda: (shutil.rmtree(record), next(batch.glob(files)).unlink()),
    }  # fmt: skip
    for state, interrupt in states.items():
        interrupt()
        assert count_lines(spark, table) == {"n-1-0": 3, "n-1-1": 3}, state
        assert convert_new_files(spark, traces, table) == [1], state
        assert count_lines(spark, table) == {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3}, state


def _make_unfinished(folder: Path) -> None:
    """Make a directory look as it does during Spark's first write, when its files are in _temporary."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    (folder / "_temporary").mkdir(parents=True)
    aside.rename(folder / "_temporary" / "0")


def test_reading_a_missing_table_raises_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a table of traces"):
        read_table(spark, str(tmp_path))
