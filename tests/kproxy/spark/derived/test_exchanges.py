"""Requests are paired with their responses in Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from kproxy.spark.derived.clusters import with_cluster
from kproxy.spark.derived.connection_ids import source
from kproxy.spark.derived.exchanges import exchanges
from kproxy.trace.lines import ErrorEntry, Line, ResponseLine
from tests.kproxy.spark.sample_lines import request, response, table


def exchange_rows(spark: SparkSession, *lines: Line) -> list[Row]:
    """Return the Heartbeat exchanges of the lines, ordered by member."""
    frame = exchanges(with_cluster(table(spark, *lines)), F.col("api") == "Heartbeat")
    return frame.select("member_id", "error", "generation").orderBy("member_id").collect()


def heartbeat_request(member: str, offset: int) -> Line:
    return request("Heartbeat", member_id=member, offset=offset)


def error_response(error: str, **columns: Any) -> ResponseLine:
    errors = [ErrorEntry("error_code", 1, error)]
    return response("Heartbeat", at=0.001, latency_us=1000, errors=errors, **columns)


def test_response_belongs_to_the_request_at_its_offset(spark: SparkSession) -> None:
    rows = exchange_rows(
        spark,
        heartbeat_request("a", 0),
        heartbeat_request("b", 100),
        heartbeat_request("c", 200),
        error_response("ONE", request_offset=100),
        error_response("TWO", request_offset=0),
        error_response("THREE", request_offset=900),
    )
    assert [(row.member_id, row.error) for row in rows] == [("a", "TWO"), ("b", "ONE"), ("c", None)]


def test_older_traces_are_paired_by_correlation_id_and_time(spark: SparkSession) -> None:
    later_request = request("Heartbeat", at=1, member_id="d", offset=300, connection_id="n-1-2")
    rows = exchange_rows(
        spark, heartbeat_request("a", 0), heartbeat_request("b", 100), error_response("ONE"), later_request
    )
    assert [(row.member_id, row.error) for row in rows] == [("a", "ONE"), ("d", None)]


@pytest.mark.parametrize(
    ("connection_id", "expected_run", "expected_node"),
    [
        ("web-1-77-5", "web-1-77", "web-1"),
        ("web-77-5", "web-77", "web"),
        ("web-1-77-20261121T031500123-5", "web-1-77-20261121T031500123", "web-1"),
        ("capture.pcap-5", "capture.pcap", "capture.pcap"),
        ("", "", ""),
    ],
)
def test_source_is_read_from_the_connection_id(
    spark: SparkSession, connection_id: str, expected_run: str, expected_node: str
) -> None:
    rows = spark.createDataFrame([(connection_id,)], "connection_id string")
    [row] = rows.select(source().alias("run"), source(across_runs=True).alias("node")).collect()
    assert (row.run, row.node) == (expected_run, expected_node)
