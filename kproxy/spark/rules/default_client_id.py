"""S048: clients that cannot be told apart."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.rules.offline import DEFAULT_CLIENT_IDS
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule
from kproxy.spark.sentences import host


@rule("S048", hint="set client.id to the name of the service, so that broker logs, quotas and metrics identify it")
def default_client_id(lines: DataFrame) -> DataFrame:
    """Find client ids that are a library's default, with the hosts that use them."""
    by_connection = (
        lines.where((F.col("kind") == "request") & F.rlike("client_id", F.lit(DEFAULT_CLIENT_IDS)))
        .groupBy("cluster", "client_id", "client", "connection_id")
        .agg(F.min("ts").alias("ts"), F.max("ts").alias("until"))
    )
    rows = by_connection.groupBy("cluster", "client_id").agg(
        *occurrence_columns(), F.max("until").alias("until"), F.count_distinct(host(F.col("client"))).alias("hosts")
    )
    text = message("client id %s is a library's default: %d connections from %d hosts use it", "client_id",
                "findings", "hosts")  # fmt: skip
    return finding_rows(rows, client=F.col("client_id"), message=text, last_at=F.col("until"), got=F.col("client_id"))
