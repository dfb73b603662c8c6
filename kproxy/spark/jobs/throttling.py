"""Throttled clients (quotas, KIP-13, KIP-219)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, is_decoded
from kproxy.spark.jobs import job


@job("throttled clients, and for how long, in total and per hour")
def throttling(lines: DataFrame) -> DataFrame:
    """Report how long brokers throttle clients, from throttle_time_ms in responses.

    Args:
        lines: Rows of TABLE; uses kind, ts, client_id, client, server, throttle_time_ms and not_decoded of responses.

    Returns:
        One row per client and broker that throttled it, with `since` null, and one for each hour with throttling.
        Longest total first, followed by its hours in order.

        - client (string): the client id, or the host if there is none
        - broker (string): the address of the broker
        - since (timestamp, UTC): the start of the hour; null in the row of the total
        - responses (bigint, responses): decoded responses
        - throttled (bigint, responses): throttled ones
        - share (double, 0 to 1): share of throttled ones
        - total_throttle_us (bigint, µs): sum
        - max_throttle_us (bigint, µs): maximum
    """
    hour = F.window("ts", "1 hour")["start"]
    responses = lines.where(is_decoded()).select(
        "cluster",
        client_name().alias("client"),
        F.col("server").alias("broker"),
        (F.coalesce("throttle_time_ms", F.lit(0)) * 1000).alias("throttle_us"),
        hour.alias("hour_at"),
    )
    is_throttled = F.col("throttle_us") > 0
    grouped = (
        responses.withColumn("since", F.explode(F.array(F.lit(None), "hour_at")))
        .groupBy("cluster", "client", "broker", "since")
        .agg(
            F.count("*").alias("responses"),
            F.count_if(is_throttled).alias("throttled"),
            F.mean(is_throttled.cast("int")).alias("share"),
            F.sum("throttle_us").alias("total_throttle_us"),
            F.max("throttle_us").alias("max_throttle_us"),
        )
        .where(F.col("throttled") > 0)
    )
    longest = F.max("total_throttle_us").over(Window.partitionBy("cluster", "client", "broker"))
    return (
        grouped.withColumn("longest", longest)
        .orderBy(F.desc("longest"), "client", "broker", "cluster", F.asc_nulls_first("since"))
        .drop("longest")
    )
