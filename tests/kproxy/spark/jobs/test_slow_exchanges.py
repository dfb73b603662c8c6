from __future__ import annotations

from collections import defaultdict

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.slow_exchanges import slow_exchanges
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, topics_of
from tests.kproxy.spark.sample_lines import request, response, table


def test_requests_ahead_of_a_slow_request_are_reported(spark: SparkSession) -> None:
    lines = table(
        spark,
        response("Metadata", at=1.0, offset=0, latency_us=1000),  # answered before the slow request was sent
        response("Produce", at=2.5, offset=100, latency_us=600_000, client_id=None),
        response("Fetch", at=3.0, offset=200, latency_us=2_000_000),
        response("Heartbeat", at=3.2, offset=300, latency_us=1_200_000, topics=[TopicEntry("orders")] * 2),
        response("Fetch", at=3.1, offset=0, latency_us=2_100_000, connection_id="n-1-2"),
        request("Heartbeat", at=9),  # not answered
        response(None, at=9, latency_us=None, request_ts=None),
    )
    rows = slow_exchanges(lines).collect()
    assert [(row["api"], row["latency_us"], row["ahead"], row["ahead_us"], row["ahead_apis"]) for row in rows] == [
        ("Fetch", 2_100_000, 0, None, []),
        ("Fetch", 2_000_000, 1, 1_500_000, ["Produce"]),
        ("Heartbeat", 1_200_000, 2, 1_000_000, ["Produce", "Fetch"]),
        ("Produce", 600_000, 0, None, []),
        ("Metadata", 1000, 0, None, []),
    ]
    assert [row["client"] for row in rows] == ["app", "app", "app", "10.0.0.9", "app"]
    assert rows[2]["topics"] == ["orders"]


def test_ten_exchanges_per_api_are_kept_and_the_earliest_of_ties(spark: SparkSession) -> None:
    tied_responses = [response(at=at, offset=at, connection_id=f"n-1-{at % 3}") for at in range(12)]
    rows = slow_exchanges(table(spark, *reversed(tied_responses), response("Metadata", at=1))).collect()
    assert [row["offset"] for row in rows if row["api"] == "Fetch"] == list(range(10))
    assert sum(row["api"] == "Metadata" for row in rows) == 1


def test_slow_exchanges_match_plain_python_for_real_clients(real: DataFrame) -> None:
    by_api, by_connection = defaultdict(list), defaultdict(list)
    for line in real.collect():
        if line["latency_us"] is not None and line["api"]:
            by_api[line["api"]].append(line)
            by_connection[line["connection_id"]].append(line)
    expected = []
    for responses in by_api.values():
        responses.sort(key=lambda line: (-line["latency_us"], line["ts"], line["connection_id"], line["offset"]))
        for line in responses[:10]:
            requests_ahead = [other for other in by_connection[line["connection_id"]]
                     if other["offset"] < line["offset"] and other["ts"] > line["request_ts"]]  # fmt: skip
            longest_wait = max((other["ts"] - line["request_ts"] for other in requests_ahead), default=None)
            expected.append((
                line["api"], line["api_version"], line["latency_us"], client_of(line), line["server"],
                list(dict.fromkeys(name for name, _ in topics_of(line))), line["request_ts"], line["ts"],
                line["connection_id"], line["correlation_id"], line["offset"], len(requests_ahead),
                longest_wait and round(longest_wait.total_seconds() * 1e6),
                [other["api"] for other in sorted(requests_ahead, key=lambda other: other["offset"])[:10]],
            ))  # fmt: skip
    expected.sort(key=lambda row: (-row[2], row[7], row[8], row[10]))
    assert any(row[11] for row in expected)
    assert_rows(slow_exchanges(real), expected)
