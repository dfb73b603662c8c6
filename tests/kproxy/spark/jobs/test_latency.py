from __future__ import annotations

from collections import defaultdict

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.latency import latency
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, percentile, topics_of
from tests.kproxy.spark.sample_lines import request, response, table


def test_percentiles_are_interpolated_and_responses_count_for_each_topic(spark: SparkSession) -> None:
    orders, carts = TopicEntry("orders"), TopicEntry(topic_id="Y2FydHM")
    lines = table(
        spark,
        request(api_version=12),
        response(latency_us=10, api_version=12, topics=[orders, TopicEntry()]),
        response(latency_us=30, api_version=13, client_id=None, topics=[orders, carts, orders]),
        response(latency_us=None, request_ts=None),  # without a request there is no latency
        response(None, latency_us=5),  # a SASL token
    )
    both_responses, fast_response, slow_response = (
        (2, 20.0, 28.0, 29.8, 29.98, 30),
        (1, *[10.0] * 4, 10),
        (1, *[30.0] * 4, 30),
    )
    expected = [
        ("api", "Fetch", None, *both_responses),
        ("version", "Fetch", "13", *slow_response),
        ("version", "Fetch", "12", *fast_response),
        ("client", "Fetch", "10.0.0.9", *slow_response),
        ("client", "Fetch", "app", *fast_response),
        ("broker", "Fetch", "10.0.0.1:9092", *both_responses),
        ("topic", "Fetch", "Y2FydHM", *slow_response),
        ("topic", "Fetch", "orders", *both_responses),
    ]
    assert_rows(latency(lines), expected)


def test_latency_matches_plain_python_for_captures(captured: DataFrame) -> None:
    latencies_by_view = defaultdict(list)
    for line in captured.collect():
        if line["latency_us"] is not None and line["api"]:
            views = [("api", None), ("version", str(line["api_version"])), ("client", client_of(line))]
            views += [("broker", line["server"]), *{("topic", name) for name, _ in topics_of(line)}]
            for by, value in views:
                latencies_by_view[by, line["api"], value].append(line["latency_us"])
    order = ["api", "version", "client", "broker", "topic"]
    expected = [
        (
            *key,
            len(latencies),
            *(percentile(latencies, quantile) for quantile in (0.5, 0.9, 0.99, 0.999)),
            max(latencies),
        )
        for key, latencies in latencies_by_view.items()
    ]
    expected.sort(key=lambda row: (order.index(row[0]), -row[6], row[1], row[2] or ""))
    assert len(expected) > 80
    assert_rows(latency(captured), expected)
