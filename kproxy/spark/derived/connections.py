"""Connections, one row each, for jobs about how they open, how they are used, and how they close."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.trackers.answered_apis import DISCOVERY_APIS
from kproxy.spark.sentences import host

#: These columns are the same on all lines of a connection, or only on one, which keeps the aggregation small.
_KEYS = ["connection_id", "client", "server", "client_id", "by", "how"]


def connections(lines: DataFrame) -> DataFrame:
    """Return one row per connection.

    Args:
        lines: Rows of TABLE.

    Returns:
        cluster, connection_id, client, host (of the client), server, client_id; opened_at, null if it was opened before
        recording began or its open line is missing; closed_at, by (client, server, proxy) and how from its close line,
        null if there is none; unanswered, the requests without a response at the end; requests, the requests in the
        table, and work_requests, those other than Metadata, ApiVersions and log-in; last_at, the time of its last
        request or response; answered_at, the time of its last response, and asked_at, the time of that response's
        request.
    """
    kind, at = F.col("kind"), F.col("ts")
    is_frame = kind.isin("request", "response")
    is_open = (kind == "open") & ~F.coalesce("midstream", F.lit(False))
    partial_rows = lines.where(is_frame | kind.isin("open", "close")).groupBy("cluster", *_KEYS).agg(
        F.min(F.when(is_open, at)).alias("opened_at"),
        F.max(F.when(kind == "close", at)).alias("closed_at"),
        F.max("unanswered").alias("unanswered"),
        F.count_if(kind == "request").alias("requests"),
        F.count_if((kind == "request") & ~F.col("api_key").isin(*DISCOVERY_APIS)).alias("work_requests"),
        F.max(F.when(is_frame, at)).alias("last_at"),
        F.max(F.when(kind == "response", at)).alias("answered_at"),
        F.max("request_ts").alias("asked_at"),
    )  # fmt: skip
    result = partial_rows.groupBy("cluster", "connection_id").agg(
        *(F.max(name).alias(name) for name in _KEYS[1:]),
        F.min("opened_at").alias("opened_at"),
        *(F.sum(name).alias(name) for name in ("requests", "work_requests")),
        F.coalesce(F.max("unanswered"), F.lit(0)).alias("unanswered"),
        *(F.max(name).alias(name) for name in ("closed_at", "last_at", "answered_at", "asked_at")),
    )
    return result.withColumn("host", host(F.col("client")))
