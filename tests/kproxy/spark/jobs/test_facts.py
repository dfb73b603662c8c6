from __future__ import annotations

from collections import Counter, defaultdict
from math import ceil
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.spark.derived.latency_sketch import bucket, percentiles
from kproxy.spark.jobs.facts import facts
from kproxy.trace.lines import ErrorEntry, TopicEntry
from tests.kproxy.spark.reference import client_of, topics_of
from tests.kproxy.spark.sample_lines import request, response, table


def lower_bound(latency_us: int) -> int:
    """Return the value with all but its highest six bits cleared."""
    dropped_bits = max(latency_us.bit_length() - 6, 0)
    return latency_us >> dropped_bits << dropped_bits


def test_bucket_keeps_the_highest_six_bits(spark: SparkSession) -> None:
    values = [-5, 0, 1, 63, 64, 65, 66, 127, 128, 1000, 1023, 1024, (1 << 31) - 1, 1 << 31, (1 << 40) + 12345, None]
    rows = spark.createDataFrame([(value,) for value in values], "us bigint").select(bucket(F.col("us"))).collect()
    assert [row[0] for row in rows] == [None if value is None else lower_bound(max(value, 0)) for value in values]
    assert all(value - lower_bound(value) <= value * 0.032 for value in values if value and value > 0)


def test_facts_are_summed_per_minute(spark: SparkSession) -> None:
    orders = TopicEntry("orders", partitions=[0], bytes=70, records=3)
    more_orders = TopicEntry("orders", partitions=[1], bytes=7, records=1)
    carts = TopicEntry("carts", partitions=[0], bytes=20, records=2)
    topics = [orders, carts, more_orders]
    lines = table(
        spark,
        request("Produce", at=59, topics=topics, size=200),
        response("Produce", at=60, topics=topics, size=40, latency_us=1000, throttle_time_ms=2),
        response("Produce", at=61, topics=[carts], size=40, latency_us=1001, errors=[ErrorEntry("e", 6, "X")]),
        response("Produce", at=62, size=40, latency_us=5000, not_decoded="truncated", principal="User:a"),
    )
    rows = [row.asDict(recursive=True) for row in facts(lines).collect()]
    actual = [
        (row["minute"].minute, row["principal"], row["topic"], row["requests"], row["responses"],
         row["decoded"], row["failed"], row["request_bytes"], row["response_bytes"], row["records"],
         row["throttle_us"], row["latency_us"], row["max_latency_us"],
         [tuple(entry.values()) for entry in row["latencies"]])
        for row in rows
    ]  # fmt: skip
    assert actual == [
        (0, None, None, 1, 0, 0, 0, 200, 0, 6, 0, 0, None, []),
        (0, None, "carts", 1, 0, 0, 0, 20, 0, 2, 0, 0, None, []),
        (0, None, "orders", 1, 0, 0, 0, 77, 0, 4, 0, 0, None, []),
        (1, None, None, 0, 2, 2, 1, 0, 80, 0, 2000, 2001, 1001, [(992, 2)]),
        (1, None, "carts", 0, 2, 2, 1, 0, 0, 0, 2000, 2001, 1001, [(992, 2)]),
        (1, None, "orders", 0, 1, 1, 0, 0, 0, 0, 2000, 1000, 1000, [(992, 1)]),
        (1, "User:a", None, 0, 1, 0, 0, 0, 40, 0, 0, 5000, 5000, [(4992, 1)]),
    ]


@pytest.mark.parametrize("by", [(), ("api",)])
def test_percentiles_of_stored_minutes_match_the_lines(spark: SparkSession, by: tuple[str, ...]) -> None:
    """The results are nearest ranks with an error of at most 1.6 %."""
    latencies_by_key: dict[tuple[str, ...], list[int]] = defaultdict(list)
    lines = []
    for number in range(900):
        api, latency = ("Fetch", "Produce")[number % 3 == 0], number * number * 7 % 3_000_017 + number
        latencies_by_key[(api,) if by else ()].append(latency)
        lines.append(response(api, at=number * 7, latency_us=latency))
    stored_facts = facts(table(spark, *lines))
    assert stored_facts.count() > 100
    rows = percentiles(stored_facts.where("topic is null"), *by, shares=(0.5, 0.99, 0.999)).collect()
    assert len(rows) == len(latencies_by_key)
    for row in rows:
        latencies = sorted(latencies_by_key[tuple(row[name] for name in by)])
        assert row["responses"] == len(latencies)
        for name, quantile in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)):
            exact = latencies[ceil(len(latencies) * quantile) - 1]
            assert abs(row[name] - exact) <= exact * 0.016, name


def test_facts_match_plain_python_for_real_clients(real: DataFrame) -> None:
    counts: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    sketches: dict[tuple[Any, ...], Counter[int]] = defaultdict(Counter)
    for line in real.collect():
        if line["kind"] not in ("request", "response") or line["api"] is None:
            continue
        is_request = line["kind"] == "request"
        carries_records = is_request == (line["api"] == "Produce")
        minute = line["ts"].replace(second=0, microsecond=0)
        sizes: dict[str | None, list[int]] = {None: [line["size"], 0]}
        for name, entry in topics_of(line):
            sums = sizes.setdefault(name, [0, 0])
            sums[0] += (entry["bytes"] or 0) if carries_records else 0
            sums[1] += (entry["records"] or 0) if carries_records else 0
            sizes[None][1] += (entry["records"] or 0) if carries_records else 0
        for topic, (size, records) in sizes.items():
            key = minute, line["api"], client_of(line), line["principal"], line["server"], topic
            counts[key].update({
                "requests": is_request, "responses": not is_request, "records": records,
                "request_bytes": size * is_request, "response_bytes": size * (not is_request),
                "failed": not is_request and line["not_decoded"] is None and bool(line["errors"]),
                "latency_us": 0 if is_request else line["latency_us"] or 0,
            })  # fmt: skip
            if not is_request and line["latency_us"] is not None:
                sketches[key][lower_bound(line["latency_us"])] += 1
    rows = facts(real).collect()
    assert len(rows) == len(counts) > 50
    for row in rows:
        key = tuple(row[name] for name in ("minute", "api", "client", "principal", "broker", "topic"))
        assert {name: row[name] for name in counts[key]} == counts[key]
        assert {entry["us"]: entry["responses"] for entry in row["latencies"]} == sketches[key]
