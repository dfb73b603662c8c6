"""Share groups (KIP-932): what members read and acknowledge, and which acknowledgements are refused."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.schemas.codes import Error
from kproxy.spark.columns import array_or_empty, client_name, is_decoded
from kproxy.spark.jobs import job

_FETCH, _ACKNOWLEDGE, _HEARTBEAT = "ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat"
#: The lock on a record expired before it was acknowledged, or another member holds it.
_LOCK_LOST: Final = Error.INVALID_RECORD_STATE.name
_SESSION_ERRORS: Final = (
    Error.SHARE_SESSION_NOT_FOUND.name,
    Error.INVALID_SHARE_SESSION_EPOCH.name,
    Error.SHARE_SESSION_LIMIT_REACHED.name,
)


@job("share groups: what their members read, acknowledge, and are refused")
def share_groups(lines: DataFrame) -> DataFrame:
    """Report the members of share groups (KIP-932): records read, acknowledgements, and refused acknowledgements.

    Lines do not show which records a request acknowledges: rules Q001 to Q004 follow them, see the table findings.

    Args:
        lines: Rows of TABLE; uses ts, kind, api, group_id, member_id, client_id, client, topics, latency_us, errors and
            not_decoded of frames of ShareFetch, ShareAcknowledge and ShareGroupHeartbeat.

    Returns:
        One row per group and client. Most refused acknowledgements first, then most records.

        - group_id (string): the group
        - client (string): the client id, or the host if there is none
        - members (bigint, members): its members
        - fetches (bigint, responses): decoded ShareFetch responses
        - empty (bigint, responses): those without records
        - records (bigint, records): records in them
        - read_bytes (bigint, bytes): their size
        - p50_fetch_us (double, µs): median latency of ShareFetch, in which the broker waits for records
        - acknowledges (bigint, requests): ShareAcknowledge requests; ShareFetch requests may also acknowledge
        - refused (bigint, responses): ShareFetch and ShareAcknowledge responses with INVALID_RECORD_STATE: a lock had
          run out, so the records are delivered again
        - session_errors (bigint, responses): responses with an error of the share session
        - heartbeats (bigint, responses): ShareGroupHeartbeat responses
        - first_at (timestamp, UTC): the first frame
        - last_at (timestamp, UTC): the last frame
    """
    is_fetch, is_acknowledge = is_decoded(_FETCH), is_decoded(_ACKNOWLEDGE)
    names = F.transform(array_or_empty(F.col("errors")), lambda error: error["name"])
    is_session_error = F.exists(names, lambda name: name.isin(*_SESSION_ERRORS))
    record_bytes = _sum_over_topics("bytes")
    table = (
        lines.where(
            F.col("kind").isin("request", "response")
            & F.col("api").isin(_FETCH, _ACKNOWLEDGE, _HEARTBEAT)
            & F.col("group_id").isNotNull()
        )
        .groupBy("cluster", "group_id", client_name().alias("client"))
        .agg(
            F.count_distinct(F.nullif("member_id", F.lit(""))).alias("members"),
            F.count_if(is_fetch).alias("fetches"),
            F.count_if(is_fetch & (record_bytes == 0)).alias("empty"),
            F.coalesce(F.sum(F.when(is_fetch, _sum_over_topics("records"))), F.lit(0)).alias("records"),
            F.coalesce(F.sum(F.when(is_fetch, record_bytes)), F.lit(0)).alias("read_bytes"),
            F.percentile(F.when(is_fetch, F.col("latency_us")), 0.5).alias("p50_fetch_us"),
            F.count_if((F.col("kind") == "request") & (F.col("api") == _ACKNOWLEDGE)).alias("acknowledges"),
            F.count_if((is_fetch | is_acknowledge) & F.array_contains(names, _LOCK_LOST)).alias("refused"),
            F.count_if((is_fetch | is_acknowledge) & is_session_error).alias("session_errors"),
            F.count_if(is_decoded(_HEARTBEAT)).alias("heartbeats"),
            F.min("ts").alias("first_at"),
            F.max("ts").alias("last_at"),
        )
    )
    return table.orderBy(F.desc("refused"), F.desc("records"), "group_id", "client", "cluster")


def _sum_over_topics(name: str) -> Column:
    zero = F.lit(0).cast("long")
    return F.aggregate(
        array_or_empty(F.col("topics")), zero, lambda total, entry: total + F.coalesce(entry[name], zero)
    )
