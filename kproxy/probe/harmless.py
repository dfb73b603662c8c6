"""Well-formed requests, one for every API, that change nothing on a broker, whatever it implements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dissectors import schemas
from dissectors.wire.layout import layout

#: APIs that are not for clients (those between brokers and controllers), or that end a login or remove a broker.
NOT_FOR_CLIENTS: Final = frozenset({
    "AddRaftVoter", "AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs", "BeginQuorumEpoch",
    "BrokerHeartbeat", "BrokerRegistration", "ControlledShutdown", "ControllerRegistration", "DeleteShareGroupState",
    "EndQuorumEpoch", "Envelope", "FetchSnapshot", "InitializeShareGroupState", "LeaderAndIsr",
    "ReadShareGroupState", "ReadShareGroupStateSummary", "RemoveRaftVoter", "SaslAuthenticate",
    "SaslHandshake", "StopReplica", "UnregisterBroker", "UpdateMetadata", "UpdateRaftVoter", "Vote",
    "WriteShareGroupState", "WriteTxnMarkers",
})  # fmt: skip

_GROUP: Final = "kproxy-probe-no-such-group"
_TOKEN: Final = b"kproxy-probe-no-such-token"

#: API -> values of fields that must not have their defaults. Fields that a version lacks are left out.
_VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "AddOffsetsToTxn": {"transactional_id": _GROUP, "producer_id": -1, "group_id": _GROUP},
    "AddPartitionsToTxn": {"v3_and_below_transactional_id": _GROUP, "v3_and_below_producer_id": -1,
                           # Kafka never answers a request without a transaction.
                           "transactions": [{"transactional_id": _GROUP, "producer_id": -1, "producer_epoch": -1,
                                             "verify_only": True, "topics": []}]},
    "CreateDelegationToken": {"max_lifetime_ms": 1},
    "DescribeAcls": {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
                     "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1},  # ANY
    "DescribeTopicPartitions": {"response_partition_limit": 1},
    "ElectLeaders": {"topic_partitions": []},
    "EndTxn": {"transactional_id": _GROUP, "producer_id": -1},
    "ExpireDelegationToken": {"hmac": _TOKEN},
    "Fetch": {"max_wait_ms": 0},
    "FindCoordinator": {"key": _GROUP, "coordinator_keys": []},
    "Heartbeat": {"group_id": _GROUP, "member_id": "nobody"},
    "JoinGroup": {"group_id": "", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
                  "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
    "LeaveGroup": {"group_id": _GROUP, "member_id": "nobody"},
    "ListOffsets": {"replica_id": -1},
    "OffsetCommit": {"group_id": _GROUP, "member_id": "nobody", "generation_id_or_member_epoch": 1},
    "OffsetDelete": {"group_id": _GROUP},
    "OffsetForLeaderEpoch": {"replica_id": -1},
    "OffsetFetch": {"group_id": _GROUP, "topics": [], "groups": [{"group_id": _GROUP, "topics": []}]},
    "Produce": {"acks": 1, "timeout_ms": 1000},
    "RenewDelegationToken": {"hmac": _TOKEN},
    "SyncGroup": {"group_id": _GROUP, "member_id": "nobody", "generation_id": 1},
    "TxnOffsetCommit": {"transactional_id": _GROUP, "group_id": _GROUP, "producer_id": -1},
    "UpdateFeatures": {"validate_only": True},
}  # fmt: skip


def harmless_values(api: schemas.Api, version: int) -> dict[str, Any]:
    """Return the values of the request, as `dissectors.wire.encode.encode` takes them."""
    body = layout(f"{api.name}Request", version)
    field_names = {field.name for field in (*body.fields, *body.tagged)}
    return {name: value for name, value in _VALUES.get(api.name, {}).items() if name in field_names}
