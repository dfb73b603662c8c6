"""The groups of clients, derived from the requests of group members."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.sentences import host

_APIS: Final = ("JoinGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat")


def memberships(lines: DataFrame) -> DataFrame:
    """Return the group of each client on a host: cluster, client, host, member_group (null if it is in several)."""
    requests = lines.where((F.col("kind") == "request") & F.col("api").isin(*_APIS) & (F.col("group_id") != ""))
    groups = requests.groupBy("cluster", client_name().alias("client"), host(F.col("client")).alias("host")).agg(
        F.min("group_id").alias("lowest"), F.max("group_id").alias("highest")
    )
    return groups.select(
        "cluster", "client", "host", F.when(F.col("lowest") == F.col("highest"), F.col("lowest")).alias("member_group")
    )
