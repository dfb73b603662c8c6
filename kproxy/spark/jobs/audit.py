"""Audit: what each principal did to which topics and groups, and what was denied to it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.schemas.codes import Error
from dissectors.trackers.answered_apis import DISCOVERY_APIS
from kproxy.spark.columns import array_or_empty, client_name, is_decoded, topic_name, topic_names
from kproxy.spark.derived.topic_errors import topic_index
from kproxy.spark.jobs import job
from kproxy.spark.sentences import host

#: The APIs that change topics, configuration, permissions, credentials, quotas, offsets of groups, or the cluster.
ADMINISTRATIVE: Final = (
    "AddRaftVoter", "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments", "AlterReplicaLogDirs",
    "AlterShareGroupOffsets", "AlterUserScramCredentials", "CreateAcls", "CreateDelegationToken", "CreatePartitions",
    "CreateTopics", "DeleteAcls", "DeleteGroups", "DeleteRecords", "DeleteShareGroupOffsets", "DeleteTopics",
    "ElectLeaders", "ExpireDelegationToken", "IncrementalAlterConfigs", "OffsetDelete", "RemoveRaftVoter",
    "RenewDelegationToken", "UnregisterBroker", "UpdateFeatures",
)  # fmt: skip
#: The errors that a broker returns to a principal without the permission.
DENIALS: Final = tuple(error.name for error in Error if error.name.endswith("_AUTHORIZATION_FAILED"))
#: The maximum number of clients, and of hosts, that a row lists.
_MAX_NAMED: Final = 10


@job("what each principal did to which topics and groups, who administered what, and what was denied")
def audit(lines: DataFrame) -> DataFrame:
    """Report the requests of each principal by API, topic and group: who may do what, who does it, and who is denied.

    Metadata, FindCoordinator, telemetry and log-in are left out: every client sends them. A Fetch request in a session
    (KIP-227) names only topics that it adds, but its responses name those with data.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, api_key, principal, client_id, client, topics, group_id, errors and
            not_decoded of requests and responses.

    Returns:
        One row per principal, API, topic and group. Administrative APIs first, then most denials.

        - principal (string): the principal that has logged in, as the trace has it; null if none has
        - api (string): the API
        - administers (boolean): whether the API changes topics, configuration, permissions, credentials, quotas,
          offsets of groups, or the cluster
        - topic (string): a topic that a request or response names, or its id if the name is unknown; null if it names
          none
        - group_id (string): the group; null if the API is not about one
        - requests (bigint, requests): requests
        - responses (bigint, responses): decoded responses
        - failed (bigint, responses): those with an error of this topic or of the whole request
        - denied (bigint, responses): those with an error ending in ``_AUTHORIZATION_FAILED``, likewise
        - error (string): the most frequent error; null without one
        - clients (array<string>): the clients, in alphabetical order, ten at most; their hosts if they have no
          client id
        - hosts (array<string>): the hosts that they used, likewise
        - first_at (timestamp, UTC): the first frame
        - last_at (timestamp, UTC): the last frame
    """
    frames = lines.where(
        F.col("kind").isin("request", "response") & F.col("api").isNotNull() & ~F.col("api_key").isin(*DISCOVERY_APIS)
    )
    topics = F.when(F.size(topic_names()) > 0, topic_names()).otherwise(F.array(F.lit(None).cast("string")))
    frames_by_topic = frames.select(
        "cluster", "kind", "ts", "principal", "api", "group_id", "errors", "topics", is_decoded().alias("decoded"),
        client_name().alias("client"), host(F.col("client")).alias("host"), F.explode(topics).alias("topic"),
    ).withColumn("names", _topic_error_names())  # fmt: skip
    is_denied = F.exists("names", lambda name: name.isin(*DENIALS))
    table = frames_by_topic.groupBy("cluster", "principal", "api", "topic", "group_id").agg(
        F.count_if(F.col("kind") == "request").alias("requests"),
        F.count_if("decoded").alias("responses"),
        F.count_if(F.col("decoded") & (F.size("names") > 0)).alias("failed"),
        F.count_if(F.col("decoded") & is_denied).alias("denied"),
        F.mode(F.get("names", F.lit(0)), True).alias("error"),
        _some_names("client").alias("clients"),
        _some_names("host").alias("hosts"),
        F.min("ts").alias("first_at"),
        F.max("ts").alias("last_at"),
    )
    administers = F.col("api").isin(*ADMINISTRATIVE).alias("administers")
    return table.select(
        "cluster", "principal", "api", administers, "topic", "group_id", "requests", "responses", "failed", "denied",
        "error", "clients", "hosts", "first_at", "last_at",
    ).orderBy(
        F.desc("administers"), F.desc("denied"), F.asc_nulls_last("principal"), "api", "topic", "group_id", "cluster"
    )  # fmt: skip


def _topic_error_names() -> Column:
    """Return the names of the errors about a topic, and of the errors that are about no topic."""

    def is_own(error: Column) -> Column:
        index = topic_index(error)
        return index.isNull() | (topic_name(F.get("topics", index)) == F.col("topic"))

    own_errors = F.filter("errors", is_own)
    return array_or_empty(F.transform(own_errors, lambda error: error["name"]))


def _some_names(column: str) -> Column:
    return F.slice(F.array_sort(F.collect_set(column)), 1, _MAX_NAMED)
