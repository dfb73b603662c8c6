from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs import Job
from kproxy.spark.report import tables
from kproxy.spark.report.axis import Axis, axis
from kproxy.spark.report.charts import observed_us
from kproxy.spark.report.facts import facts
from tests.kproxy.spark.sample_lines import BEGIN_NS, request, response, table

BEGIN_US = BEGIN_NS // 1000
SECOND_US, HOUR_US = 1_000_000, 3_600_000_000


def build_table(table: DataFrame, name: str = "made") -> tables.JobTable:
    return tables.build_job_table(Job(name, "what it tells", lambda lines: lines), table)


def test_values_are_converted_and_column_types_inferred(spark: SparkSession) -> None:
    at = datetime(2026, 11, 21, 5, tzinfo=UTC)
    columns = (
        "name string, took_us long, at timestamp, sum_bytes long, a_share double, count int, names array<string>, "
        "on boolean, nested struct<x:int>"
    )
    listed = build_table(spark.createDataFrame([("a\x1b\u202e", 7, at, 5, 0.5, 3, ["b", "\x00"], True, (1,))], columns))
    assert listed.columns == [
        ("name", "text"), ("took_us", "duration"), ("at", "time"), ("sum_bytes", "size"), ("a_share", "share"),
        ("count", "number"), ("names", "list"), ("on", "text"), ("nested", "text"),
    ]  # fmt: skip
    assert listed.rows == [["a\\x1b\\u202e", 7, BEGIN_US, 5, 0.5, 3, ["b", "\\x00"], True, '{"x":1}']]
    assert not listed.more


def test_first_rows_of_each_group_are_kept(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ROWS", 2)
    monkeypatch.setattr(tables, "MAX_PER_KIND", 1)
    ungrouped = spark.createDataFrame([("c",), ("b",), ("a",)], "name string").orderBy("name")
    assert (build_table(ungrouped).rows, build_table(ungrouped).more) == ([["a"], ["b"]], True)
    grouped = spark.createDataFrame([("x", 1), ("y", 2), ("x", 3), ("y", 4)], "by string, n int").orderBy("n")
    assert (build_table(grouped).rows, build_table(grouped).more) == ([["x", 1], ["y", 2]], True)
    clients = spark.createDataFrame([("a", None), ("b", None), ("a", "Fetch")], "client string, api string")
    assert (build_table(clients, "clients").rows, build_table(clients, "clients").more) == (
        [["a", None], ["b", None], ["a", "Fetch"]],
        False,
    )


def test_long_text_is_truncated(spark: SparkSession) -> None:
    [[text]] = build_table(spark.createDataFrame([("x" * 9999,)], "name string")).rows
    assert text == "x" * 400 + "…"


def test_axis_omits_long_gaps(spark: SparkSession) -> None:
    lines = table(spark, request(at=0), request(at=25), request(at=3600), request(at=3601))
    time_axis = axis(lines, BEGIN_US, BEGIN_US + 3601 * SECOND_US)
    assert time_axis.step_us == SECOND_US
    assert [(at - BEGIN_US) // SECOND_US for at in time_axis.begins] == [0, 25, 3600, 3601]


def test_axis_keeps_short_gaps_and_lengthens_buckets(spark: SparkSession) -> None:
    lines = table(spark, *(request(at=3600 * hour) for hour in (0, *range(4, 200))))
    time_axis = axis(lines, BEGIN_US, BEGIN_US + 200 * HOUR_US)
    assert time_axis.step_us == 3 * HOUR_US
    assert len(time_axis.begins) == 68


def test_first_and_last_bucket_and_gaps_are_partly_observed(spark: SparkSession) -> None:
    times = [300, *range(600, 7000, 600), 7100, *range(9000, 13_300, 300)]
    lines = table(spark, *(request(at=at) for at in times))
    observed = observed_us(lines, Axis(HOUR_US, tuple(BEGIN_US + hour * HOUR_US for hour in range(5))))
    assert [time_us // SECOND_US for time_us in observed] == [3300, 7100 - 3600, 10_800 - 9000, 13_200 - 10_800, 0]


def test_no_lines_have_no_axis_and_zero_facts(spark: SparkSession) -> None:
    no_lines = table(spark, request()).where("false")
    counted = facts(no_lines)
    assert (counted.lines, counted.clients, counted.first_us) == (0, 0, None)
    assert axis(no_lines, 0, 0).begins == ()


def test_facts_count_lines_and_names(spark: SparkSession) -> None:
    counted = facts(
        table(
            spark,
            request(connection_id="a-1-1", size=7),
            response(connection_id="a-1-1", at=1, size=3, client_id="other"),
            request(connection_id="b-1-1", at=2, client_id=None, server="10.0.0.2:9092"),
        )
    )
    assert (counted.lines, counted.requests, counted.responses, counted.wire_bytes) == (3, 2, 1, 110)
    assert (counted.connections, counted.clients, counted.brokers, counted.proxies) == (2, 3, 2, 2)
    assert (counted.first_us, counted.last_us) == (BEGIN_US, BEGIN_US + 2 * SECOND_US)
