"""The data of the charts over time, aggregated in Spark into one row per mark, however many lines there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.observed_time import observed_durations
from kproxy.spark.report.axis import Axis
from kproxy.spark.routine_errors import refusals
from kproxy.trace.formatting import safe

#: APIs whose responses wait by design, for data or for other members.
WAITING = ("Fetch", "ShareFetch", "JoinGroup", "SyncGroup")
#: Rows of the latency chart per factor of ten.
BINS_A_DECADE = 4
MAX_APIS, MAX_BROKERS, MAX_ERRORS = 10, 12, 6
MAX_SERIES = 6  # as many as there are colours


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """A series over time: its name and its marks; a mark is a list of numbers, beginning with its bucket's position."""

    name: str
    marks: list[list[Any]]


def heat(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Count responses by latency: first all responses that do not wait by design, then those of each of the top APIs.

    A mark is (bucket, row, responses): row n is for latencies of at least 10^(n/4) us.
    """
    row = F.floor(F.log10(F.greatest(F.col("latency_us"), F.lit(1))) * BINS_A_DECADE).cast("int")
    rows = (
        _answered_requests(lines)
        .groupBy(axis.bucket(F.col("ts")).alias("at"), "api", row.alias("row"))
        .agg(F.count("*").alias("answers"))
        .collect()
    )
    totals: dict[str, int] = {}
    without_waiting: dict[tuple[int, int], int] = {}
    marks: dict[str, list[list[int]]] = {}
    positions = axis.places()
    for bucket_start, api, bin_, count in rows:
        position = positions[bucket_start]
        totals[api] = totals.get(api, 0) + count
        marks.setdefault(api, []).append([position, bin_, count])
        if api not in WAITING:
            without_waiting[position, bin_] = without_waiting.get((position, bin_), 0) + count
    names = sorted(totals, key=lambda api: (-totals[api], api))[:MAX_APIS]
    all_marks = [[*key, count] for key, count in sorted(without_waiting.items())]
    return [ChartSeries("", all_marks), *(ChartSeries(safe(name), sorted(marks[name])) for name in names)]


def brokers(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Return the p99 of responses that do not wait by design, per broker, busiest first: (bucket, responses, us)."""
    answered = _answered_requests(lines).where(~F.col("api").isin(*WAITING))
    names = _most_frequent(answered, F.col("server"), MAX_BROKERS)
    rows = (
        answered.where(F.col("server").isin(names))
        .groupBy("server", axis.bucket(F.col("ts")).alias("at"))
        .agg(F.count("*"), F.percentile("latency_us", F.lit(0.99)))
        .collect()
    )
    return _series(names, rows, axis)


def errors(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Count responses with an error that is not routine, per error, most frequent first: (bucket, responses)."""
    errors_by_time = lines.where(F.size("errors") > 0).select(
        "ts", F.explode(F.array_distinct(F.transform(refusals(), lambda error: error["name"]))).alias("name")
    )
    names = _most_frequent(errors_by_time, F.col("name"), MAX_ERRORS)
    rows = (
        errors_by_time.where(F.col("name").isin(names))
        .groupBy("name", axis.bucket(F.col("ts")).alias("at"))
        .agg(F.count("*"))
        .collect()
    )
    return _series(names, rows, axis)


def traffic(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Count requests, and bytes in both directions: (bucket, requests, bytes)."""
    frames = lines.where(F.col("kind").isin("request", "response"))
    rows = (
        frames.groupBy(axis.bucket(F.col("ts")).alias("at"))
        .agg(F.count_if(F.col("kind") == "request"), F.sum("size"))
        .select(F.lit("").alias("name"), "*")
        .collect()
    )
    return _series([""], rows, axis)


def clients(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Count the bytes of frames in both directions per client, most bytes first: (bucket, bytes)."""
    frames = lines.where(F.col("kind").isin("request", "response")).select("ts", client_name().alias("name"), "size")
    return _sums(frames, axis)


def topics(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Count the bytes of records written and read per topic, most bytes first: (bucket, bytes)."""
    has_records = ((F.col("kind") == "request") & (F.col("api") == "Produce")) | (
        (F.col("kind") == "response") & F.col("api").isin("Fetch", "ShareFetch")
    )
    entries = lines.where(has_records).select("ts", F.explode("topics").alias("entry"))
    topic = F.coalesce("entry.topic", "entry.topic_id", F.lit("?"))
    return _sums(entries.select("ts", topic.alias("name"), F.col("entry.bytes").alias("size")), axis)


def lags(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Return the largest lag in a Fetch response per topic, largest first: (bucket, records)."""
    entries = lines.where((F.col("kind") == "response") & F.col("api").isin("Fetch", "ShareFetch")).select(
        "ts", F.explode("topics").alias("entry")
    )
    topic = F.coalesce("entry.topic", "entry.topic_id", F.lit("?"))
    lag_rows = entries.where(F.col("entry.lag") > 0).select("ts", topic.alias("name"), F.col("entry.lag").alias("size"))
    return _largest_series(lag_rows, axis, F.max)


def connections(lines: DataFrame, axis: Axis) -> list[ChartSeries]:
    """Count opened connections per broker, most connections first: (bucket, connections)."""
    opened = lines.where(F.col("kind") == "open").select("ts", F.col("server").alias("name"), F.lit(1).alias("size"))
    return _sums(opened, axis)


def _sums(rows: DataFrame, axis: Axis) -> list[ChartSeries]:
    return _largest_series(rows, axis, F.sum)


def _largest_series(rows: DataFrame, axis: Axis, aggregate: Callable[[str], Column]) -> list[ChartSeries]:
    """Return a series for each of the `MAX_SERIES` largest names: the aggregate of `size` in each bucket."""
    bucket_rows = (
        rows.where(F.col("size") > 0)
        .groupBy("name", axis.bucket(F.col("ts")).alias("at"))
        .agg(aggregate("size").cast("long").alias("size"))
        .collect()
    )
    totals: dict[str, int] = {}
    for name, _, value in bucket_rows:
        totals[name] = totals.get(name, 0) + value
    names = sorted(totals, key=lambda name: (-totals[name], name))[:MAX_SERIES]
    shown_names = set(names)
    return _series(names, [row for row in bucket_rows if row["name"] in shown_names], axis)


def observed_us(lines: DataFrame, axis: Axis) -> list[int]:
    """Return the observed time of each bucket: less than its length at both ends and in gaps of the traces."""
    observed_by_slot = {slot: us for _, slot, us in observed_durations(lines, F.lit(""), axis.step_us).collect()}
    return [observed_by_slot.get(begin, 0) for begin in axis.begins]


def _answered_requests(lines: DataFrame) -> DataFrame:
    return lines.where(F.col("latency_us").isNotNull() & F.col("api").isNotNull())


def _most_frequent(rows: DataFrame, name: Column, max_names: int) -> list[str]:
    """Return the most frequent names."""
    ranked = rows.groupBy(name.alias("name")).agg(F.count("*").alias("rows")).orderBy(F.desc("rows"), "name")
    return [row["name"] for row in ranked.limit(max_names).collect()]


def _series(names: list[str], rows: list[Any], axis: Axis) -> list[ChartSeries]:
    marks: dict[str, list[list[Any]]] = {name: [] for name in names}
    positions = axis.places()
    for name, bucket_start, *numbers in rows:
        marks[name].append([positions[bucket_start], *numbers])
    return [ChartSeries(safe(name), sorted(name_marks)) for name, name_marks in marks.items()]
