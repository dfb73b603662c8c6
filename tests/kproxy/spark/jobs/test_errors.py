from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import timedelta

from pyspark.sql import DataFrame, Row, SparkSession

from kproxy.spark.jobs.errors import errors
from kproxy.trace.lines import ErrorEntry, TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, topics_of
from tests.kproxy.spark.sample_lines import response, table

ORDER = ["api", "client", "broker", "topic"]
ORDERS, CARTS = TopicEntry("orders"), TopicEntry("carts")


def error_entry(path: str, code: int = 6, name: str = "NOT_LEADER_OR_FOLLOWER") -> ErrorEntry:
    return ErrorEntry(path, code, name)


def test_error_is_counted_once_per_response_and_for_its_topic(spark: SparkSession) -> None:
    two_errors = [
        error_entry("responses[1].partitions[0].error_code"),
        error_entry("responses[1].partitions[1].error_code"),
    ]
    lines = table(
        spark,
        response(at=1, topics=[ORDERS, CARTS], errors=two_errors),
        response(at=2, topics=[ORDERS, CARTS]),
        response(at=3, topics=[CARTS], errors=[error_entry("error_code", 70, "FETCH_SESSION_ID_NOT_FOUND")]),
        response(at=4, not_decoded="truncated", topics=[ORDERS]),
        response("Heartbeat", at=5, client_id=None, errors=[error_entry("error_code", 27, "REBALANCE_IN_PROGRESS")]),
        response("Heartbeat", at=6, client_id=None),
    )
    rows = [(*row[:6], row["first_at"] == row["last_at"]) for row in errors(lines).collect()]
    leader, session = ("NOT_LEADER_OR_FOLLOWER", 6), ("FETCH_SESSION_ID_NOT_FOUND", 70)
    rebalance, third = ("REBALANCE_IN_PROGRESS", 27), 1 / 3
    assert rows == [
        ("api", "Fetch", *session, 1, third, True),
        ("api", "Fetch", *leader, 1, third, True),
        ("api", "Heartbeat", *rebalance, 1, 0.5, True),
        ("client", "10.0.0.9", *rebalance, 1, 0.5, True),
        ("client", "app", *session, 1, third, True),
        ("client", "app", *leader, 1, third, True),
        ("broker", "10.0.0.1:9092", *session, 1, 0.2, True),
        ("broker", "10.0.0.1:9092", *leader, 1, 0.2, True),
        ("broker", "10.0.0.1:9092", *rebalance, 1, 0.2, True),
        ("topic", "carts", *leader, 1, third, True),
    ]


def test_produce_errors_are_attributed_to_topics_only_if_all_failed(spark: SparkSession) -> None:
    first, second = (error_entry(f"responses[{index}].partition_responses[0].error_code") for index in (0, 1))
    lines = table(
        spark,
        response("Produce", at=1, topics=[ORDERS, CARTS], errors=[first]),
        response("Produce", at=2, topics=[ORDERS, CARTS], errors=[first, second]),
        response("Produce", at=3, topics=[ORDERS], errors=[first]),
    )
    topic_errors = {
        row["value"]: (row["responses"], row["share"]) for row in errors(lines).where("by = 'topic'").collect()
    }
    assert topic_errors == {"orders": (2, 2 / 3), "carts": (1, 0.5)}


def test_errors_are_attributed_to_topics_with_unusual_names(spark: SparkSession) -> None:
    names = ["a,b", None, "", 'c"\\', "a,b", "\N{SNOWMAN}"]
    paths = [f"responses[{index}].partitions[0].error_code" for index in range(len(names))]
    lines = table(
        spark,
        response(at=1, topics=[TopicEntry(name) for name in names], errors=[error_entry(path) for path in paths[1:]]),
        response(at=2, topics=[TopicEntry(None)], errors=[error_entry(paths[0])]),
        response(at=3, topics=[TopicEntry(None, topic_id="x" * 22)], errors=[error_entry(paths[0])]),
    )
    rows = errors(lines).where("by = 'topic'").collect()
    assert {row["value"]: (row["responses"], row["share"]) for row in rows} == {
        "a,b": (1, 0.5), 'c"\\': (1, 1), "\N{SNOWMAN}": (1, 1), "x" * 22: (1, 1)
    }  # fmt: skip


def test_first_and_last_time_of_an_error_are_reported(spark: SparkSession) -> None:
    failed_errors = [error_entry("error_code", 15, "COORDINATOR_NOT_AVAILABLE")]
    lines = table(
        spark, *(response("FindCoordinator", at=at, errors=failed_errors if at != 9 else []) for at in (3, 1, 2, 9))
    )
    [row, *_] = errors(lines).collect()
    assert (row["responses"], row["share"], row["last_at"] - row["first_at"]) == (3, 0.75, timedelta(seconds=2))


def test_errors_match_plain_python_for_real_clients(real: DataFrame) -> None:
    total: Counter[tuple[str, str]] = Counter()
    times_by_key = defaultdict(list)
    for line in real.collect():
        if line["kind"] != "response" or line["not_decoded"]:
            continue
        for by, value, view_errors in _errors_by_view(line):
            total[by, value] += 1
            for code, name in view_errors:
                times_by_key[by, value, name, code].append(line["ts"])
    expected = [
        (*key, len(times), len(times) / total[key[:2]], min(times), max(times))
        for key, times in times_by_key.items()
        if key[1] is not None
    ]
    expected.sort(key=lambda row: (ORDER.index(row[0]), -row[4], row[1], row[2]))
    assert {row[0] for row in expected} == set(ORDER)
    assert_rows(errors(real), expected)


def _errors_by_view(line: Row) -> list[tuple[str, str, set[tuple[int, str]]]]:
    entries = line["errors"] or []
    all_errors = {(error["code"], error["name"]) for error in entries}
    views = [(by, value, all_errors) for by, value in
             (("api", line["api"]), ("client", client_of(line)), ("broker", line["server"]))]  # fmt: skip
    topics = topics_of(line)
    errors_by_topic = defaultdict(set)
    for error in entries:
        match = re.search(r"(?:topics|responses|topic_responses)\[(\d+)\]", error["path"])
        if match and int(match[1]) < len(topics) and not re.match(r"groups\[[1-9]", error["path"]):
            errors_by_topic[int(match[1])].add((error["code"], error["name"]))
    if line["api"] == "Produce" and len(errors_by_topic) < len(topics):
        errors_by_topic.clear()
    return views + [("topic", name, errors_by_topic[index]) for index, (name, _) in enumerate(topics)]
