"""Lines are selected for an analysis from tables, traces and captures, and by time."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.errors import UserError
from kproxy.spark.ingest import local_lines
from kproxy.spark.ingest.convert import TableBatch, convert, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.lines import Period, open_lines, sampled
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import trace_bytes, write
from tests.kproxy.spark.sample_lines import request

_HOUR = 3600
_TEMPORARY_FOLDER = re.compile("file:(.*/kproxy-analyze-[^/]*)")
#: One line per hour from 2026-11-21T05:30 on, with its index as its offset.
LINES = [request(at=(number + 0.5) * _HOUR, offset=number) for number in range(48)]


def november(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hours")
    write(folder / "in" / "a.jsonl", trace_bytes(*LINES))
    convert(spark, find_files(spark, [str(folder / "in")]), str(folder / "table"), CaptureOptions())
    return str(folder / "table")


def offsets(rows: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in rows.select("offset").collect())


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (Period(), range(48)),
        (Period(since=november(22, 3)), range(22, 48)),
        (Period(since=november(22, 3, 40)), range(23, 48)),
        (Period(until=november(21, 7)), range(2)),
        (Period(until=november(21, 7, 30)), range(2)),
        (Period(november(21, 6), november(21, 9)), range(1, 4)),
        (Period(november(21, 23, 30), november(22, 0, 31)), (18, 19)),
        (Period(since=november(30, 0)), ()),
        (Period(november(22, 9), november(21, 9)), ()),
    ],
)
def test_period_selects_the_lines_within_it(
    spark: SparkSession, table: str, period: Period, expected: Iterable[int]
) -> None:
    assert offsets(read_table(spark, table).where(period.column())) == list(expected)


def test_only_the_partitions_of_a_period_are_read(
    spark: SparkSession, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_copy = Path(shutil.copytree(table, tmp_path / "table"))
    for file in table_copy.glob("batch=1/date=*/hour=*/*.parquet"):
        if file.parent.name not in ("hour=23", "hour=00"):
            file.write_bytes(b"no Parquet: whoever opens it fails")
    period = Period(november(21, 23, 30), november(22, 0, 31))
    rows = read_table(spark, str(table_copy), may_have=period.may_have).where(period.column())
    assert offsets(rows) == [18, 19]
    if ENGINE == "embedded":
        return
    rows = read_table(spark, str(table_copy)).where(period.column())  # now Spark itself selects the partitions
    assert offsets(rows) == [18, 19]
    rows.explain()
    filters = re.search(r"PartitionFilters: \[(.*)", capsys.readouterr().out)
    assert filters is not None
    assert "hour#" in filters[1]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/t/date=2026-11-21/hour=06/x.jsonl", True),
        ("/t/date=2026-11-21/hour=05/x.jsonl", False),
        ("/t/date=2026-11-21/hour=08/x.jsonl", True),
        ("/t/date=2026-11-21/hour=09/x.jsonl", False),
        ("/t/2026-11-21.jsonl", True),
    ],
)
def test_files_of_other_hours_are_not_opened(path: str, expected: bool) -> None:
    assert Period(november(21, 6, 30), november(21, 9)).may_have(path) is expected


@pytest.mark.parametrize("in_memory", [True, False])
def test_tables_traces_and_captures_are_read_together(
    spark: SparkSession, table: str, tmp_path: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few lines stay in memory; otherwise, lines are written to files."""
    monkeypatch.setattr(local_lines, "FILE_BYTES", local_lines.FILE_BYTES if in_memory else 0)
    write(tmp_path / "date=2026-11-21" / "hour=05" / ".x.jsonl.part", trace_bytes(request(offset=100))[:-1] + b"\n{")
    write(
        tmp_path / "date=2026-11-21" / "hour=06" / "y.jsonl.gz",
        b"no line\n" + trace_bytes(request(at=_HOUR, offset=101)),
    )
    batches: list[TableBatch] = []
    paths = [table, str(tmp_path)]
    with open_lines(spark, paths, CaptureOptions(), period=Period(), on_batch=batches.append) as opened:
        lines = opened.rows
        assert offsets(lines) == [*range(48), 100, 101]
        assert lines.where(F.col("date").isNull() | F.col("hour").isNull() | F.col("corrupt").isNotNull()).count() == 0
        folders = {
            Path(match[1]) for name in lines.inputFiles() if (match := _TEMPORARY_FOLDER.match(name)) is not None
        }
        assert [folder.exists() for folder in folders] == [True] * (not in_memory or ENGINE == "embedded")
    assert not any(folder.exists() for folder in folders)
    assert [(batch.lines, batch.corrupt) for batch in batches] == [(2, 1)]
    period, where = Period(until=november(21, 6)), F.col("offset") >= 1
    with open_lines(spark, paths, CaptureOptions(), period=period, where=where) as opened:
        assert offsets(opened.rows) == [100]
    with open_lines(spark, [str(tmp_path)], CaptureOptions(), period=Period(since=november(23, 0))) as opened:
        assert offsets(opened.rows) == []


def test_sample_has_whole_connections_and_is_part_of_any_larger_sample(spark: SparkSession, tmp_path: Path) -> None:
    lines = [request(connection_id=f"proxy-1-{number // 2}", offset=number) for number in range(400)]
    write(tmp_path / "a.jsonl", trace_bytes(*lines))
    with open_lines(spark, [str(tmp_path)], CaptureOptions(), period=Period()) as opened:
        smaller, larger = (set(offsets(opened.rows.where(sampled(fraction)))) for fraction in (0.2, 0.5))
        assert offsets(opened.rows.where(sampled(1))) == list(range(400))
    assert smaller < larger
    assert all(number ^ 1 in larger for number in larger)
    assert 20 < len(smaller) / 2 < 60
    assert 70 < len(larger) / 2 < 130


@pytest.mark.skipif(ENGINE == "embedded", reason="it is no cluster")
def test_missing_traces_and_traces_that_a_cluster_cannot_read_are_rejected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError), open_lines(spark, [str(tmp_path)], CaptureOptions(), period=Period()):
        pass
    original_get = spark.conf.get
    cluster_settings = {"spark.master": "spark://elsewhere:7077"}
    monkeypatch.setattr(
        type(spark.conf), "get", lambda _, name, *default: cluster_settings.get(name) or original_get(name, *default)
    )
    with (
        pytest.raises(UserError, match="kproxy analyze convert"),
        open_lines(spark, [str(tmp_path)], CaptureOptions(), period=Period()),
    ):
        pass


@pytest.mark.parametrize("in_memory", [True, False])
def test_trace_of_blank_lines_is_empty(
    spark: SparkSession, tmp_path: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_lines, "FILE_BYTES", local_lines.FILE_BYTES if in_memory else 0)
    batches: list[TableBatch] = []
    write(tmp_path / "a.jsonl", b"\n \n")
    with open_lines(spark, [str(tmp_path)], CaptureOptions(), period=Period(), on_batch=batches.append) as opened:
        assert opened.rows.count() == 0
    assert [(batch.lines, batch.corrupt) for batch in batches] == [(0, 0)]
