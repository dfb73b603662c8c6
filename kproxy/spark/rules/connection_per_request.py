"""C018: clients that open a connection for every one or two requests."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.connections import connections
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

#: Minimum connections of a client within an hour (UTC), maximum errands (requests other than log-in and Metadata) per
#: connection, maximum share of other connections.
_MIN_CONNECTIONS, _MAX_ERRANDS, _MAX_OTHERS_SHARE = 20, 2, 0.1


@rule("C018", hint="create one producer, consumer or admin client per process, and share it")
def connection_per_request(lines: DataFrame) -> DataFrame:
    """Find connections opened and closed with one or two requests other than log-in and Metadata."""
    complete_connections = connections(lines).where(F.col("opened_at").isNotNull() & F.col("closed_at").isNotNull())
    is_short = F.col("errands").between(1, _MAX_ERRANDS)
    rows = (
        complete_connections.withColumn("hour", F.date_trunc("hour", "opened_at"))
        .groupBy("cluster", client_name().alias("client"), "host", F.col("server").alias("broker"), "hour")
        .agg(
            *occurrence_columns("opened_at"),
            F.count_if(is_short).alias("short"),
            F.sum(F.when(is_short, F.col("errands"))).alias("errands"),
        )
        .where((F.col("short") >= _MIN_CONNECTIONS) & (F.col("short") >= (1 - _MAX_OTHERS_SHARE) * F.col("findings")))
    )
    text = message("client %s at %s opened %d connections within an hour for %d requests", "client", "host", "short",
                "errands")  # fmt: skip
    return finding_rows(rows, findings=F.col("short"), message=text)
