"""The tables of annotations, by field name and by message and field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dissectors import schemas
from dissectors.messages.value_annotations.times import LAST_MS, utc

#: Takes a number, a boolean or a string; returns its meaning in words, or None if it needs no explanation.
Annotator = Callable[[Any], str | None]

_NOT_REQUESTED = -(1 << 31)


def _time_text(value: Any) -> str | None:
    if value == -1:
        return "none"
    return utc(value) if isinstance(value, int) and 0 < value <= LAST_MS else None


def _list_offsets_timestamp(value: Any) -> str | None:
    return schemas.enum("list_offsets_timestamp").get(value) or _time_text(value)


def error(value: Any) -> str | None:
    """Return the name of an error code."""
    return schemas.error_name(value) or f"unknown error code {value}"


def _api_name(value: Any) -> str | None:
    api = schemas.api(value)
    return api.name if api else None


def _operation_names(value: Any) -> str | None:
    if not isinstance(value, int):
        return None
    if value == _NOT_REQUESTED:
        return "not requested"
    return ", ".join(label for code, label in schemas.enum("acl_operation").items() if value >> code & 1) or "none"


def _enum_annotator(name: str) -> Annotator:
    """Return an annotator for an enum of the schemas, which is loaded at the first lookup."""
    return lambda value: schemas.enum(name).get(value)


def _table_annotator(table: Mapping[int | str | bool, str]) -> Annotator:
    return table.get


def _minus_one_annotator(text: str) -> Annotator:
    return _table_annotator({-1: text})


#: Annotators by field name, for all messages.
FIELDS: dict[str, Annotator] = {
    "accepted_compression_types": _enum_annotator("compression_codec"),
    "acknowledge_types": _enum_annotator("share_acknowledge_type"),
    "acks": _table_annotator({-1: "all in-sync replicas", 0: "none, and no response", 1: "the leader"}),
    "authorized_operations": _operation_names,
    "base_sequence": _minus_one_annotator("none"),
    "cluster_authorized_operations": _operation_names,
    "committed": _table_annotator({True: "COMMIT", False: "ABORT"}),
    "committed_leader_epoch": _minus_one_annotator("not known"),
    "compression_type": _enum_annotator("compression_codec"),
    "config_operation": _enum_annotator("alter_config_op"),
    "config_source": _enum_annotator("config_source"),
    "config_type": _enum_annotator("config_type"),
    "controller_id": _minus_one_annotator("none"),
    "current_leader_epoch": _minus_one_annotator("not known"),
    "current_txn_start_offset": _minus_one_annotator("no transaction open"),
    "delivery_state": _table_annotator(
        {0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 3: "ARCHIVING", 4: "ARCHIVED"}
    ),
    "election_type": _enum_annotator("election_type"),
    "endpoint_type": _enum_annotator("endpoint_type"),
    "expiry_time_period_ms": _minus_one_annotator("expire now"),
    "fenced": _enum_annotator("broker_fencing_change"),
    "generation_id": _minus_one_annotator("none"),
    "generation_id_or_member_epoch": _minus_one_annotator("none: not a member"),
    "group_state": _table_annotator(
        {
            "PreparingRebalance": "waiting for the members to join",
            "CompletingRebalance": "waiting for the leader's assignment",
            "Stable": "every member has its assignment",
            "Assigning": "a new assignment is being made",
            "Reconciling": "members are moving to the new assignment",
            "Empty": "no members",
            "Dead": "no such group",
        }
    ),
    "in_controlled_shutdown": _enum_annotator("broker_controlled_shutdown_change"),
    "isolation_level": _enum_annotator("isolation_level"),
    "key_type": _enum_annotator("coordinator_type"),
    "last_fetched_epoch": _minus_one_annotator("none"),
    "last_sequence": _minus_one_annotator("none"),
    "leader": _table_annotator({-1: "none", -2: "as before"}),
    "leader_epoch": _minus_one_annotator("not known"),
    "leader_id": _minus_one_annotator("none"),
    "leader_recovery_state": _enum_annotator("leader_recovery_state"),
    "match_type": _table_annotator(
        {0: "the entity with this name", 1: "the default entity", 2: "any entity with a name"}
    ),
    "max_lifetime_ms": _minus_one_annotator("the broker's default"),
    "mechanism": _enum_annotator("scram_mechanism"),
    "member_type": _table_annotator({-1: "unknown", 0: "classic", 1: "consumer"}),
    "next_producer_id": _minus_one_annotator("none"),
    "num_partitions": _minus_one_annotator("the broker's default"),
    "operation": _enum_annotator("acl_operation"),
    "partition_leader_epoch": _minus_one_annotator("none"),
    "pattern_type": _enum_annotator("pattern_type"),
    "pattern_type_filter": _enum_annotator("pattern_type"),
    "permission_type": _enum_annotator("acl_permission_type"),
    "preferred_read_replica": _minus_one_annotator("the leader"),
    "previous_producer_id": _minus_one_annotator("none"),
    "producer_epoch": _minus_one_annotator("none"),
    "producer_id": _minus_one_annotator("none"),
    "remote_log_segment_state": _table_annotator(
        {
            0: "COPY_SEGMENT_STARTED",
            1: "COPY_SEGMENT_FINISHED",
            2: "DELETE_SEGMENT_STARTED",
            3: "DELETE_SEGMENT_FINISHED",
        }
    ),
    "remote_partition_delete_state": _table_annotator(
        {0: "DELETE_PARTITION_MARKED", 1: "DELETE_PARTITION_STARTED", 2: "DELETE_PARTITION_FINISHED"}
    ),
    "renew_period_ms": _minus_one_annotator("the broker's default"),
    "replication_factor": _minus_one_annotator("the broker's default"),
    "request_api_key": _api_name,
    "resource_pattern_type": _enum_annotator("pattern_type"),
    "resource_type": _enum_annotator("resource_type"),
    "resource_type_filter": _enum_annotator("resource_type"),
    "resource_types": _enum_annotator("config_resource_type"),
    "retention_time_ms": _minus_one_annotator("the broker's default"),
    "security_protocol": _enum_annotator("security_protocol"),
    "session_id": _table_annotator({0: "no session"}),
    "share_acquire_mode": _enum_annotator("share_acquire_mode"),
    "share_session_epoch": _enum_annotator("share_session_epoch"),
    "topic_authorized_operations": _operation_names,
    "topology_description_status": _enum_annotator("streams_topology_description_status"),
    "transaction_result": _table_annotator({True: "COMMIT", False: "ABORT"}),
    "transaction_status": _enum_annotator("transaction_log_state"),
    "upgrade_type": _enum_annotator("feature_upgrade_type"),
    "zk_migration_state": _table_annotator({0: "NONE", 1: "MIGRATION", 2: "PRE_MIGRATION", 3: "POST_MIGRATION"}),
}
FIELDS |= dict.fromkeys(
    (
        "assignment_timestamp",
        "base_timestamp",
        "commit_timestamp",
        "create_timestamp",
        "current_state_timestamp",
        "event_timestamp_ms",
        "expiration_timestamp",
        "expire_timestamp",
        "expiry_timestamp",
        "expiry_timestamp_ms",
        "issue_timestamp",
        "issue_timestamp_ms",
        "last_caught_up_timestamp",
        "last_contained_log_timestamp",
        "last_fetch_timestamp",
        "last_timestamp",
        "log_append_time_ms",
        "max_timestamp",
        "max_timestamp_ms",
        "next_rebalance_ms",
        "timestamp",
        "transaction_last_update_timestamp_ms",
        "transaction_start_time_ms",
        "transaction_start_timestamp_ms",
        "write_timestamp",
    ),
    _time_text,
)

_config_resource = _enum_annotator("config_resource_type")
_assignor_error = _table_annotator(
    {
        0: "NONE",
        1: "INCOMPLETE_SOURCE_TOPIC_METADATA",
        2: "VERSION_PROBING",
        3: "ASSIGNMENT_ERROR",
        4: "SHUTDOWN_REQUESTED",
    }
)
_member_state = _table_annotator({0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS", 127: "UNKNOWN"})
_metadata_kind = _table_annotator({0: "unknown", 1: "incremental", 2: "full"})

#: Annotators for fields whose name has another meaning, or needs an explanation, only in one message.
IN_MESSAGE: dict[tuple[str, str], Annotator] = {
    ("ApiVersionsResponse", "api_key"): _api_name,
    ("AlterConfigsRequest", "resource_type"): _config_resource,
    ("AlterConfigsResponse", "resource_type"): _config_resource,
    ("AssignmentInfo", "error_code"): _assignor_error,
    ("ConfigRecord", "resource_type"): _config_resource,
    ("ConnectAssignment", "error"): _table_annotator({0: "NO_ERROR", 1: "CONFIG_MISMATCH"}),
    ("ConnectAssignment", "tasks"): _minus_one_annotator("the connector itself"),
    ("ConsumerGroupCurrentMemberAssignmentValue", "state"): _member_state,
    ("ConsumerGroupHeartbeatRequest", "member_epoch"): _enum_annotator("consumer_group_member_epoch"),
    ("ConsumerGroupHeartbeatRequest", "rebalance_timeout_ms"): _minus_one_annotator("as before"),
    ("ControlRecordTypeSchema", "type"): _enum_annotator("control_record_type"),
    ("DescribeConfigsRequest", "resource_type"): _config_resource,
    ("DescribeConfigsResponse", "resource_type"): _config_resource,
    ("DescribeConfigsResponse", "source"): _enum_annotator("config_source"),
    ("FetchRequest", "replica_id"): _enum_annotator("fetch_replica_id"),
    ("FetchRequest", "session_epoch"): _enum_annotator("fetch_session_epoch"),
    ("FetchSnapshotRequest", "replica_id"): _enum_annotator("fetch_replica_id"),
    ("IncrementalAlterConfigsRequest", "resource_type"): _config_resource,
    ("IncrementalAlterConfigsResponse", "resource_type"): _config_resource,
    ("JoinGroupRequest", "member_id"): _table_annotator({"": "a new member"}),
    ("LeaderAndIsrRequest", "type"): _metadata_kind,
    ("ListConfigResourcesResponse", "resource_type"): _config_resource,
    ("ListOffsetsRequest", "replica_id"): _enum_annotator("fetch_replica_id"),
    ("ListOffsetsRequest", "timestamp"): _list_offsets_timestamp,
    ("ListOffsetsResponse", "offset"): _minus_one_annotator("none found"),
    ("ListTransactionsRequest", "duration_filter"): _minus_one_annotator("any"),
    ("OffsetCommitRequest", "commit_timestamp"): lambda value: (
        "the broker's time" if value == -1 else _time_text(value)
    ),
    ("OffsetFetchResponse", "committed_offset"): _minus_one_annotator("none committed"),
    ("OffsetForLeaderEpochRequest", "replica_id"): _enum_annotator("fetch_replica_id"),
    ("ProduceResponse", "log_append_time_ms"): lambda value: "the producer's" if value == -1 else _time_text(value),
    ("ShareGroupCurrentMemberAssignmentValue", "state"): _member_state,
    ("ShareGroupHeartbeatRequest", "member_epoch"): _enum_annotator("share_group_member_epoch"),
    ("StreamsGroupCurrentMemberAssignmentValue", "state"): _table_annotator(
        {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS", 127: "UNKNOWN"}
    ),
    ("StreamsGroupHeartbeatRequest", "member_epoch"): _enum_annotator("streams_group_member_epoch"),
    ("StreamsGroupHeartbeatRequest", "rebalance_timeout_ms"): _minus_one_annotator("as before"),
    ("StreamsGroupHeartbeatResponse", "status_code"): _enum_annotator("streams_group_status"),
    ("SubscriptionInfoData", "error_code"): _assignor_error,
    ("SubscriptionInfoData", "offset_sum"): _table_annotator({-2: "LATEST_OFFSET", -3: "UNKNOWN_OFFSET_SUM"}),
    ("UpdateMetadataRequest", "type"): _metadata_kind,
}

#: (message, field) -> meaning of null, meaning of an empty array.
ABSENT: dict[tuple[str, str], tuple[str | None, str | None]] = {
    ("AlterClientQuotasRequest", "entity_name"): ("the default entity", None),
    ("AlterPartitionReassignmentsRequest", "replicas"): ("cancel the reassignment", None),
    ("ConsumerGroupHeartbeatRequest", "subscribed_topic_names"): ("as before", None),
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"): ("as before", "owns none"),
    ("CreatePartitionsRequest", "assignments"): ("the controller chooses", None),
    ("CreateTopicsRequest", "assignments"): (None, "the controller chooses"),
    ("DescribeClientQuotasRequest", "components"): (None, "all quotas"),
    ("DescribeClientQuotasResponse", "entity_name"): ("the default entity", None),
    ("DescribeConfigsRequest", "configuration_keys"): ("all configurations", None),
    ("DescribeDelegationTokenRequest", "owners"): ("all owners", None),
    ("DescribeLogDirsRequest", "topics"): ("all topics", None),
    ("DescribeUserScramCredentialsRequest", "users"): ("all users", "all users"),
    ("ElectLeadersRequest", "topic_partitions"): ("all partitions", None),
    ("ListConfigResourcesRequest", "resource_types"): (None, "all types"),
    ("ListGroupsRequest", "states_filter"): (None, "all states"),
    ("ListGroupsRequest", "types_filter"): (None, "all types"),
    ("ListPartitionReassignmentsRequest", "topics"): ("all partitions", None),
    ("ListTransactionsRequest", "producer_id_filters"): (None, "all producers"),
    ("ListTransactionsRequest", "state_filters"): (None, "all states"),
    ("MetadataRequest", "topics"): ("all topics", "no topics"),
    ("OffsetFetchRequest", "topics"): ("all topics", None),
    ("ShareGroupHeartbeatRequest", "subscribed_topic_names"): ("as before", None),
}
ABSENT |= {
    (message, name): ("any", None)
    for message in ("DescribeAclsRequest", "DeleteAclsRequest")
    for name in ("resource_name_filter", "principal_filter", "host_filter")
}
