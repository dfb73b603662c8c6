from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import sqrt
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.spark.jobs.anomalies import anomalies, sorted_map, sorted_sum
from kproxy.spark.sentences import format_amount
from kproxy.trace.lines import ErrorEntry, Line
from tests.kproxy.spark.reference import assert_rows, client_of, percentile
from tests.kproxy.spark.sample_lines import BEGIN_NS, close, open_, request, response, table

HOUR, DAY = 3600, 86_400
SLOT = 600
#: The start of the day with unusual hours, after six usual days.
LAST_DAY = 6 * DAY
BEGIN = datetime(2026, 11, 21, 5, tzinfo=UTC)
FAILED = [ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")]


def requests_in_hour(hour: int, count: int, api: str = "Fetch", **columns: Any) -> list[Line]:
    """Return `count` requests in the hour that begins at `hour` seconds."""
    return [request(api, at=hour + index * HOUR / count, **columns) for index in range(count)]


def responses_in_hour(hour: int, latency_us: int, failed: int = 0, **columns: Any) -> list[Line]:
    """Return 100 responses, the first `failed` of them with an error."""
    return [
        response(at=hour + 30 * index + 1, latency_us=latency_us, errors=FAILED if index < failed else [], **columns)
        for index in range(100)
    ]


def test_hour_that_differs_from_other_days_is_reported(spark: SparkSession) -> None:
    lines: list[Line] = [open_(at=0), close(at=LAST_DAY + 3 * HOUR)]
    for day in range(7):
        at, is_last = day * DAY, day == 6
        lines += responses_in_hour(at, 10_000 + 100 * day if not is_last else 61_000, failed=20 if is_last else day % 2)
        lines += requests_in_hour(at + HOUR, 0 if is_last else 120 + day)
        lines += requests_in_hour(at + HOUR, 40 + day if not is_last else 48, "Metadata", client_id="steady")
        lines += requests_in_hour(at + 2 * HOUR, 30, "Heartbeat", client_id="short") if day > 2 or is_last else []
    lines += requests_in_hour(LAST_DAY + HOUR, 500, "Produce", client_id="new")
    rows = anomalies(table(spark, *lines)).collect()
    at_five, at_six = BEGIN + timedelta(seconds=LAST_DAY), BEGIN + timedelta(seconds=LAST_DAY + HOUR)
    slow = "p99 is 61.0 ms, usually 10.3 ms (6.0x slower)"
    failing = "errors in 20.00 % of responses, usually 0.50 % (40x)"
    views = ("api", None), ("broker", "10.0.0.1:9092"), ("client", "app")
    # The last day is a Friday, so its rate is compared with the rates of four working days.
    assert [(row["by"], row["value"], row["since"].astimezone(UTC), row["sentence"], row["days"]) for row in rows] == [
        *((*view, at_five, slow, 6) for view in views),
        *((*view, at_five, failing, 6) for view in views),
        *((*view, at_six, "no requests, usually 0.034 a second", 4) for view in views),
    ]
    assert {row["api"] for row in rows} == {"Fetch"}
    p99, error_share, rate = rows[0], rows[3], rows[6]
    assert (p99["measure"], p99["actual"], p99["usual"]) == ("p99", 61_000, 10_250)
    assert p99["deviation"] == pytest.approx((61_000 - 10_250) / 2050, abs=1e-3)  # the scale is a fifth
    assert (error_share["measure"], error_share["actual"], error_share["usual"]) == ("errors", 0.2, 0.005)
    assert error_share["deviation"] == 19.5
    assert (rate["measure"], rate["actual"], rate["usual"]) == ("rate", 0, pytest.approx(123.5 / HOUR, rel=0.01))
    assert rate["deviation"] == pytest.approx(-10, rel=0.01)


def test_last_hour_that_was_observed_too_briefly_is_ignored(spark: SparkSession) -> None:
    days = [requests_in_hour(day * DAY, 60) for day in range(6)]
    usual_days = [*(line for day in days for line in day), close(at=6 * DAY)]
    last_hour = requests_in_hour(6 * DAY, 6000)
    assert anomalies(table(spark, *usual_days, *last_hour[:800])).isEmpty()
    assert anomalies(table(spark, *usual_days, *last_hour)).count() == 3


def weekly_requests(week_count: int, requests_at: Callable[[datetime], int]) -> list[Line]:
    """Return requests of complete weeks; `requests_at` returns their number for the start of an hour."""
    hours = [BEGIN + timedelta(hours=hour) for hour in range(week_count * 7 * 24)]
    counts = {round((hour - BEGIN).total_seconds()): requests_at(hour) for hour in hours}
    return [
        *(line for at, number in counts.items() for line in requests_in_hour(at, number, connection_id="n-1-1")),
        *(request("Heartbeat", at=at, connection_id="n-1-2", client_id="x")
          for at in range(0, week_count * 7 * DAY, SLOT)),
    ]  # fmt: skip


def unusual_rates(table: DataFrame) -> list[tuple[datetime, str]]:
    """Return the hours in which an API has an unusual rate."""
    rows = table.where("api = 'Fetch' and by = 'api' and measure = 'rate'").collect()
    return sorted((row["since"].astimezone(UTC), row["sentence"]) for row in rows)


def test_repeating_weeks_have_no_anomalies(spark: SparkSession) -> None:
    """Low traffic on weekends at 10 and a batch every Monday at 11 are usual from the second week on."""

    def requests_at(hour: datetime) -> int:
        is_weekend = hour.weekday() >= 5
        return {10: 20 if is_weekend else 100, 11: 200 if hour.weekday() == 0 else 40}.get(hour.hour, 0)

    assert anomalies(table(spark, *weekly_requests(2, requests_at))).isEmpty()


def test_rates_are_compared_with_the_same_weekday_if_known(spark: SparkSession) -> None:
    """A Monday without its batch differs only from other Mondays."""
    monday = datetime(2026, 12, 14, 11, tzinfo=UTC)
    lines = weekly_requests(
        4, lambda hour: (200 if hour.weekday() == 0 and hour != monday else 40) if hour.hour == 11 else 0
    )
    [row] = anomalies(table(spark, *lines)).where("by = 'api'").collect()
    assert (row["since"].astimezone(UTC), row["days"]) == (monday, 3)
    assert row["sentence"] == "0.011 requests/s, usually 0.056 (0.20x)"


def test_since_reports_only_later_hours(spark: SparkSession) -> None:
    """Earlier hours are used for comparison but not reported."""
    peaks = {datetime(2026, 11, 26, 10, tzinfo=UTC), datetime(2026, 12, 2, 10, tzinfo=UTC)}
    lines = table(spark, *weekly_requests(2, lambda hour: (400 if hour in peaks else 40) if hour.hour == 10 else 0))
    assert [since for since, _ in unusual_rates(anomalies(lines))] == sorted(peaks)
    assert [since for since, _ in unusual_rates(anomalies(lines, since=max(peaks)))] == [max(peaks)]
    assert unusual_rates(anomalies(lines, since=max(peaks) + timedelta(hours=1))) == []


def test_time_zone_follows_daylight_saving_time(spark: SparkSession) -> None:
    """Clocks in New York were set back on November 1, so 10:00 is 14:00 UTC before and 15:00 UTC after."""
    begin = datetime(2026, 10, 24, tzinfo=UTC)
    zone = ZoneInfo("America/New_York")
    hours = [begin + timedelta(hours=hour) for hour in range(14 * 24)]
    lines = [
        line
        for hour in hours
        for line in requests_in_hour(
            round((hour - BEGIN).total_seconds()), 200 if hour.astimezone(zone).hour == 10 else 20, client_id="x"
        )
    ]
    frame = table(spark, *lines)
    assert not anomalies(frame).isEmpty()
    assert anomalies(frame, time_zone="America/New_York").isEmpty()


def test_amount_formats_numbers_of_every_size(spark: SparkSession) -> None:
    values = [0.0, 0.0000004, 0.0000123, 0.00034, 0.0346, 0.1, 0.5, 3.0, 9.96, 14.4, 1400.4]
    expected = ["0.0", "4.0e-07", "1.2e-05", "0.00034", "0.035", "0.10", "0.50", "3.0", "10", "14", "1,400"]
    rows = spark.createDataFrame([(value,) for value in values], "value double").select(format_amount(F.col("value")))
    assert [row[0] for row in rows.collect()] == expected


def regular_requests(begin: float, end: float, api: str, interval_s: float = 12, **columns: Any) -> list[Line]:
    """Return requests at regular intervals between two times."""
    return [
        request(api, at=begin + number * interval_s, **columns) for number in range(int((end - begin) / interval_s))
    ]


def test_only_observed_times_are_compared(spark: SparkSession) -> None:
    """Each API is a separate case with its own proxies."""

    def scheduled(api: str, day: int, begin: float = 0, end: float = HOUR) -> list[Line]:
        """Return the lines of an hour in which most requests are sent early."""
        early_end, late_end, columns = day * DAY + 1200, day * DAY + end, {"connection_id": f"{api}-1-1"}
        return [
            *regular_requests(day * DAY + begin, early_end, api, 3, **columns),
            *regular_requests(early_end, late_end, api, 60, **columns),
        ]

    def through_proxies(api: str, day: int, *nodes: str, begin: float = 0) -> list[Line]:
        return [
            line
            for node in nodes
            for line in regular_requests(
                day * DAY + begin, day * DAY + HOUR, api, connection_id=f"{api}{node}-{day}-1", client_id=node
            )
        ]

    lines = []
    for day in range(1, 6):
        for api in ("Fetch", "Produce"):
            lines += scheduled(api, day)
        for api in ("Heartbeat", "Metadata", "ListOffsets"):
            lines += through_proxies(api, day, "a", "b")
    # A first hour, a last hour, an hour with a gap, and a last hour whose observed part has more requests than usual.
    for api in ("Fetch", "Produce"):
        at, columns = 7 * DAY, {"connection_id": f"{api}-2-1"}
        lines += [*scheduled(api, 0, begin=1100), *scheduled(api, 6, end=1500)]
        lines += [
            *regular_requests(at, at + 900, api, 3, **columns),
            *regular_requests(at + 2400, at + HOUR, api, 60, **columns),
        ]
    lines += regular_requests(6 * DAY, 6 * DAY + 1200, "Produce", interval_s=1, connection_id="Produce-1-2")
    # One proxy is missing, one is new, and one is present without its client.
    lines += [*through_proxies("Heartbeat", 6, "a"), *through_proxies("Metadata", 6, "a", "b", "c")]
    lines += through_proxies("ListOffsets", 6, "a")
    lines += regular_requests(6 * DAY, 6 * DAY + HOUR, "SyncGroup", 300, connection_id="ListOffsetsb-6-1")
    # The 99th percentile of few responses is partly due to chance.
    for day in range(7):
        for api, count in (("JoinGroup", 150), ("LeaveGroup", 900)):
            lines += [response(api, at=day * DAY + at, latency_us=8600 if day == 6 else 5000) for at in range(count)]
    rows = [(row["api"], row["by"], row["value"], row["sentence"]) for row in anomalies(table(spark, *lines)).collect()]
    slow = "p99 is 8.6 ms, usually 5.0 ms (1.7x slower)"
    surge = "1.1 requests/s, usually 0.28 (4.0x)"
    assert sorted(rows, key=str) == [
        *(
            ("LeaveGroup", by, value, slow)
            for by, value in (("api", None), ("broker", "10.0.0.1:9092"), ("client", "app"))
        ),
        ("ListOffsets", "client", "b", "no requests, usually 0.083 a second"),
        *(
            ("Produce", by, value, surge)
            for by, value in (("api", None), ("broker", "10.0.0.1:9092"), ("client", "app"))
        ),
    ]


def test_sorted_sum_and_sorted_map_do_not_depend_on_input_order(spark: SparkSession) -> None:
    fractions = [0.1, 0.2, 0.3]
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    columns = []
    for numbers in (fractions, fractions[::-1]):
        entries = F.array(*(F.struct(F.lit(number).alias("place"), F.lit(1).alias("part")) for number in numbers))
        columns += [sorted_sum(F.array(*map(F.lit, numbers))), F.map_keys(sorted_map(entries))]
    [row] = spark.range(1).select(*(column.alias(str(index)) for index, column in enumerate(columns))).collect()
    assert (row[0], row[1]) == (row[2], row[3])


def test_anomalies_on_a_bad_day_match_the_expected_rows(real: DataFrame) -> None:
    """Real client sessions are stretched to an hour and repeated for seven days; on the last day, Fetch is slow."""
    is_last = F.col("day") == 6
    at = F.timestamp_micros(
        BEGIN_NS // 1000 + F.pmod(F.unix_micros("ts") * 40, F.lit(HOUR * 1_000_000)) + F.col("day") * DAY * 1_000_000
    )
    error = F.struct(F.lit("error_code").alias("path"), F.lit(6).cast("long").alias("code"), F.lit("X").alias("name"))
    failed = F.array(F.when(is_last, error))  # in Sail, the type differs from that of an array without nulls
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
    expected = _expected_rows(
        lines.select(
            "kind", "ts", "connection_id", "api", "client_id", "client", "server", "latency_us", "errors", "not_decoded"
        ).collect()
    )
    assert {row["measure"] for row in expected} == {"rate", "errors", "p99"}
    assert_rows(anomalies(lines).drop("sentence"), expected)


def _observed_seconds(lines: list[Any]) -> dict[tuple[str, int], float]:
    """Return observed seconds by source and ten-minute slot; pauses between lines longer than a slot do not count."""
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    times: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        times[_source(line)].append(line["ts"].replace(tzinfo=UTC).timestamp())
    for source, source_times in times.items():
        for begin, end in pairwise(sorted(source_times)):
            for slot in range(int(begin) // SLOT * SLOT, int(end) + 1, SLOT) if end - begin <= SLOT else ():
                seconds[source, slot] += max(0, min(end, slot + SLOT) - max(begin, slot))
    return {key: value for key, value in seconds.items() if value}


def _source(line: Any) -> str:
    return re.sub(r"(-\d+){1,2}$", "", line["connection_id"])


def _weekday(hour: int) -> int:
    return datetime.fromtimestamp(hour, UTC).weekday()


def _mad(values: list[float], center: float) -> float:
    return 1.4826 * median(abs(value - center) for value in values)


def _expected_rows(lines: list[Any]) -> list[dict[str, Any]]:
    seconds = _observed_seconds(lines)
    request_counts: dict[tuple[Any, ...], dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
    failed: dict[tuple[Any, ...], dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    latencies: dict[tuple[Any, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["kind"] not in ("request", "response") or line["api"] is None:
            continue
        at = int(line["ts"].replace(tzinfo=UTC).timestamp())
        for by, value in (("api", None), ("client", client_of(line)), ("broker", line["server"])):
            subject = by, line["api"], value
            if line["kind"] == "request":
                request_counts[subject][_source(line), at // SLOT * SLOT] += 1
            elif not line["not_decoded"]:
                failed[subject][at // HOUR * HOUR].append(bool(line["errors"]))
            if line["latency_us"] is not None:
                latencies[subject][at // HOUR * HOUR].append(line["latency_us"])
    #: By subject, measure and time of day: the value and weight of each hour, and the values of other days.
    measured: dict[tuple[Any, ...], dict[int, tuple[float, float, dict[int, float]]]] = defaultdict(dict)
    for subject, requests in request_counts.items():
        nodes, first = {node for node, _ in requests}, min(slot for _, slot in requests) // HOUR * HOUR
        known_slots = {(node, slot) for node, slot in seconds if node in nodes and slot >= first}
        for hour in {slot // HOUR * HOUR for _, slot in known_slots}:
            hour_keys = {key for key in known_slots if key[1] // HOUR * HOUR == hour}
            watched_s = sum(
                max(seconds[key] for key in hour_keys if key[1] == slot) for slot in {slot for _, slot in hour_keys}
            )
            others = {}
            for day in range(-7, 8):
                keys_of_day = {key: (key[0], key[1] + day * DAY) for key in hour_keys}
                observed_keys = {
                    key for key in hour_keys if keys_of_day[key] in known_slots and seconds[keys_of_day[key]] >= 60
                }
                if day and sum(seconds[key] for key in observed_keys) * 2 >= sum(seconds[key] for key in hour_keys):
                    usual = sum(
                        requests.get(keys_of_day[key], 0) * seconds[key] / seconds[keys_of_day[key]]
                        for key in observed_keys
                    )
                    others[hour + day * DAY] = (
                        usual + sum(requests.get(key, 0) for key in hour_keys - observed_keys)
                    ) / watched_s
            if watched_s >= 600:
                actual = sum(requests.get(key, 0) for key in hour_keys) / watched_s
                measured[*subject, "rate", hour % DAY][hour] = actual, watched_s, others
    for measure, values_by_subject, value in (
        ("errors", failed, lambda values: sum(values) / len(values)),
        ("p99", latencies, lambda values: percentile(values, 0.99)),
    ):
        for subject, hours in values_by_subject.items():
            hourly_values = {hour: value(values) for hour, values in hours.items() if len(values) >= 100}
            for hour, actual in hourly_values.items():
                others = {at: other for at, other in hourly_values.items() if at != hour and (at - hour) % DAY == 0}
                measured[*subject, measure, hour % DAY][hour] = actual, len(hours[hour]), others
    rows = []
    for (by, api, value, measure, _), hours in measured.items():
        for hour, (actual, weight, days) in hours.items():
            comparable = {
                at: other for at, other in days.items()
                if measure != "rate" or (_weekday(at) >= 5) == (_weekday(hour) >= 5)
            }  # fmt: skip
            others = list(comparable.values())
            if len(others) < 4:
                continue
            assert not [at for at in comparable if _weekday(at) == _weekday(hour)]  # all days are within one week
            usual = median(others)
            chance = {
                "rate": max(usual / 10, sqrt(max(usual * weight, 1)) / weight),
                "errors": max(sqrt(max(usual * (1 - usual), 0) / weight), 1 / weight),
                "p99": max(usual / 10, 2 * usual / sqrt(weight), 200),
            }[measure]
            deviation = round((actual - usual) / max(_mad(others, usual), chance), 3)
            if deviation >= 5 or (measure == "rate" and deviation <= -5):
                rows.append({
                    "by": by, "api": api, "value": value, "since": datetime.fromtimestamp(hour, UTC),
                    "measure": measure, "actual": round(actual, 6), "usual": round(usual, 6), "deviation": deviation,
                    "days": len(others),
                })  # fmt: skip
    return sorted(
        rows,
        key=lambda row: (
            -abs(row["deviation"]), row["since"], row["by"], row["api"], row["value"] or "", row["measure"],
        ),
    )  # fmt: skip
