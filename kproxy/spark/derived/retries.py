"""Repeated requests, for the job and rules about retries."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors import schemas
from dissectors.trackers.answered_apis import DISCOVERY_APIS
from kproxy.spark.derived.connections import connections
from kproxy.spark.derived.exchanges import exchanges
from kproxy.spark.routine_errors import ROUTINE_ERRORS
from kproxy.spark.sentences import host

#: A request with the same API, size and topics within this time (us) after another was lost is a retry: clients
#: reconnect within seconds (reconnect.backoff.max.ms).
_RETRY_US = 10_000_000
#: The columns that identify a repeated request of a client; topics with their partitions and bytes.
_IDENTITY_COLUMNS: Final = ("cluster", "host", "client_id", "api", "size", "names")

_RETRIABLE = [error.name for error in schemas.errors() if error.retriable]


def resent_requests(lines: DataFrame) -> DataFrame:
    """Return the requests that first repeat a request left unanswered when its connection closed.

    Metadata and log-in requests are left out: every new connection sends the same ones.

    Returns:
        cluster, host, client_id, client, server, api, connection_id and retried_us (time sent) of the second request;
        lost_us (when the first was sent), ended_us (when its connection closed) and closed_by.
    """
    ended_connections = connections(lines).where((F.col("unanswered") > 0) & F.col("by").isin("client", "server"))
    is_errand = ~F.col("api_key").isin(*DISCOVERY_APIS)
    requests = lines.where(is_errand & (F.col("kind") == "request") & ~F.col("acks").eqNullSafe(0)).select(
        "cluster", host(F.col("client")).alias("host"), "client_id", "api", "size", _topics_hash().alias("names"),
        "client", "server", "connection_id", "correlation_id", F.unix_micros("ts").alias("us"),
    )  # fmt: skip
    connection_ends = ended_connections.select(
        "connection_id", F.unix_micros("closed_at").alias("ended_us"), F.col("by").alias("closed_by")
    )
    ended_lines = connection_ends.join(lines, "connection_id")  # with the ends, so that these are joined only once
    columns = {"host": host(F.col("client")), "names": _topics_hash()}
    columns |= {name: F.col(name) for name in ("size", "ended_us", "closed_by")}
    lost = (
        exchanges(ended_lines, is_errand, **columns) .where(F.col("answered_us").isNull())
        .select(*(F.col(name).alias(f"lost_{name}") for name in (*_IDENTITY_COLUMNS, "connection_id")),
                F.col("asked_us").alias("lost_us"), "ended_us", "closed_by")
    )  # fmt: skip
    is_same = [F.col(name).eqNullSafe(F.col(f"lost_{name}")) for name in _IDENTITY_COLUMNS]
    is_soon = F.col("us").between(F.col("ended_us"), F.col("ended_us") + _RETRY_US)
    pairs = lost.join(requests, [*is_same, is_soon, F.col("connection_id") != F.col("lost_connection_id")])
    # Each lost request is matched with the first repetition, and each repetition with one lost request.
    by_lost_request = Window.partitionBy("lost_connection_id", "lost_us", "lost_api").orderBy("us", "connection_id")
    by_repetition = Window.partitionBy("connection_id", "us", "correlation_id").orderBy(F.desc("lost_us"))
    return (
        pairs.withColumn("place", F.row_number().over(by_lost_request)) .where(F.col("place") == 1) .withColumn("place",
                         F.row_number().over(by_repetition)) .where(F.col("place") == 1) .select("cluster", "host",
                         "client_id", "client", "server", "api", "connection_id", F.col("us").alias("retried_us"),
                         "lost_us", "ended_us", "closed_by")
    )  # fmt: skip


def refused_again(lines: DataFrame, *, retriable: bool) -> DataFrame:
    """Return error responses to requests that had failed with the same error just before.

    Args:
        lines: Rows of TABLE.
        retriable: Whether to select retriable errors (Kafka's RetriableException), or the others.

    Returns:
        cluster, host, client_id, client, server, api, connection_id, error, retried_us (when the second was sent),
        refused_us (when the first failed).
    """
    error = F.get("errors", F.lit(0))
    is_selected = error["name"].isin(_RETRIABLE) if retriable else ~error["name"].isin([*_RETRIABLE, *ROUTINE_ERRORS])
    responses = lines.where((F.col("kind") == "response") & F.col("request_ts").isNotNull() & is_selected)
    by_request = Window.partitionBy("cluster", "host", "client_id", "api", "size", "names", "error").orderBy(
        "retried_us", "offset"
    )
    return (
        responses.select(
            "cluster", host(F.col("client")).alias("host"), "client_id", "client", "server", "api", "connection_id",
            "offset", F.col("request_size").alias("size"), _topics_hash().alias("names"), error["name"].alias("error"),
            F.unix_micros("request_ts").alias("retried_us"), F.unix_micros("ts").alias("us"),
        )
        .withColumn("refused_us", F.lag("us").over(by_request))
        .where((F.col("retried_us") >= F.col("refused_us")) & (F.col("retried_us") - F.col("refused_us") <= _RETRY_US))
        .drop("offset", "size", "names", "us")
    )  # fmt: skip


def _topics_hash() -> Column:
    """Return a hash of a request's topics with their partitions and bytes."""
    return F.xxhash64("topics")
