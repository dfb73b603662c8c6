"""S047: partitions with fewer in-sync replicas than producers require."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.schemas.codes import Error
from kproxy.spark.columns import topic_name
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

_REPLICA_ERRORS = (Error.NOT_ENOUGH_REPLICAS.name, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name)
#: A broker that restarts causes a few errors, after which clients retry.
_MIN_RESPONSES = 3


@rule("S047", hint="find the broker that is down or behind (kafka-topics --describe --under-min-isr-partitions)")
def not_enough_replicas(lines: DataFrame) -> DataFrame:
    """Find three or more errors NOT_ENOUGH_REPLICAS (or its AFTER_APPEND) in Produce responses, by broker and topic."""
    responses = lines.where((F.col("kind") == "response") & (F.col("api") == "Produce") & (F.size("errors") > 0))
    refusals = responses.withColumn("error", F.explode("errors")).where(F.col("error.name").isin(*_REPLICA_ERRORS))
    entry = F.get("topics", F.regexp_extract("error.path", r"\[([0-9]+)\]", 1).cast("int"))
    rows = (
        refusals.groupBy("cluster", F.col("server").alias("broker"), topic_name(entry).alias("topic"))
        .agg(*occurrence_columns(), F.mode("error.name", True).alias("error"))
        .where(F.col("findings") >= _MIN_RESPONSES)
    )
    text = message("%s refused batches for topic %s %d times: %s", "broker", F.coalesce("topic", F.lit("?")),
                "findings", "error")  # fmt: skip
    return finding_rows(rows, message=text, got=F.col("error"))
