from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.share_groups import share_groups
from kproxy.trace.lines import ErrorEntry, TopicEntry
from tests.kproxy.spark.reference import client_of, percentile
from tests.kproxy.spark.sample_lines import request, response, table

LOST = ErrorEntry("responses[0].partitions[0].acknowledge_error_code", 121, "INVALID_RECORD_STATE")
SESSION = ErrorEntry("error_code", 122, "SHARE_SESSION_NOT_FOUND")


def test_lost_acquisition_locks_of_members_are_counted(spark: SparkSession) -> None:
    slow_member, fast_member = ({"group_id": "g", "member_id": name, "client_id": name} for name in ("slow", "fast"))
    fetched_topics = [TopicEntry("a", bytes=70, records=3), TopicEntry("b", bytes=7, records=1)]
    lines = table(
        spark,
        response("ShareGroupHeartbeat", at=0, **slow_member),
        request("ShareFetch", at=1, **slow_member),
        response("ShareFetch", at=1, topics=fetched_topics, latency_us=10, **slow_member),
        response("ShareFetch", at=2, latency_us=30, errors=[LOST, LOST], **slow_member),
        request("ShareAcknowledge", at=3, **slow_member),
        response("ShareAcknowledge", at=3, errors=[LOST], **slow_member),
        response("ShareFetch", at=4, topics=fetched_topics[:1], **fast_member),
        response("ShareFetch", at=5, errors=[SESSION], **(fast_member | {"member_id": "other"})),
        response("ShareFetch", at=6, topics=fetched_topics, not_decoded="truncated", **fast_member),
        response("Fetch", at=7, topics=fetched_topics, **fast_member), request("ShareFetch", at=8, client_id="nobody"),
    )  # fmt: skip
    rows = [tuple(row)[:12] for row in share_groups(lines).collect()]
    assert rows == [
        ("g", "slow", 1, 2, 1, 4, 77, 20.0, 1, 2, 0, 1),
        ("g", "fast", 2, 2, 1, 3, 70, 1000.0, 0, 0, 1, 0),
    ]


def test_share_groups_match_plain_python_for_real_clients(real: DataFrame) -> None:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    latencies: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in real.collect():
        if line["kind"] not in ("request", "response") or not (line["api"] or "").startswith("Share"):
            continue
        key: Any = line["group_id"], client_of(line)
        if key[0] is None:
            continue
        counts[key]["acknowledges"] += line["kind"] == "request" and line["api"] == "ShareAcknowledge"
        if line["kind"] == "response" and line["api"] == "ShareFetch" and line["not_decoded"] is None:
            counts[key]["fetches"] += 1
            counts[key]["records"] += sum(entry["records"] or 0 for entry in line["topics"] or ())
            latencies[key].append(line["latency_us"])
    rows = share_groups(real).collect()
    assert {(row["group_id"], row["client"]) for row in rows} == set(counts)
    for row in rows:
        key = row["group_id"], row["client"]
        assert {name: row[name] for name in counts[key]} == counts[key]
        assert row["p50_fetch_us"] == percentile(latencies[key], 0.5)
