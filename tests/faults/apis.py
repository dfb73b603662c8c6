"""Tested APIs: the errors that Kafka's handlers return, layout edits, and the client workloads that send the APIs.

Sources: "Possible error codes" of Kafka's `*Response` classes, `KafkaApis`, `ControllerApis`, and the group, share and
transaction coordinators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: The names of the clients, as `--clients` takes them.
LIBRDKAFKA, FRANZ, JAVA = "librdkafka", "franz-go", "java"
CLIENTS: Final = (LIBRDKAFKA, FRANZ, JAVA)


@dataclass(frozen=True, slots=True)
class TestedApi:
    """An API to test.

    Attributes:
        name: The name of the API in Kafka.
        errors: Names of errors; they are assigned to the clients in this order.
        workloads: The workload that sends the API, by client; clients that never send it are missing.
        empty: The array, in the notation of quirks, that is empty in an empty response.
        layout: A layout edit, in the notation of quirks, that clients notice; "" for no such test.
        options: Options of the broker.
    """

    name: str
    errors: tuple[str, ...]
    workloads: Mapping[str, str]
    empty: str = ""
    layout: str = "missing:throttle_time_ms"
    options: tuple[str, ...] = field(default=())


_SASL: Final = ("--sasl", "PLAIN", "--user", "alice:secret")


def _api(name: str, errors: str, workloads: str | Mapping[str, str], **more: str | tuple[str, ...]) -> TestedApi:
    if isinstance(workloads, str):
        workloads = dict.fromkeys(CLIENTS, workloads)
    return TestedApi(name, tuple(errors.split()), workloads, **more)  # type: ignore[arg-type]


def _admin(name: str, errors: str, *clients: str, **more: str) -> TestedApi:
    return _api(name, errors, dict.fromkeys(clients or CLIENTS, name), **more)


APIS: Final = (
    _api(
        "Produce",
        "NOT_ENOUGH_REPLICAS REQUEST_TIMED_OUT KAFKA_STORAGE_ERROR INVALID_RECORD NOT_LEADER_OR_FOLLOWER"
        " MESSAGE_TOO_LARGE UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED NOT_ENOUGH_REPLICAS_AFTER_APPEND"
        " CORRUPT_MESSAGE RECORD_LIST_TOO_LARGE INVALID_TIMESTAMP POLICY_VIOLATION INVALID_REQUIRED_ACKS"
        " LEADER_NOT_AVAILABLE UNSUPPORTED_FOR_MESSAGE_FORMAT UNKNOWN_SERVER_ERROR",
        "produce",
        empty="responses",
        layout="missing:responses[].partition_responses[].base_offset",
    ),
    _api(
        "Produce",
        "OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID INVALID_PRODUCER_EPOCH CLUSTER_AUTHORIZATION_FAILED",
        "idempotent",
        layout="",
    ),
    _api("Produce", "INVALID_TXN_STATE TRANSACTION_ABORTABLE INVALID_PRODUCER_ID_MAPPING", "transactions", layout=""),
    _api(
        "Fetch",
        "CORRUPT_MESSAGE KAFKA_STORAGE_ERROR UNKNOWN_TOPIC_OR_PARTITION OFFSET_OUT_OF_RANGE NOT_LEADER_OR_FOLLOWER"
        " TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE"
        " UNKNOWN_TOPIC_ID REPLICA_NOT_AVAILABLE UNSUPPORTED_COMPRESSION_TYPE INCONSISTENT_TOPIC_ID",
        "read",
        empty="responses",
        layout="missing:responses[].partitions[].log_start_offset",
    ),
    _api(
        "ListOffsets",
        "LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED"
        " OFFSET_NOT_AVAILABLE KAFKA_STORAGE_ERROR UNKNOWN_SERVER_ERROR FENCED_LEADER_EPOCH",
        {LIBRDKAFKA: "watermarks", FRANZ: "ListOffsets", JAVA: "consume"},
        empty="topics",
    ),
    _api(
        "Metadata",
        "LEADER_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION"
        " UNKNOWN_SERVER_ERROR REPLICA_NOT_AVAILABLE",
        {LIBRDKAFKA: "produce", FRANZ: "consume", JAVA: "idempotent"},
        empty="brokers",
        layout="missing:controller_id",
    ),
    _api(
        "OffsetCommit",
        "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE UNKNOWN_MEMBER_ID ILLEGAL_GENERATION GROUP_AUTHORIZATION_FAILED"
        " COORDINATOR_LOAD_IN_PROGRESS OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE INVALID_GROUP_ID"
        " UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR REBALANCE_IN_PROGRESS",
        "consume",
        empty="topics",
    ),
    _api("OffsetCommit", "FENCED_INSTANCE_ID", "static", layout=""),
    _api("OffsetCommit", "STALE_MEMBER_EPOCH", {FRANZ: "next-generation"}, layout=""),
    _api(
        "OffsetFetch",
        "COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED UNSTABLE_OFFSET_COMMIT"
        " INVALID_GROUP_ID UNKNOWN_MEMBER_ID TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION",
        "consume",
    ),
    _api(
        "FindCoordinator",
        "COORDINATOR_NOT_AVAILABLE GROUP_AUTHORIZATION_FAILED COORDINATOR_LOAD_IN_PROGRESS INVALID_GROUP_ID"
        " UNKNOWN_SERVER_ERROR INVALID_REQUEST",
        "consume",
        layout="moved:throttle_time_ms:last",
    ),
    _api(
        "FindCoordinator", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED COORDINATOR_NOT_AVAILABLE", "transactions", layout=""
    ),
    _api(
        "JoinGroup",
        "COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED INCONSISTENT_GROUP_PROTOCOL"
        " INVALID_SESSION_TIMEOUT UNKNOWN_MEMBER_ID GROUP_MAX_SIZE_REACHED COORDINATOR_NOT_AVAILABLE INVALID_GROUP_ID"
        " MEMBER_ID_REQUIRED REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_SERVER_ERROR",
        "consume",
        layout="moved:throttle_time_ms:last",
    ),
    _api("JoinGroup", "FENCED_INSTANCE_ID", "static", layout=""),
    _api(
        "SyncGroup",
        "REBALANCE_IN_PROGRESS NOT_COORDINATOR UNKNOWN_MEMBER_ID ILLEGAL_GENERATION GROUP_AUTHORIZATION_FAILED"
        " COORDINATOR_NOT_AVAILABLE INCONSISTENT_GROUP_PROTOCOL COORDINATOR_LOAD_IN_PROGRESS UNKNOWN_SERVER_ERROR",
        "consume",
    ),
    _api("SyncGroup", "FENCED_INSTANCE_ID", "static", layout=""),
    _api(
        "Heartbeat",
        "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
        " GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
        "consume",
    ),
    _api("Heartbeat", "FENCED_INSTANCE_ID", "static", layout=""),
    _api(
        "LeaveGroup",
        "UNKNOWN_MEMBER_ID COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED",
        {LIBRDKAFKA: "come-and-go", FRANZ: "come-and-go", JAVA: "LeaveGroup"},
    ),
    _api(
        "ConsumerGroupHeartbeat",
        "COORDINATOR_NOT_AVAILABLE UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH GROUP_AUTHORIZATION_FAILED INVALID_REQUEST"
        " NOT_COORDINATOR UNSUPPORTED_ASSIGNOR COORDINATOR_LOAD_IN_PROGRESS GROUP_MAX_SIZE_REACHED UNSUPPORTED_VERSION"
        " UNRELEASED_INSTANCE_ID TOPIC_AUTHORIZATION_FAILED",
        "next-generation",
    ),
    _api(
        "ShareGroupHeartbeat",
        "COORDINATOR_NOT_AVAILABLE GROUP_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID INVALID_REQUEST GROUP_MAX_SIZE_REACHED",
        {JAVA: "share"},
    ),
    _api(
        "ShareFetch",
        "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH TOPIC_AUTHORIZATION_FAILED NOT_LEADER_OR_FOLLOWER"
        " INVALID_REQUEST",
        {JAVA: "share"},
    ),
    _api("ShareAcknowledge", "INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND", {JAVA: "share"}),
    _api(
        "InitProducerId",
        "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR CONCURRENT_TRANSACTIONS"
        " INVALID_TRANSACTION_TIMEOUT TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED",
        "transactions",
    ),
    _api("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED COORDINATOR_LOAD_IN_PROGRESS", "idempotent", layout=""),
    _api(
        "AddPartitionsToTxn",
        "CONCURRENT_TRANSACTIONS COORDINATOR_NOT_AVAILABLE INVALID_TXN_STATE PRODUCER_FENCED TOPIC_AUTHORIZATION_FAILED"
        " INVALID_PRODUCER_ID_MAPPING UNKNOWN_TOPIC_OR_PARTITION NOT_COORDINATOR",
        "transactions",
        options=("--kafka", "3.9"),  # transactions version 2 does not need this API
    ),
    _api(
        "AddOffsetsToTxn",
        "CONCURRENT_TRANSACTIONS INVALID_TXN_STATE GROUP_AUTHORIZATION_FAILED COORDINATOR_LOAD_IN_PROGRESS",
        "offsets",
        options=("--kafka", "3.9"),
    ),
    _api(
        "TxnOffsetCommit",
        "UNKNOWN_MEMBER_ID GROUP_AUTHORIZATION_FAILED COORDINATOR_LOAD_IN_PROGRESS ILLEGAL_GENERATION"
        " INVALID_PRODUCER_EPOCH",
        "offsets",
    ),
    _api(
        "EndTxn",
        "CONCURRENT_TRANSACTIONS INVALID_TXN_STATE PRODUCER_FENCED COORDINATOR_NOT_AVAILABLE"
        " INVALID_PRODUCER_ID_MAPPING TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "transactions",
    ),
    _api(
        "ApiVersions",
        "UNKNOWN_SERVER_ERROR INVALID_REQUEST",
        "produce",
        empty="api_keys",
        layout="flexibility:fixed",
    ),
    _api(
        "SaslHandshake",
        "UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE",
        "produce",
        empty="mechanisms",
        layout="",
        options=_SASL,
    ),
    _api("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED", "produce", layout="missing:error_message", options=_SASL),
    _admin(
        "CreateTopics",
        "TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR POLICY_VIOLATION NOT_CONTROLLER"
        " TOPIC_AUTHORIZATION_FAILED INVALID_CONFIG INVALID_TOPIC_EXCEPTION REQUEST_TIMED_OUT THROTTLING_QUOTA_EXCEEDED"
        " INVALID_REPLICA_ASSIGNMENT INVALID_REQUEST",
        empty="topics",
    ),
    _admin(
        "DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION TOPIC_DELETION_DISABLED TOPIC_AUTHORIZATION_FAILED NOT_CONTROLLER"
    ),
    _admin("CreatePartitions", "INVALID_PARTITIONS TOPIC_AUTHORIZATION_FAILED REASSIGNMENT_IN_PROGRESS"),
    _admin("DeleteRecords", "POLICY_VIOLATION OFFSET_OUT_OF_RANGE NOT_LEADER_OR_FOLLOWER"),
    _admin("DescribeConfigs", "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION", empty="results"),
    _admin("AlterConfigs", "INVALID_CONFIG POLICY_VIOLATION", LIBRDKAFKA, FRANZ),
    _admin("IncrementalAlterConfigs", "INVALID_CONFIG TOPIC_AUTHORIZATION_FAILED INVALID_REQUEST"),
    _admin("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS CLUSTER_AUTHORIZATION_FAILED COORDINATOR_NOT_AVAILABLE"),
    _admin("DescribeGroups", "NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED COORDINATOR_NOT_AVAILABLE"),
    _admin("ConsumerGroupDescribe", "GROUP_ID_NOT_FOUND GROUP_AUTHORIZATION_FAILED", FRANZ, JAVA),
    _admin("DeleteGroups", "NON_EMPTY_GROUP GROUP_ID_NOT_FOUND GROUP_AUTHORIZATION_FAILED"),
    _admin("OffsetDelete", "GROUP_SUBSCRIBED_TO_TOPIC GROUP_ID_NOT_FOUND", FRANZ, JAVA),
    _admin("OffsetForLeaderEpoch", "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH", FRANZ),
    _admin("DescribeAcls", "SECURITY_DISABLED CLUSTER_AUTHORIZATION_FAILED"),
    _admin("CreateAcls", "SECURITY_DISABLED CLUSTER_AUTHORIZATION_FAILED INVALID_REQUEST"),
    _admin("DeleteAcls", "SECURITY_DISABLED CLUSTER_AUTHORIZATION_FAILED"),
    _admin("DescribeLogDirs", "CLUSTER_AUTHORIZATION_FAILED KAFKA_STORAGE_ERROR", FRANZ, JAVA),
    _admin("AlterReplicaLogDirs", "LOG_DIR_NOT_FOUND", FRANZ, JAVA),
    _admin("ListPartitionReassignments", "CLUSTER_AUTHORIZATION_FAILED NOT_CONTROLLER", FRANZ, JAVA),
    _admin("AlterPartitionReassignments", "INVALID_REPLICA_ASSIGNMENT NO_REASSIGNMENT_IN_PROGRESS", FRANZ, JAVA),
    _admin("DescribeProducers", "NOT_LEADER_OR_FOLLOWER TOPIC_AUTHORIZATION_FAILED", FRANZ, JAVA),
    _admin("DescribeTransactions", "TRANSACTIONAL_ID_NOT_FOUND TRANSACTIONAL_ID_AUTHORIZATION_FAILED", FRANZ, JAVA),
    _admin("ListTransactions", "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE", FRANZ, JAVA),
    _admin("DescribeClientQuotas", "CLUSTER_AUTHORIZATION_FAILED", FRANZ, JAVA),
    _admin("AlterClientQuotas", "INVALID_REQUEST CLUSTER_AUTHORIZATION_FAILED", FRANZ, JAVA),
    _admin("DescribeUserScramCredentials", "RESOURCE_NOT_FOUND CLUSTER_AUTHORIZATION_FAILED"),
    _admin("AlterUserScramCredentials", "UNACCEPTABLE_CREDENTIAL RESOURCE_NOT_FOUND"),
    _admin("ElectLeaders", "PREFERRED_LEADER_NOT_AVAILABLE ELECTION_NOT_NEEDED"),
    _admin("UpdateFeatures", "FEATURE_UPDATE_FAILED INVALID_UPDATE_VERSION", FRANZ, JAVA),
    _admin("DescribeCluster", "CLUSTER_AUTHORIZATION_FAILED", FRANZ, JAVA),
    _admin("DescribeQuorum", "CLUSTER_AUTHORIZATION_FAILED", FRANZ, JAVA, layout="missing:error_code"),
    _admin("DescribeTopicPartitions", "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION", JAVA),
    _admin("CreateDelegationToken", "DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", FRANZ, JAVA),
    _admin("RenewDelegationToken", "DELEGATION_TOKEN_NOT_FOUND", FRANZ, JAVA),
)
