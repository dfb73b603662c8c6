"""Requests that a client sends again, for what is said of retries."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors import schemas
from dissectors.trackers.answered_apis import BEARINGS
from kproxy.spark.derived.connections import connections
from kproxy.spark.derived.exchanges import exchanges
from kproxy.spark.routine_errors import OF_GROUPS
from kproxy.spark.sentences import host

#: A request of the same API, size and topics that is sent so soon (us) after the other was lost is the same again:
#: clients connect again within seconds (reconnect.backoff.max.ms).
_AGAIN_US = 10_000_000
#: What makes a request the same as another of its client; the topics with their partitions and bytes.
_SAME: Final = ("cluster", "host", "client_id", "api", "size", "names")

_RETRIABLE = [each.name for each in schemas.errors() if each.retriable]


def resent(lines: DataFrame) -> DataFrame:
    """The first requests that are the same as one that was left without an answer when its connection ended.

    Those by which a client finds its way (Metadata, log-in) are left out: whoever starts asks the same.

    Returns:
        cluster, host, client_id, client, server, api, connection_id and again_us (when it was sent) of the second;
        lost_us (when the first was sent), ended_us (when its connection was) and closed_by.
    """
    ended = connections(lines).where((F.col("unanswered") > 0) & F.col("by").isin("client", "server"))
    errands = ~F.col("api_key").isin(*BEARINGS)
    asked = lines.where(errands & (F.col("kind") == "request") & ~F.col("acks").eqNullSafe(0)).select(
        "cluster", host(F.col("client")).alias("host"), "client_id", "api", "size", _names().alias("names"),
        "client", "server", "connection_id", "correlation_id", F.unix_micros("ts").alias("us"),
    )  # fmt: skip
    ends = ended.select("connection_id", F.unix_micros("closed_at").alias("ended_us"), F.col("by").alias("closed_by"))
    last = lines.join(ends, "connection_id", "left_semi")
    own = {"host": host(F.col("client")), "size": F.col("size"), "names": _names()}
    lost = (
        exchanges(last, errands, **own)
        .where(F.col("answered_us").isNull())
        .join(ends, "connection_id")
        .select(*(F.col(name).alias(f"lost_{name}") for name in (*_SAME, "connection_id")),
                F.col("asked_us").alias("lost_us"), "ended_us", "closed_by")
    )  # fmt: skip
    same = [F.col(name).eqNullSafe(F.col(f"lost_{name}")) for name in _SAME]
    soon = F.col("us").between(F.col("ended_us"), F.col("ended_us") + _AGAIN_US)
    pairs = asked.join(lost, [*same, soon, F.col("connection_id") != F.col("lost_connection_id")])
    # Each takes the first that comes after it, and no request is two requests again.
    first = Window.partitionBy("lost_connection_id", "lost_us", "lost_api").orderBy("us", "connection_id")
    once = Window.partitionBy("connection_id", "us", "correlation_id").orderBy(F.desc("lost_us"))
    return (
        pairs.withColumn("place", F.row_number().over(first))
        .where(F.col("place") == 1)
        .withColumn("place", F.row_number().over(once))
        .where(F.col("place") == 1)
        .select("cluster", "host", "client_id", "client", "server", "api", "connection_id",
                F.col("us").alias("again_us"), "lost_us", "ended_us", "closed_by")
    )  # fmt: skip


def refused_again(lines: DataFrame, *, retriable: bool) -> DataFrame:
    """Answers with an error to a request that was refused with the same error just before.

    Args:
        lines: Rows of TABLE.
        retriable: Of errors after which the same may succeed later (Kafka's RetriableException), or of the others.

    Returns:
        cluster, host, client_id, client, server, api, connection_id, error, again_us (when the second was sent),
        refused_us (when the first was refused).
    """
    error = F.get("errors", F.lit(0))
    is_sought = error["name"].isin(_RETRIABLE) if retriable else ~error["name"].isin([*_RETRIABLE, *OF_GROUPS])
    answers = lines.where((F.col("kind") == "response") & F.col("request_ts").isNotNull() & is_sought)
    same = Window.partitionBy("cluster", "host", "client_id", "api", "size", "names", "error").orderBy(
        "again_us", "offset"
    )
    return (
        answers.select(
            "cluster", host(F.col("client")).alias("host"), "client_id", "client", "server", "api", "connection_id",
            "offset", F.col("request_size").alias("size"), _names().alias("names"), error["name"].alias("error"),
            F.unix_micros("request_ts").alias("again_us"), F.unix_micros("ts").alias("us"),
        )
        .withColumn("refused_us", F.lag("us").over(same))
        .where((F.col("again_us") >= F.col("refused_us")) & (F.col("again_us") - F.col("refused_us") <= _AGAIN_US))
        .drop("offset", "size", "names", "us")
    )  # fmt: skip


def _names() -> Column:
    """The topics of a request, as a number: with their partitions, and the bytes of those."""
    return F.xxhash64("topics")
