"""All figures of a report, computed by Spark: facts, charts over time, and the table of every job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark import jobs
from kproxy.spark.derived.clusters import CLUSTER
from kproxy.spark.report import charts
from kproxy.spark.report.axis import Axis, axis
from kproxy.spark.report.charts import ChartSeries
from kproxy.spark.report.facts import Facts, facts
from kproxy.spark.report.tables import JobTable, build_job_table
from kproxy.spark.sentences import text


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a report as plain values of limited size, however many lines there are. `tables` are by job name.

    `observed_us` is the observed time of each bucket of the axis.
    """

    facts: Facts
    axis: Axis
    observed_us: list[int]
    heat: list[ChartSeries]
    brokers: list[ChartSeries]
    errors: list[ChartSeries]
    traffic: list[ChartSeries]
    clients: list[ChartSeries]
    topics: list[ChartSeries]
    lags: list[ChartSeries]
    connections: list[ChartSeries]
    tables: dict[str, JobTable]


def figures(
    lines: DataFrame,
    during: Callable[[str], AbstractContextManager[object]] = nullcontext,
    *,
    clusters: Sequence[str] = (),
    overrides: Mapping[str, Callable[[], DataFrame]] = MappingProxyType({}),
) -> Figures:
    """Compute all figures.

    `during` is called with the name of the current step, and returns a context manager around it. If there are several
    clusters, they are named in tables and charts. `overrides` is as in `kproxy.spark.jobs.plan_jobs`.
    """
    has_several = len(clusters) > 1
    broker_name = text(F.col("server"), " · ", F.col(CLUSTER)) if has_several else F.col("server")
    with during("charts"):
        summary = facts(lines)
        time_axis = axis(lines, summary.first_us or 0, summary.last_us or 0)
        observed = charts.observed_us(lines, time_axis) if time_axis.begins else []
        brokers = charts.brokers(lines.withColumn("server", broker_name), time_axis)
        heat, errors, traffic = (chart(lines, time_axis) for chart in (charts.heat, charts.errors, charts.traffic))
        clients, topics, lags, connections = (
            chart(lines, time_axis) for chart in (charts.clients, charts.topics, charts.lags, charts.connections)
        )
    tables = {}
    for job, table in jobs.plan_jobs([name for name in jobs.names() if name not in jobs.STORED], lines, overrides):
        with during(job.name):
            tables[job.name] = build_job_table(job, table() if has_several else table().drop(CLUSTER))
    return Figures(
        summary, time_axis, observed, heat, brokers, errors, traffic, clients, topics, lags, connections, tables
    )
