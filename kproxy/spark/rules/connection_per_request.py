"""C018: clients that open a connection for every one or two requests."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.connections import connections
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

#: Minimum connections of a client within an hour (UTC), maximum requests other than log-in and Metadata per
#: connection, maximum share of other connections.
_MIN_CONNECTIONS, _MAX_REQUESTS, _MAX_OTHERS_SHARE = 20, 2, 0.1


@rule("C018", hint="create one producer, consumer or admin client per process, and share it")
def connection_per_request(lines: DataFrame) -> DataFrame:
    """Find connections opened and closed with one or two requests other than log-in and Metadata."""
    complete_connections = connections(lines).where(F.col("opened_at").isNotNull() & F.col("closed_at").isNotNull())
    is_short = F.col("work_requests").between(1, _MAX_REQUESTS)
    rows = (
        complete_connections.withColumn("hour", F.date_trunc("hour", "opened_at"))
        .groupBy("cluster", client_name().alias("client"), "host", F.col("server").alias("broker"), "hour")
        .agg(
            *occurrence_columns("opened_at"),
            F.count("*").alias("connections"),
            F.count_if(is_short).alias("short_connections"),
            F.sum(F.when(is_short, F.col("work_requests"))).alias("work_requests"),
        )
        .where(
            (F.col("short_connections") >= _MIN_CONNECTIONS)
            & (F.col("short_connections") >= (1 - _MAX_OTHERS_SHARE) * F.col("connections"))
        )
    )
    text = message(
        "client %s at %s opened %d connections within an hour for %d requests",
        "client", "host", "short_connections", "work_requests",
    )  # fmt: skip
    return finding_rows(rows, findings=F.col("short_connections"), message=text)
