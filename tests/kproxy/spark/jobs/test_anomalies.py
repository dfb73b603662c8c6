from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from math import sqrt
from statistics import median
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.spark.jobs.anomalies import anomalies
from kproxy.trace.lines import ErrorEntry, Line
from tests.kproxy.spark.made import BEGIN_NS, close, open_, request, response, table
from tests.kproxy.spark.plain import assert_rows, client_of, percentile

HOUR, DAY = 3600, 86_400
#: When what is unusual happens, after six days on which nothing is.
LAST = 6 * DAY
BEGIN = datetime(2026, 11, 21, 5, tzinfo=UTC)
FAILED = [ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")]


def asked(hour: int, count: int, api: str = "Fetch", **columns: Any) -> list[Line]:
    """So many requests, over an hour that begins at `hour` seconds."""
    return [request(api, at=hour + at * HOUR / count, **columns) for at in range(count)]


def answered(hour: int, latency_us: int, failed: int = 0, **columns: Any) -> list[Line]:
    """100 responses, so many of them with an error."""
    return [
        response(at=hour + 30 * at + 1, latency_us=latency_us, errors=FAILED if at < failed else [], **columns)
        for at in range(100)
    ]


def test_an_hour_that_is_not_like_that_of_other_days(spark: SparkSession) -> None:
    lines: list[Line] = [open_(at=0), close(at=LAST + 3 * HOUR)]
    for day in range(7):
        at, is_last = day * DAY, day == 6
        lines += answered(at, 10_000 + 100 * day if not is_last else 61_000, failed=20 if is_last else day % 2)
        lines += asked(at + HOUR, 0 if is_last else 120 + day)
        lines += asked(at + HOUR, 40 + day if not is_last else 48, "Metadata", client_id="steady")
        lines += asked(at + 2 * HOUR, 30, "Heartbeat", client_id="short") if day > 2 or is_last else []
    lines += asked(LAST + HOUR, 500, "Produce", client_id="new")
    rows = anomalies(table(spark, *lines)).collect()
    at_five, at_six = BEGIN + timedelta(seconds=LAST), BEGIN + timedelta(seconds=LAST + HOUR)
    slow = "p99 is 61.0 ms, usually 10.3 ms (6.0 times)"
    failing = "errors in 20.00 % of responses, usually in 0.50 % (40 times)"
    views = ("api", None), ("broker", "10.0.0.1:9092"), ("client", "app")
    assert [(row["by"], row["value"], row["since"].astimezone(UTC), row["sentence"], row["days"]) for row in rows] == [
        *((*view, at_five, slow, 6) for view in views),
        *((*view, at_five, failing, 6) for view in views),
        *((*view, at_six, "no requests, usually 0.034 a second", 6) for view in views),
    ]
    assert {row["api"] for row in rows} == {"Fetch"}
    p99, share, rate = rows[0], rows[3], rows[6]
    assert (p99["measure"], p99["actual"], p99["usual"]) == ("p99", 61_000, 10_250)
    assert p99["deviation"] == (61_000 - 10_250) / 1025
    assert (share["measure"], share["actual"], share["usual"]) == ("errors", 0.2, 0.005)
    assert share["deviation"] == (0.2 - 0.005) / 0.01
    assert (rate["measure"], rate["actual"], rate["usual"]) == ("rate", 0, pytest.approx(122.5 / HOUR))
    assert rate["deviation"] == pytest.approx(-10)


def test_the_last_hour_was_not_watched_long_enough(spark: SparkSession) -> None:
    days = [asked(day * DAY, 60) for day in range(5)]
    enough = [*(line for day in days for line in day), close(at=5 * DAY)]
    last = asked(5 * DAY, 6000)
    assert anomalies(table(spark, *enough, *last[:800])).isEmpty()
    assert anomalies(table(spark, *enough, *last)).count() == 3


def test_real_clients_with_a_bad_day(real: DataFrame) -> None:
    """Their sessions as if all were in an hour, on seven days; on the last one Fetch is slow, and Metadata fails."""
    is_last = F.col("day") == 6
    at = F.timestamp_micros(
        BEGIN_NS // 1000 + F.pmod(F.unix_micros("ts"), F.lit(HOUR * 1_000_000)) + F.col("day") * DAY * 1_000_000
    )
    failed = F.array(
        F.named_struct(
            F.lit("path"), F.lit("error_code"), F.lit("code"), F.lit(6).cast("long"), F.lit("name"), F.lit("X")
        )
    )
    lines = (
        real.crossJoin(real.sparkSession.range(7).withColumnRenamed("id", "day"))
        .withColumns(
            {
                "ts": at,
                "latency_us": F.when((F.col("api") == "Fetch") & is_last, F.col("latency_us") * 20).otherwise(
                    F.col("latency_us") + F.col("day") * 7
                ),
                "errors": F.when((F.col("api") == "Metadata") & is_last, failed).otherwise(F.col("errors")),
            }
        )
        .where((F.col("api") != "Produce") | ~is_last)
    )
    expected = _expected(
        lines.select(
            "kind", "ts", "api", "client_id", "client", "server", "latency_us", "errors", "not_decoded"
        ).collect()
    )
    assert {row["measure"] for row in expected} == {"rate", "errors", "p99"}
    assert_rows(anomalies(lines).drop("sentence"), expected)


def _expected(lines: list[Any]) -> list[dict[str, Any]]:
    seconds = [line["ts"].replace(tzinfo=UTC).timestamp() for line in lines]
    begin, end = min(seconds), max(seconds)
    all_hours = {int(each) // HOUR * HOUR for each in seconds}
    seen: dict[tuple[Any, ...], dict[int, dict[str, list[Any]]]] = defaultdict(dict)
    for line, second in zip(lines, seconds, strict=True):
        if line["kind"] not in ("request", "response") or line["api"] is None:
            continue
        for by, value in (("api", None), ("client", client_of(line)), ("broker", line["server"])):
            hours = seen[by, line["api"], value]
            hour = hours.setdefault(int(second) // HOUR * HOUR, {"requests": [], "errors": [], "latencies": []})
            if line["kind"] == "request":
                hour["requests"].append(line)
            elif not line["not_decoded"]:
                hour["errors"].append(bool(line["errors"]))
            if line["latency_us"] is not None:
                hour["latencies"].append(line["latency_us"])
    rows = []
    for (by, api, value), hours in seen.items():
        days: dict[tuple[str, int], dict[int, tuple[float, float]]] = defaultdict(dict)
        for hour in all_hours:
            watched = min(hour + HOUR, end) - max(hour, begin)
            if hour < min(hours) or watched < 600:
                continue
            facts = hours.get(hour, {"requests": [], "errors": [], "latencies": []})
            days["rate", hour % DAY][hour] = len(facts["requests"]) / watched, watched
            if (count := len(facts["errors"])) >= 100:
                days["errors", hour % DAY][hour] = sum(facts["errors"]) / count, count
            if len(facts["latencies"]) >= 100:
                days["p99", hour % DAY][hour] = percentile(facts["latencies"], 0.99) or 0, 0
        for (measure, _), each in days.items():
            for hour, (actual, amount) in each.items():
                others = [other for at, (other, _) in each.items() if at != hour]
                if len(others) < 5:
                    continue
                usual = median(others)
                chance = {
                    "rate": lambda usual=usual, amount=amount: max(usual / 10, sqrt(max(usual * amount, 1)) / amount),
                    "errors": lambda usual=usual, amount=amount: max(sqrt(usual * (1 - usual) / amount), 1 / amount),
                    "p99": lambda usual=usual: max(usual / 10, 200),
                }[measure]()
                deviation = (actual - usual) / max(1.4826 * median(abs(other - usual) for other in others), chance)
                if deviation >= 5 or (measure == "rate" and deviation <= -5):
                    rows.append({
                        "by": by, "api": api, "value": value, "since": datetime.fromtimestamp(hour, UTC),
                        "measure": measure, "actual": actual, "usual": usual,
                        "deviation": deviation, "days": len(others),
                    })  # fmt: skip
    rows.sort(
        key=lambda row: (
            -abs(row["deviation"]),
            row["since"],
            row["by"],
            row["api"],
            row["value"] or "",
            row["measure"],
        )
    )
    return rows
