from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.delays import delays
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark.reference import client_of
from tests.kproxy.spark.sample_lines import request, response, table

NO_DELIVERY = {"deliveries": 0, "p50_delivery_us": None, "p99_delivery_us": None, "max_delivery_us": None}


def assert_rows(table: DataFrame, expected: list[dict[str, Any]]) -> None:
    """Assert that the table has the expected rows; only the expected columns are compared."""
    rows = [row.asDict() for row in table.collect()]
    assert [
        {name: row[name] for name in expected_row} for row, expected_row in zip(rows, expected, strict=True)
    ] == expected


def batches(*offsets: int | None, **fields: Any) -> list[TopicEntry]:
    return [TopicEntry("orders", partitions=list(range(len(offsets))), offsets=list(offsets), **fields)]


def test_ages_and_delivery_times_of_batches_are_measured(spark: SparkSession) -> None:
    lines = table(
        spark,
        request("Heartbeat", group_id="billing"),
        response("Produce", at=1, latency_us=500_000, client_id="shop", topics=batches(70, 3)),
        response(at=2, topics=batches(70, None, ages_ms=[1400, None])),
        response(at=3, topics=batches(71, 3, ages_ms=[100, -5], append_time=True)),
        response(at=4, topics=[TopicEntry("orders", partitions=[0, 1], bytes=0, lag=0)]),
        response("ShareFetch", at=9, client_id="other", topics=batches(70)),
    )
    assert_rows(delays(lines), [
        {"topic": "orders", "partition": 0, "client": "app", "group_id": "billing", "responses": 2,
         "p50_age_ms": 750.0, "max_age_ms": 1400, "append_time_share": 0.5, "deliveries": 1,
         "p50_delivery_us": 1_500_000.0, "max_delivery_us": 1_500_000},
        {"partition": 1, "responses": 1, "p50_age_ms": -5.0, "p99_age_ms": -5.0, "append_time_share": 1.0,
         "client": "app", "group_id": "billing", "deliveries": 1, "p50_delivery_us": 2_500_000.0},
        {"partition": 0, "client": "other", "group_id": None, "responses": 1, "p50_age_ms": None, "max_age_ms": None,
         "append_time_share": None, "deliveries": 1, "p99_delivery_us": 8_500_000.0},
    ])  # fmt: skip


def test_consumer_may_receive_a_batch_before_the_produce_response(spark: SparkSession) -> None:
    lines = table(
        spark,
        response(at=1.5, topics=batches(70)),
        response("Produce", at=2, latency_us=1_000_000, client_id="shop", topics=batches(70)),
    )
    assert_rows(delays(lines), [{"deliveries": 1, "max_delivery_us": 500_000}])


def test_batches_from_another_broker_or_time_are_not_matched(spark: SparkSession) -> None:
    produce_columns: dict[str, Any] = {"latency_us": 1000, "client_id": "shop", "topics": batches(70)}
    lines = table(
        spark,
        response("Produce", at=1, server="10.0.0.7:9092", **produce_columns),
        response(at=2, topics=batches(70)),
        response("Produce", at=3, **produce_columns),  # the offset is used again
        response("Produce", at=200, **(produce_columns | {"latency_us": 199_000_000})),  # too late to be the same
        response("Produce", at=3.5, **(produce_columns | {"topics": batches(71)})),
    )
    assert_rows(delays(lines), [{"responses": 1, **NO_DELIVERY}])


def test_latest_produce_counts_if_an_offset_is_reused(spark: SparkSession) -> None:
    lines = table(
        spark,
        *(response("Produce", at=at, latency_us=1000, client_id="shop", topics=batches(70)) for at in (1, 5)),
        response(at=5.5, topics=batches(70)),
    )
    assert_rows(delays(lines), [{"deliveries": 1, "max_delivery_us": 501_000}])


def test_delays_match_plain_python_for_real_clients(real: DataFrame) -> None:
    lines = sorted((line for line in real.collect() if line["kind"] == "response"), key=lambda line: line["ts"])
    written: dict[Any, list[Any]] = defaultdict(list)
    ages, delivery_seconds = defaultdict(list), defaultdict(list)
    for line in lines:
        for entry in line["topics"] or ():
            for number, offset in zip(entry["partitions"] or (), entry["offsets"] or (), strict=False):
                if offset is not None and line["api"] == "Produce":
                    written[line["server"], entry["topic"], number, offset].append(line["request_ts"])
    for line in lines:
        if line["api"] not in ("Fetch", "ShareFetch") or line["not_decoded"]:
            continue
        for entry in line["topics"] or ():
            for index, (number, offset) in enumerate(
                zip(entry["partitions"] or (), entry["offsets"] or (), strict=False)
            ):
                if offset is None:
                    continue
                name = entry["topic"] or entry["topic_id"]
                reader = name, number, client_of(line)
                ages[reader].append(entry["ages_ms"][index] if entry["ages_ms"] else None)
                earlier_writes = [
                    at for at in written[line["server"], entry["topic"], number, offset] if at <= line["ts"]
                ]
                if earlier_writes:
                    delivery_seconds[reader].append((line["ts"] - max(earlier_writes)).total_seconds())
    rows_by_reader: dict[Any, list[Any]] = defaultdict(list)
    for row in delays(real).collect():
        rows_by_reader[row["topic"], row["partition"], row["client"]].append(row)
    assert rows_by_reader.keys() == ages.keys()
    assert len(delivery_seconds) > 3
    for reader, rows in rows_by_reader.items():
        known_ages = [age for age in ages[reader] if age is not None]
        assert sum(row["responses"] for row in rows) == len(ages[reader])
        assert sum(row["deliveries"] for row in rows) == len(delivery_seconds[reader])
        assert max((row["max_age_ms"] for row in rows if row["max_age_ms"] is not None), default=None) == max(
            known_ages, default=None
        )
        if len(rows) == 1 and delivery_seconds[reader]:
            assert abs(rows[0]["p50_delivery_us"] - median(delivery_seconds[reader]) * 1e6) < 1
