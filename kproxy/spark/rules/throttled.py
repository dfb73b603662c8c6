"""S036: clients throttled by a quota."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule
from kproxy.spark.sentences import fixed_point


@rule("S036", hint="raise the client's quota (kafka-configs --entity-type clients or users), or reduce its load")
def throttled(lines: DataFrame) -> DataFrame:
    """Find throttled responses, by client and broker; the job throttling reports them per hour."""
    rows = (
        lines.where((F.col("kind") == "response") & (F.col("throttle_time_ms") > 0))
        .groupBy("cluster", client_name().alias("client"), F.col("server").alias("broker"))
        .agg(*occurrence_columns(), F.sum("throttle_time_ms").alias("total"), F.max("throttle_time_ms").alias("most"))
    )
    text = message("client %s was throttled by %s %d times, %s s in total and at most %d ms", "client", "broker",
                   "findings", fixed_point(F.col("total"), 1, 1000), "most")  # fmt: skip
    return finding_rows(rows, message=text)
