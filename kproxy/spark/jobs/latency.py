"""Latency: per API, and within it per version, client, broker and topic."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, position_in, topic_names, view
from kproxy.spark.jobs import job

_QUANTILES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
_ORDER = ("api", "version", "client", "broker", "topic")


@job("latency per API, broken down by version, client, broker and topic")
def latency(lines: DataFrame) -> DataFrame:
    """Report percentiles of the time from request to response; they are exact.

    Args:
        lines: Rows of TABLE; uses api, api_version, client_id, client, server, topics and latency_us of responses.

    Returns:
        One row per API, and one for each of its versions, clients, brokers and topics. A response counts for every
        topic that it names. Sorted by `by`, slowest first.

        - by (string): the kind of row: ``api``, ``version``, ``client``, ``broker`` or ``topic``
        - api (string): the API
        - value (string): the name of the version, client (its host if it has no client id), broker or topic; null if
          `by` is ``api``
        - responses (bigint, responses): responses with a known request
        - p50_us (double, µs): median
        - p90_us (double, µs): 90th percentile
        - p99_us (double, µs): 99th percentile
        - p999_us (double, µs): 99.9th percentile
        - max_us (bigint, µs): maximum
    """
    with_names = lines.where(F.col("latency_us").isNotNull() & F.col("api").isNotNull()).withColumn(
        "names", topic_names()
    )
    views = F.concat(
        F.array(
            view("api", F.lit(None).cast("string")),
            view("version", F.col("api_version").cast("string")),
            view("client", client_name()),
            view("broker", F.col("server")),
        ),
        F.transform("names", lambda topic: view("topic", topic)),
    )
    table = (
        with_names.select("cluster", "api", "latency_us", F.explode(views).alias("view"))
        .groupBy("cluster", "view.by", "api", "view.value")
        .agg(
            F.count("*").alias("responses"),
            F.percentile("latency_us", F.array(*map(F.lit, _QUANTILES.values()))).alias("quantiles"),
            F.max("latency_us").alias("max_us"),
        )
    )
    quantiles = [F.col("quantiles")[position].alias(name) for position, name in enumerate(_QUANTILES)]
    return table.select("cluster", "by", "api", "value", "responses", *quantiles, "max_us").orderBy(
        position_in(_ORDER, "by"), F.desc("p99_us"), "api", "value", "cluster"
    )
