"""S050: clients that retry without a pause."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.retries import refused_again
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

#: A pause (us) shorter than this does not count as a pause: retry.backoff.ms is 100.
_IMMEDIATE_US = 50_000
#: Minimum retries per second.
_MIN_RETRIES = 10


@rule("S050", hint="make the client wait before it retries (retry.backoff.ms), and longer each time")
def retry_storm(lines: DataFrame) -> DataFrame:
    """Find seconds in which the same request failed ten times with a retriable error, and was repeated within 50 ms."""
    immediate_retries = refused_again(lines, retriable=True).where(
        F.col("retried_us") - F.col("refused_us") < _IMMEDIATE_US
    )
    columns = ["cluster", "client_id", "client", "server", "api", "error", "connection_id"]
    seconds = (
        immediate_retries.withColumn("ts", F.timestamp_micros("retried_us"))
        .groupBy(*columns, F.date_trunc("second", "ts"))
        .agg(F.count("*").alias("count"), F.min("ts").alias("ts"), F.max("ts").alias("until"))
        .where(F.col("count") >= _MIN_RETRIES)
    )
    rows = seconds.groupBy(
        "cluster", client_name().alias("client"), F.col("server").alias("broker"), "api", "error"
    ).agg(*occurrence_columns(), F.max("until").alias("until"), F.max("count").alias("max_count"))
    text = message("client %s sent the same %s to %s %d times in a second, each time after %s", "client", "api",
                "broker", "max_count", "error")  # fmt: skip
    return finding_rows(rows, message=text, last_at=F.col("until"), got=F.col("error"))
