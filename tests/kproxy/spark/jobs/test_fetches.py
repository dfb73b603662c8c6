from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.fetches import fetches
from kproxy.trace.lines import ErrorEntry, TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, mean, topics_of
from tests.kproxy.spark.sample_lines import request, response, table

MEMBERSHIP = {"JoinGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"}


def topic_entry(topic: str | None, size: int, records: int | None = None, lag: int | None = None) -> TopicEntry:
    return TopicEntry(topic, bytes=size, records=records, lag=lag)


def test_fetched_bytes_and_empty_fetches_are_counted(spark: SparkSession) -> None:
    lines = table(
        spark,
        request("Heartbeat", group_id="billing"),
        response(at=1, topics=[topic_entry("orders", 300, 3, lag=7), topic_entry("carts", 100, 1, lag=0)]),
        response(at=2, topics=[topic_entry("orders", 100, 1, lag=2)]),
        response(at=3, latency_us=500_000),  # a fetch session without new records
        response(at=4, topics=[topic_entry("orders", 0)]),
        response(at=5, topics=[topic_entry("orders", 0)], errors=[ErrorEntry("responses[0].error_code", 3, "UNKNOWN")]),
        response(at=6, not_decoded="truncated"),
        response("Metadata", at=7, topics=[TopicEntry("orders")]),
    )
    client_row = {
        "client": "app", "group_id": "billing", "fetches": 5, "empty": 2, "waited": 1, "empty_share": 0.4,
        "waited_share": 0.2, "brought_bytes": 500, "records": 5, "per_fetch_bytes": 250.0, "records_per_fetch": 2.5,
        "last_lag": 2, "max_lag": 7,
    }  # fmt: skip
    orders = client_row | {
        "topic": "orders", "fetches": 4, "empty": 1, "waited": 0, "empty_share": 0.25, "waited_share": 0.0,
        "brought_bytes": 400, "records": 4, "per_fetch_bytes": 200.0, "records_per_fetch": 2.0,
    }  # fmt: skip
    carts = orders | {
        "topic": "carts", "fetches": 1, "empty": 0, "empty_share": 0.0, "brought_bytes": 100, "records": 1,
        "per_fetch_bytes": 100.0, "records_per_fetch": 1.0, "last_lag": 0, "max_lag": 0,
    }  # fmt: skip
    assert_rows(fetches(lines), [client_row, orders, carts])


def test_client_without_records_has_no_mean_size(spark: SparkSession) -> None:
    [row] = fetches(table(spark, response(client_id=None))).collect()
    assert (row["client"], row["empty_share"], row["brought_bytes"], row["per_fetch_bytes"]) == ("10.0.0.9", 1, 0, None)
    assert (row["group_id"], row["records"], row["last_lag"]) == (None, 0, None)


def test_group_is_known_only_if_client_and_host_are_in_one_group(spark: SparkSession) -> None:
    lines = table(
        spark,
        *(request("Heartbeat", client_id=name, group_id=group) for name, group in
          (("one", "a"), ("one", "a"), ("two", "a"), ("two", "b"))),
        *(response(client_id=name) for name in ("one", "two")),
        response(client_id="one", client="10.0.0.10:5"),
        response("ShareFetch", client_id="two", group_id="own"),
    )  # fmt: skip
    fetch_counts = {(row["client"], row["group_id"]): row["fetches"] for row in fetches(lines).collect()}
    assert fetch_counts == {("one", "a"): 1, ("two", None): 1, ("one", None): 1, ("two", "own"): 1}


def test_fetches_match_plain_python_for_real_clients(real: DataFrame) -> None:
    lines = real.collect()
    groups, responses = defaultdict(set), defaultdict(list)
    for line in lines:
        if line["kind"] == "request" and line["api"] in MEMBERSHIP and line["group_id"]:
            groups[client_of(line), line["client"].rpartition(":")[0]].add(line["group_id"])
    for line in lines:
        if line["kind"] == "response" and line["api"] in ("Fetch", "ShareFetch") and not line["not_decoded"]:
            known_groups = groups[client_of(line), line["client"].rpartition(":")[0]]
            group = line["group_id"] or (min(known_groups) if len(known_groups) == 1 else None)
            views = [(None, *(_sum(line, name) for name in ("bytes", "records", "lag")))]
            views += [(name, entry["bytes"], entry["records"], entry["lag"]) for name, entry in topics_of(line)]
            for topic, size, records, lag in views:
                empty = not size and not line["errors"]
                waited = empty and (line["latency_us"] or 0) >= 100_000
                order = line["ts"], line["offset"]
                responses[client_of(line), group, topic].append((size, records, lag, empty, waited, order))
    expected: list[dict[str, Any]] = []
    for (client, group, topic), group_fetches in responses.items():
        lags = [(order, lag) for _, _, lag, _, _, order in group_fetches if lag is not None]
        empty, waited = (sum(response[index] for response in group_fetches) for index in (3, 4))
        expected.append({
            "client": client, "group_id": group, "topic": topic, "fetches": len(group_fetches),
            "empty": empty, "waited": waited,
            "empty_share": empty / len(group_fetches), "waited_share": waited / len(group_fetches),
            "brought_bytes": sum(response[0] or 0 for response in group_fetches),
            "records": sum(response[1] or 0 for response in group_fetches),
            "per_fetch_bytes": mean(response[0] for response in group_fetches if response[0]),
            "records_per_fetch": mean(
                response[1] for response in group_fetches if response[0] and response[1] is not None
            ),
            "last_lag": max(lags)[1] if lags else None, "max_lag": max((lag for _, lag in lags), default=None),
        })  # fmt: skip
    total_fetches = {(row["client"], row["group_id"]): row["fetches"] for row in expected if row["topic"] is None}
    expected.sort(key=lambda row: (
        -total_fetches[row["client"], row["group_id"]], row["client"], row["group_id"] or "", row["topic"] is not None,
        -row["fetches"], row["topic"] or "",
    ))  # fmt: skip
    assert any(row["per_fetch_bytes"] for row in expected)
    assert_rows(fetches(real), expected)


def _sum(line: Any, name: str) -> int | None:
    known_values = [entry[name] for entry in line["topics"] or () if entry[name] is not None]
    return sum(known_values) if known_values else None
