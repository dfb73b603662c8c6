from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.metadata_storms import metadata_storms
from kproxy.trace.lines import ErrorEntry, Line, TopicEntry
from tests.kproxy.spark.reference import assert_rows
from tests.kproxy.spark.sample_lines import response, table

_MISSING = [ErrorEntry("topics[1].error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")]
_TOPICS = [TopicEntry("orders"), TopicEntry("reports")]


def metadata_responses(count: int, interval_s: float, *, begin: float = 0, **columns: Any) -> list[Line]:
    return [
        response("Metadata", at=begin + number * interval_s + 0.001, offset=number, **columns)
        for number in range(count)
    ]


def test_loop_is_reported_with_its_error_and_topic(spark: SparkSession) -> None:
    lines = table(
        spark,
        *metadata_responses(9, 0.1, topics=_TOPICS, errors=_MISSING, size=40),
        # Just under 2 s later, with another error, on another connection to another broker.
        *metadata_responses(1, 1, begin=2.7, connection_id="n-1-2", server="10.0.0.0:9092",
                            errors=[ErrorEntry("topics[0].error_code", 5, "LEADER_NOT_AVAILABLE")]),
        *metadata_responses(1, 1, begin=4.7),  # 2 s later: not part of the loop
        *metadata_responses(12, 0.5, begin=100, client_id="quiet", client="10.0.0.8:1", connection_id="n-1-3"),
    )  # fmt: skip
    assert_rows(
        metadata_storms(lines).drop("first_at", "last_at"),
        [
            {
                "client": "quiet", "host": "10.0.0.8", "broker": "10.0.0.1:9092", "lasted_us": 5_500_000,
                "requests": 12, "per_second": 2.0, "refused": 0, "connections": 1, "topics": 0, "bytes": 1200,
                "connection_id": "n-1-3",
            },
            {
                "client": "app", "host": "10.0.0.9", "broker": "10.0.0.0:9092", "lasted_us": 2_700_000,
                "requests": 10, "per_second": 9 / 2.7, "refused": 10, "error": "UNKNOWN_TOPIC_OR_PARTITION",
                "topic": "reports", "connections": 2, "topics": 2, "bytes": 460, "connection_id": "n-1-2",
            },
        ],
    )  # fmt: skip


def test_startup_and_periodic_requests_are_not_a_loop(spark: SparkSession) -> None:
    lines = table(
        spark,
        *metadata_responses(9, 0.1, errors=_MISSING, topics=_TOPICS),  # one request too few
        *metadata_responses(20, 2, begin=50, errors=_MISSING, topics=_TOPICS),  # too far apart
        # Twenty processes that start with the same client id, each of which sends two requests.
        *(
            line
            for number in range(20)
            for line in metadata_responses(2, 0.01, begin=200 + number / 10, connection_id=f"n-2-{number}")
        ),
        # Ten clients on ten hosts.
        *(
            line
            for number in range(10)
            for line in metadata_responses(1, 1, begin=300, client=f"10.0.1.{number}:1", errors=_MISSING)
        ),
        *(response(at=400 + number / 10, offset=number) for number in range(20)),  # Fetch
    )
    assert metadata_storms(lines).isEmpty()


def test_loop_in_the_captures_is_found(captured: DataFrame) -> None:
    runs: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    responses = captured.where("api = 'Metadata' and kind = 'response' and request_ts is not null")
    rows = sorted(responses.collect(), key=lambda row: row["request_ts"])
    for row in rows:
        at, client_runs = row["request_ts"].timestamp(), runs[row["client_id"], row["client"].split(":")[0]]
        if client_runs and at - client_runs[-1][-1] < 2:
            client_runs[-1].append(at)
        else:
            client_runs.append([at])
    [row] = metadata_storms(captured).collect()
    assert row["connection_id"] == "metadata-retry-loop-0"
    [run] = runs[row["client"], row["host"]]
    assert (row["requests"], row["connections"], row["refused"], row["error"]) == (len(run), 1, 0, None)
    assert row["lasted_us"] == round((run[-1] - run[0]) * 1e6)
    assert max(later - earlier for earlier, later in pairwise(run)) < 2
