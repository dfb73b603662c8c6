from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.spark.jobs.throttling import throttling
from tests.kproxy.spark.reference import assert_rows, client_of
from tests.kproxy.spark.sample_lines import request, response, table

FIVE_OCLOCK = datetime(2026, 11, 21, 5, tzinfo=UTC)
BROKER = "10.0.0.1:9092"


def test_throttling_is_reported_in_total_and_per_hour(spark: SparkSession) -> None:
    lines = table(
        spark,
        request("Produce", at=0),
        response("Produce", at=1, throttle_time_ms=30),
        response("Produce", at=3599, throttle_time_ms=10),
        response("Produce", at=3600, throttle_time_ms=50),
        response("Produce", at=3601, throttle_time_ms=0),
        response("Produce", at=3602),
        response("Produce", at=8000, throttle_time_ms=0),
        response("Produce", at=8001, throttle_time_ms=99_000, not_decoded="truncated"),
        response("Fetch", at=1, client_id=None, throttle_time_ms=100),
        response("Fetch", at=1, client_id="quick", throttle_time_ms=0),
    )
    expected = [
        ("10.0.0.9", BROKER, None, 1, 1, 1.0, 100_000, 100_000),
        ("10.0.0.9", BROKER, FIVE_OCLOCK, 1, 1, 1.0, 100_000, 100_000),
        ("app", BROKER, None, 6, 3, 0.5, 90_000, 50_000),
        ("app", BROKER, FIVE_OCLOCK, 2, 2, 1.0, 40_000, 30_000),
        ("app", BROKER, FIVE_OCLOCK + timedelta(hours=1), 3, 1, 1 / 3, 50_000, 50_000),
    ]
    assert_rows(throttling(lines), expected)


def test_throttling_matches_plain_python_for_real_clients(real: DataFrame) -> None:
    """No client is throttled in the captures, so this test marks some Fetch responses as throttled."""
    throttled = F.when(F.col("api") == "Fetch", F.col("correlation_id") % 3).otherwise(F.col("throttle_time_ms"))
    lines = real.withColumn("throttle_time_ms", throttled)
    throttle_times = defaultdict(list)
    for line in lines.collect():
        if line["kind"] == "response" and not line["not_decoded"]:
            hour = line["ts"].replace(minute=0, second=0, microsecond=0)
            for since in (None, hour):
                throttle_times[client_of(line), line["server"], since].append((line["throttle_time_ms"] or 0) * 1000)
    expected = [
        (
            *key,
            len(times_us),
            sum(time_us > 0 for time_us in times_us),
            sum(time_us > 0 for time_us in times_us) / len(times_us),
            sum(times_us),
            max(times_us),
        )
        for key, times_us in throttle_times.items()
        if any(times_us)
    ]
    expected.sort(
        key=lambda row: (-sum(throttle_times[row[0], row[1], None]), row[0], row[1], row[2] is not None, row[2])
    )
    assert len(expected) > 4
    assert_rows(throttling(lines), expected)
