"""Latency: per API, and within it per version, client, broker and topic."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, place_in, topic_names, view
from kproxy.spark.jobs import job

_QUANTILES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
_ORDER = ("api", "version", "client", "broker", "topic")


@job("latency per API, broken down by version, client, broker and topic")
def latency(lines: DataFrame) -> DataFrame:
    """Report percentiles of the time from request to response; they are exact.

    Args:
        lines: Rows of TABLE; uses api, api_version, client_id, client, server, topics and latency_us of responses.

    Returns:
        One row per `api` (`by` is ``api``, `value` null), and one for each of its versions, clients (host if there is
        no client id), brokers and topics (`by` is the kind, `value` the name). `responses` counts them, `p50_us` to
        `p999_us` and `max_us` are microseconds. A response counts for every topic that it names. Sorted by `by`,
        slowest first.
    """
    views = F.concat(
        F.array(
            view("api", F.lit(None).cast("string")),
            view("version", F.col("api_version").cast("string")),
            view("client", client_name()),
            view("broker", F.col("server")),
        ),
        F.transform(topic_names(), lambda topic: view("topic", topic)),
    )
    answered = lines.where(F.col("latency_us").isNotNull() & F.col("api").isNotNull())
    shares = F.array(*map(F.lit, _QUANTILES.values()))
    table = (
        answered.select("cluster", "api", "latency_us", F.explode(views).alias("view"))
        .groupBy("cluster", "view.by", "api", "view.value")
        .agg(
            F.count("*").alias("responses"),
            F.percentile("latency_us", shares).alias("quantiles"),
            F.max("latency_us").alias("max_us"),
        )
    )
    quantiles = [F.col("quantiles")[place].alias(name) for place, name in enumerate(_QUANTILES)]
    return table.select("cluster", "by", "api", "value", "responses", *quantiles, "max_us").orderBy(
        place_in(_ORDER, "by"), F.desc("p99_us"), "api", "value", "cluster"
    )
