from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.retries import retries
from kproxy.trace.lines import ErrorEntry, Line, RepeatEntry, TopicEntry
from tests.kproxy.spark.reference import assert_rows
from tests.kproxy.spark.sample_lines import close, finding_entry, moment, request, response, table

_BATCH = [TopicEntry("orders", None, [0], 900, 3, 1, ["none"], [900])]
_REFUSED = [ErrorEntry("responses[0].partition_responses[0].error_code", 87, "INVALID_RECORD")]


def produce_request(connection: int, at: float, **columns: Any) -> Line:
    return request("Produce", at=at, connection_id=f"n-1-{connection}", size=1000, topics=_BATCH, acks=-1, **columns)


def lost_request(connection: int, at: float, *, by: str | None = "client") -> list[Line]:
    """Return a request without a response, and the end of its connection a second later."""
    return [produce_request(connection, at), close(at=at + 1, connection_id=f"n-1-{connection}", by=by, unanswered=1)]


def refused_response(at: float, **columns: Any) -> Line:
    fields: dict[str, Any] = {"topics": _BATCH, "errors": _REFUSED, "request_size": 1000, "latency_us": 100_000}
    return response("Produce", at=at, **fields | columns)


def rows_of(spark: SparkSession, *lines: Line) -> list[tuple[object, ...]]:
    selected = retries(table(spark, *lines)).select("api", "kind", "why", "retries", "shortest_us", "connection_id")
    return [tuple(row) for row in selected.collect()]


def test_every_kind_of_retry_is_found(spark: SparkSession) -> None:
    lines = table(
        spark,
        *lost_request(1, 0, by="server"), produce_request(2, 1.5),
        response("Produce", at=1.6, connection_id="n-1-2", topics=_BATCH),
        refused_response(10), refused_response(10.3), refused_response(10.5),  # 200, then 100 ms apart
        request("Produce", at=20, connection_id="n-1-3",
                findings=[finding_entry("S034"), finding_entry("S033"), finding_entry("L001")]),
        close(at=30, connection_id="n-1-3",
              repeated=[RepeatEntry("S034", "rule-s034", 4), RepeatEntry("C001", "x", 9)]),
    )  # fmt: skip
    common = {"client": "app", "host": "10.0.0.9", "broker": "10.0.0.1:9092", "api": "Produce"}
    at = {second: datetime.fromisoformat(moment(second)).replace(tzinfo=None) for second in (1.5, 10.2, 10.4, 20, 30)}
    assert_rows(
        retries(lines),
        [
            common | {"kind": "batch", "why": "rule-s034", "retries": 5, "first_at": at[20], "last_at": at[30],
                    "connection_id": "n-1-3"},
            common | {"kind": "refused", "why": "INVALID_RECORD", "retries": 2, "shortest_us": 100_000,
                    "first_at": at[10.2], "last_at": at[10.4], "connection_id": "n-1-1"},
            common | {"kind": "batch", "why": "rule-s033", "retries": 1, "first_at": at[20], "last_at": at[20],
                    "connection_id": "n-1-3"},
            common | {"kind": "lost", "why": "server", "retries": 1, "shortest_us": 500_000, "first_at": at[1.5],
                    "last_at": at[1.5], "connection_id": "n-1-2"},
        ],
    )  # fmt: skip


def test_request_counts_as_retry_of_at_most_one_lost_request(spark: SparkSession) -> None:
    lines = [
        *lost_request(1, 0),
        *lost_request(2, 0.1),
        produce_request(3, 2),
        produce_request(3, 2.1, correlation_id=2),
        produce_request(3, 2.2, correlation_id=3),
    ]
    [row] = rows_of(spark, *lines)
    assert row[:4] == ("Produce", "lost", "client", 1)  # the next request counts as the retry of only one lost request


def test_response_is_matched_by_request_offset(spark: SparkSession) -> None:
    answered, unanswered = produce_request(1, 0), produce_request(1, 0, offset=1000)
    ended = close(at=1, connection_id="n-1-1", by="client", unanswered=1)
    answer_line = response("Produce", at=0.001, connection_id="n-1-1", topics=_BATCH, request_offset=0)
    [row] = rows_of(spark, answered, unanswered, answer_line, ended, produce_request(2, 1.5))
    assert row[:4] == ("Produce", "lost", "client", 1)


def test_requests_that_are_not_retries_are_ignored(spark: SparkSession) -> None:
    assert not rows_of(
        spark,
        *lost_request(1, 0), produce_request(2, 11.1),  # too late
        *lost_request(3, 20, by=None), produce_request(4, 21.1),  # the observation ended, not the connection
        *lost_request(5, 40),
        produce_request(6, 41.1, client_id="other"), produce_request(6, 41.2, client="10.0.0.8:1"),  # other clients
        request("Produce", at=41.3, connection_id="n-1-7", size=1001, topics=_BATCH, acks=-1),  # other requests
        request("Produce", at=41.4, connection_id="n-1-7", size=1000, topics=[TopicEntry("carts")], acks=-1),
        produce_request(5, 40.5, correlation_id=9),
        response("Produce", at=40.6, connection_id="n-1-5", correlation_id=9),
        request("Metadata", at=60, connection_id="n-1-8"),
        close(at=61, connection_id="n-1-8", by="client", unanswered=1),
        request("Metadata", at=61.1, connection_id="n-1-9"),  # every client sends it first
        request("Produce", at=80, connection_id="n-2-1", size=7, acks=0),
        close(at=81, connection_id="n-2-1", by="client"),
        request("Produce", at=81.1, connection_id="n-2-2", size=7, acks=0),
        refused_response(100), refused_response(110.2),  # too late for an automatic retry
        refused_response(150), refused_response(150.05),  # sent before the response arrived
        refused_response(200), refused_response(201, request_size=999),
        *(refused_response(300 + at,
                           errors=[ErrorEntry("responses[0].partition_responses[0].error_code", 6,
                                              "NOT_LEADER_OR_FOLLOWER")]) for at in range(3)),
        *(response("Heartbeat", at=400 + at, errors=[ErrorEntry("error_code", 27, "REBALANCE_IN_PROGRESS")])
          for at in range(3)),
    )  # fmt: skip


def test_repeated_refusals_in_the_captures_are_found(captured: DataFrame) -> None:
    responses = (
        captured.where("kind = 'response' and size(errors) > 0 and request_ts is not null").orderBy("ts").collect()
    )
    repeat_counts: Counter[tuple[str, str]] = Counter()
    for index, second in enumerate(responses):
        for first in reversed(responses[:index]):
            is_same_request = all(
                first[name] == second[name] for name in ("client_id", "api", "request_size", "topics")
            )
            if is_same_request and first["client"].split(":")[0] == second["client"].split(":")[0]:
                pause = (second["request_ts"] - first["ts"]).total_seconds()
                if first["errors"][0]["name"] == second["errors"][0]["name"] and 0 <= pause <= 10:
                    repeat_counts[second["api"], second["errors"][0]["name"]] += 1
                break
    rows = retries(captured).where("kind = 'refused'").collect()
    assert {(row["api"], row["why"]): row["retries"] for row in rows} == {
        key: count for key, count in repeat_counts.items() if key[1] == "UNKNOWN_MEMBER_ID"
    }  # fmt: skip
    assert rows
