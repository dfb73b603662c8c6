"""The results of each query for hand-made lines, in a batch if possible, otherwise as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from kproxy.spark.jobs import find as job
from kproxy.spark.streaming.queries import Span, find, names
from kproxy.trace.lines import ErrorEntry
from tests.kproxy.spark.sample_lines import finding, finding_entry, request, response, table
from tests.kproxy.spark.streaming.traces import SECOND, TENS, QueryResults, Traces


def with_short_times(rows: DataFrame) -> DataFrame:
    """Return rows with the start and end of their windows as minutes and seconds."""
    return rows.selectExpr(
        "date_format(window_start, 'mm:ss') start", "date_format(window_end, 'mm:ss') end", "*"
    ).drop("window_start", "window_end")


def test_latency_query_returns_a_row_per_window_and_api(spark: SparkSession) -> None:
    lines = table(
        spark,
        request("Fetch", at=1), request("Fetch", at=2), request("Fetch", at=3),
        *(response("Fetch", at=4, latency_us=latency_us) for latency_us in (999, 1234, 0)),
        request("Produce", at=9.9), response("Produce", at=10.1, latency_us=123_456_789),
        response(None, at=5, latency_us=7), finding("C016", at=5),
    )  # fmt: skip
    expected = spark.createDataFrame(
        [
            ("00:00", "00:10", "Fetch", 3, 3, 0.3, 999.0, 1183.8, 1225.38, 1234),
            ("00:00", "00:10", "Produce", 1, 0, 0.1, None, None, None, None),
            ("00:10", "00:20", "Produce", 0, 1, 0.0, 123e6, 123e6, 123e6, 123_456_789),
        ],
        "start string, end string, api string, requests long, responses long, per_s double, p50_us double, "
        "p90_us double, p99_us double, max_us long",
    )
    assertDataFrameEqual(with_short_times(find("latency").run(lines, TENS)), expected)
    overlapping_windows = (
        find("latency").run(lines, Span(10 * SECOND, 2 * SECOND, 0)).where("api = 'Produce' and requests = 1")
    )
    assert overlapping_windows.count() == 5


def test_error_share_is_relative_to_the_responses_of_the_client(spark: SparkSession) -> None:
    two_errors = [ErrorEntry("a", 3, "UNKNOWN_TOPIC_OR_PARTITION"), ErrorEntry("b", 5, "LEADER_NOT_AVAILABLE")]
    lines = table(
        spark,
        response("Metadata", at=1, errors=[*two_errors, two_errors[0]]),
        response("Metadata", at=2, errors=two_errors[:1]),
        response("Metadata", at=3), response("Metadata", at=4, errors=[ErrorEntry("a", 31_000, "UNKNOWN_ERROR_31000")]),
        response("Metadata", at=5, client_id=None), response("Metadata", at=6, not_decoded="no schema"),
        response("Fetch", at=12, client_id="", errors=[ErrorEntry("a", -1, "UNKNOWN_SERVER_ERROR")]),
    )  # fmt: skip
    expected = spark.createDataFrame(
        [
            ("00:00", "00:10", "Metadata", "app", "UNKNOWN_TOPIC_OR_PARTITION", 3, 2, 0.5),
            ("00:00", "00:10", "Metadata", "app", "LEADER_NOT_AVAILABLE", 5, 1, 0.25),
            ("00:00", "00:10", "Metadata", "app", "UNKNOWN_ERROR_31000", 31_000, 1, 0.25),
            ("00:10", "00:20", "Fetch", "10.0.0.9", "UNKNOWN_SERVER_ERROR", -1, 1, 1.0),
        ],
        "start string, end string, api string, client string, error string, code int, responses long, share double",
    )
    assertDataFrameEqual(with_short_times(find("errors").run(lines, TENS)), expected)


def test_many_different_errors_are_counted(spark: SparkSession) -> None:
    lines = [
        response("Fetch", at=number % 7, errors=[ErrorEntry("a", code, "X") for code in range(1, 131)])
        for number in range(20)
    ]
    rows = find("errors").run(table(spark, *lines).repartition(3), TENS).collect()
    assert {(row["code"], row["responses"], row["share"]) for row in rows} == {
        (code, 20, 1.0) for code in range(1, 131)
    }


def test_queries_match_the_jobs_for_captures(captured: DataFrame) -> None:
    """This holds if a single window covers all lines."""
    century = Span(window=100 * 365 * 24 * 3600 * SECOND, step=100 * 365 * 24 * 3600 * SECOND)
    query_rows = {row["api"]: row for row in find("latency").run(captured, century).where("responses > 0").collect()}
    job_rows = {row["api"]: row for row in job("latency").run(captured).where("by = 'api'").collect()}
    assert set(query_rows) == set(job_rows)
    for api, row in job_rows.items():
        assert (query_rows[api]["responses"], query_rows[api]["max_us"]) == (row["responses"], row["max_us"])
        for name in ("p50_us", "p90_us", "p99_us"):
            assert abs(query_rows[api][name] - row[name]) <= row[name] * 0.005 + 0.001, (api, name)
    errors = find("errors").run(captured, century).groupBy("client", "error", "code").sum("responses").collect()
    by_client = job("errors").run(captured).where("by = 'client'").collect()
    assert sorted(map(tuple, errors)) == sorted(
        (row["value"], row["error"], row["code"], row["responses"]) for row in by_client
    )
    assert len(errors) == 3


def test_findings_repeat_only_after_the_horizon(spark: SparkSession, tmp_path: Path) -> None:
    traces = Traces(tmp_path)
    results = QueryResults(spark, tmp_path, "findings", Span(horizon=60 * SECOND))
    first = response(at=1, offset=9, findings=[finding_entry("L001"), finding_entry("S001", severity="error")])
    traces.write(first, request(at=1, findings=[finding_entry("L001")], client_id="other"), at=1)
    traces.write(finding("C016", at=2, direction="response", offset=11), finding("C016", at=2.5), at=2)
    rows = {(row["code"], row["client"], row["connection_id"]): row for row in results.rows()}
    assert set(rows) == {("L001", "app", "n-1-1"), ("S001", "app", "n-1-1"), ("L001", "other", "n-1-1"),
                         ("C016", None, "n-1-1")}  # fmt: skip
    row = rows["S001", "app", "n-1-1"].asDict()
    assert row.pop("file").endswith(".jsonl")
    assert row.pop("at").astimezone().timestamp() % 3600 == 1
    assert row == {
        "severity": "error", "code": "S001", "name": "rule-s001", "client": "app", "broker": "10.0.0.1:9092",
        "message": "S001 is wrong", "connection_id": "n-1-1", "direction": "response", "offset": 9,
    }  # fmt: skip
    traces.write(
        response(at=50, findings=[finding_entry("L001")]), finding("C016", at=51, connection_id="n-1-2"), at=51
    )
    assert [(row["code"], row["connection_id"]) for row in results.rows()[4:]] == [("C016", "n-1-2")]
    for at in (70, 71):  # findings older than the horizon are forgotten at the end of the next batch
        traces.write(request(at=at), at=at)
        results.rows()
    traces.write(response(at=72, findings=[finding_entry("L001")]), at=72)
    assert [row["code"] for row in results.rows()[5:]] == ["L001"]


def test_clients_are_reported_with_software_and_refused_versions(spark: SparkSession, tmp_path: Path) -> None:
    traces = Traces(tmp_path)
    results = QueryResults(spark, tmp_path, "clients", Span())
    java: dict[str, Any] = {"software_name": "apache-kafka-java", "software_version": "3.9.1"}
    traces.write(
        request("ApiVersions", **java), request("ApiVersions", **java, connection_id="n-1-2"),
        request("ApiVersions", software_name="apache-kafka-java", software_version="4.1.0"),
        request("ApiVersions", api_version=0, client_id="old"),
        request("Fetch", api_version=2, client_id="old"), request("Fetch", api_version=2, client_id="old"),
        response("Fetch", api_version=2, client_id="nobody"), request("Fetch", client_id="new"), at=1,
    )  # fmt: skip
    rows = [
        tuple(
            row[name] for name in ("client", "software_name", "software_version", "api", "api_version", "refused_from")
        )
        for row in results.rows()
    ]
    assert sorted(rows, key=str) == [
        ("app", "apache-kafka-java", "3.9.1", None, None, None),
        ("app", "apache-kafka-java", "4.1.0", None, None, None),
        ("old", None, None, "Fetch", 2, "4.0"),
        ("old", None, None, None, None, None),
    ]


def test_every_query_has_a_job_with_the_same_name() -> None:
    assert names() == ["clients", "errors", "findings", "latency"]
    assert all(find(name).help and job(name).help for name in names())
