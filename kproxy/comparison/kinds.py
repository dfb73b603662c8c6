"""Kinds of values that brokers, clients or the clock choose, and that differ between two runs of the same client."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from dissectors.wire.layout import NULL_UUID


class ValueKind(StrEnum):
    """What a value stands for. Two values of a kind can correspond to each other without being equal."""

    ADDRESS = "address"
    CHECKSUM = "checksum"
    CLUSTER_ID = "cluster id"
    CORRELATION_ID = "correlation id"
    DIRECTORY = "directory"
    EPOCH = "epoch"
    ERROR_MESSAGE = "error message"
    GENERATION = "generation"
    INSTANCE_ID = "instance id"
    MEMBER_ID = "member id"
    NODE_ID = "node id"
    OFFSET = "offset"
    PARTITION = "partition"
    PRODUCER_EPOCH = "producer epoch"
    PRODUCER_ID = "producer id"
    SESSION_EPOCH = "session epoch"
    SESSION_ID = "session id"
    SIZE = "size"
    THROTTLE_TIME = "throttle time"
    TIME = "time"
    TOKEN_ID = "token id"  # noqa: S105
    TOPIC_ID = "topic id"


#: Kinds whose values are compared only on request. Offsets are compared: two runs on new topics have the same ones.
MAY_DIFFER: Final = frozenset(ValueKind) - {ValueKind.OFFSET}

#: Kinds without a value that means "none": all their values correspond to each other.
_NEVER_UNSET: Final = frozenset({ValueKind.ERROR_MESSAGE, ValueKind.SIZE, ValueKind.THROTTLE_TIME})
_UNSET: Final = (None, "", -1, NULL_UUID)

_FIELDS: Final[dict[ValueKind, str]] = {
    ValueKind.ADDRESS: "client_host client_host_address host port user_endpoint",
    ValueKind.CHECKSUM: "crc",
    ValueKind.CLUSTER_ID: "cluster_id",
    ValueKind.CORRELATION_ID: "correlation_id",
    ValueKind.DIRECTORY: (
        "candidate_directory_id cordoned_log_dirs log_dir log_dirs offline_log_dirs path replica_directory_id "
        "voter_directory_id"
    ),
    ValueKind.EPOCH: (
        "broker_epoch committed_leader_epoch controller_epoch coordinator_epoch current_leader_epoch "
        "finalized_features_epoch last_fetched_epoch last_offset_epoch leader_epoch partition_epoch "
        "partition_leader_epoch previous_broker_epoch replica_epoch state_epoch"
    ),
    ValueKind.ERROR_MESSAGE: "acknowledge_error_message batch_index_error_message error_message reason status_detail",
    ValueKind.GENERATION: (
        "assignment_epoch endpoint_information_epoch generation generation_id generation_id_or_member_epoch "
        "group_epoch member_epoch topology_epoch"
    ),
    ValueKind.INSTANCE_ID: "client_instance_id incarnation_id process_id subscription_id",
    ValueKind.MEMBER_ID: "member_id",
    ValueKind.NODE_ID: (
        "adding_replicas broker_id broker_ids candidate_id controller_id eligible_leader_replicas isr "
        "isr_nodes last_known_elr leader leader_id new_isr node_id offline_replicas preferred_read_replica "
        "preferred_successors removing_replicas replica_id replica_nodes replicas voter_id"
    ),
    ValueKind.OFFSET: (
        "base_offset committed_offset current_txn_start_offset end_offset fetch_offset first_offset "
        "high_watermark lag last_offset last_sequence last_stable_offset log_end_offset log_start_offset low_watermark "
        "offset old_style_offsets start_offset"
    ),
    ValueKind.PRODUCER_EPOCH: (
        "next_producer_epoch ongoing_txn_producer_epoch producer_epoch v3_and_below_producer_epoch"
    ),
    ValueKind.PRODUCER_ID: (
        "next_producer_id ongoing_txn_producer_id previous_producer_id producer_id producer_id_filters "
        "producer_id_start v3_and_below_producer_id"
    ),
    ValueKind.SESSION_EPOCH: "session_epoch share_session_epoch",
    ValueKind.SESSION_ID: "session_id",
    ValueKind.SIZE: "batch_length offset_lag partition_size total_bytes usable_bytes",
    ValueKind.THROTTLE_TIME: "throttle_time_ms",
    ValueKind.TIME: (
        "base_timestamp commit_timestamp current_state_timestamp expire_timestamp expiry_timestamp "
        "expiry_timestamp_ms issue_timestamp issue_timestamp_ms last_caught_up_timestamp last_fetch_timestamp "
        "last_timestamp log_append_time_ms max_timestamp max_timestamp_ms timeout_ms timestamp "
        "transaction_start_time_ms"
    ),
    ValueKind.TOKEN_ID: "token_id",
    ValueKind.TOPIC_ID: "topic_id",
}
_BY_FIELD: Final = {name: kind for kind, names in _FIELDS.items() for name in names.split()}

#: (message or payload, field) -> kind, for fields whose name has a different meaning there than elsewhere.
_IN_MESSAGE: Final[dict[tuple[str, str], ValueKind | None]] = {
    ("ConnectAssignment", "leader"): ValueKind.MEMBER_ID,
    ("CreateAclsRequest", "host"): None,  # the hosts that an ACL is for
    ("DeleteAclsResponse", "host"): None,
    ("DescribeAclsResponse", "host"): None,
    ("FetchResponse", "epoch"): ValueKind.EPOCH,
    ("JoinGroupResponse", "leader"): ValueKind.MEMBER_ID,
    ("ListOffsetsRequest", "replica_id"): None,  # -1 for every client
    ("FetchRequest", "replica_id"): None,
    ("ProduceRequest", "timeout_ms"): None,  # in other requests it is the remaining time
    # The partitions that a member of a group has been assigned.
    ("ConsumerProtocolAssignment", "partitions"): ValueKind.PARTITION,
    ("ConsumerProtocolSubscription", "partitions"): ValueKind.PARTITION,
    ("ListOffsetsRequest", "partition_index"): ValueKind.PARTITION,
    ("ListOffsetsResponse", "partition_index"): ValueKind.PARTITION,
    ("OffsetFetchRequest", "partition_indexes"): ValueKind.PARTITION,
    ("OffsetFetchResponse", "partition_index"): ValueKind.PARTITION,
    ("OffsetForLeaderEpochRequest", "partition"): ValueKind.PARTITION,
    ("OffsetForLeaderEpochResponse", "partition"): ValueKind.PARTITION,
}


def kind_of(message: str, field: str) -> ValueKind | None:
    """Return the kind of a field's value or array elements; None if equal runs have equal values.

    Args:
        message: The message or payload that has the field: ``JoinGroupResponse``, ``ConsumerProtocolSubscription``.
        field: Its name, without the path: ``member_id``.
    """
    key = (message, field)
    return _IN_MESSAGE[key] if key in _IN_MESSAGE else _BY_FIELD.get(field)


def is_unset(kind: ValueKind, value: Any) -> bool:
    """Whether the value stands for "no value", e.g. a producer id of -1. It corresponds only to another unset value."""
    if kind in _NEVER_UNSET:
        return False
    if kind is ValueKind.TIME and isinstance(value, int):
        return value < 0  # ListOffsets has -1 to -5
    return value in _UNSET or (kind is ValueKind.SESSION_ID and value == 0)
