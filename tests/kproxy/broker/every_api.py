"""A valid request for every API in every version, preceded by the requests that it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from kproxy.broker.errors import Error
from kproxy.broker.registry import served_apis
from kproxy.broker.topics import Topics
from tests.kproxy.broker.data_requests import batch
from tests.kproxy.broker.socket_client import SocketClient

#: The versions of each API that the broker serves.
APIS = {api.api.name: range(api.lowest, api.highest + 1) for api in served_apis().values()}
#: Options of a broker that serves all of them and has the topic ``t``.
OPTIONS: Mapping[str, Any] = {
    "topics": {"t": 2},
    "acls": True,
    "super_users": ("User:ANONYMOUS", "User:alice"),
    "configs": {"group.initial.rebalance.delay.ms": "0", "delegation.token.secret.key": "key"},
}
#: The same options, but clients log in as alice.
WITH_LOGIN: Mapping[str, Any] = OPTIONS | {"sasl": ("PLAIN",), "users": {"alice": "secret"}}

PREREQUISITES = {
    "Fetch": ("Produce",),
    "DescribeProducers": ("Produce",),
    "SyncGroup": ("JoinGroup",),
    "Heartbeat": ("JoinGroup", "SyncGroup"),
    "LeaveGroup": ("JoinGroup", "SyncGroup"),
    "DescribeGroups": ("JoinGroup", "SyncGroup"),
    "OffsetCommit": ("JoinGroup", "SyncGroup"),
    "OffsetFetch": ("JoinGroup", "SyncGroup", "OffsetCommit"),
    "OffsetDelete": ("JoinGroup", "SyncGroup", "OffsetCommit", "LeaveGroup"),
    "DeleteGroups": ("JoinGroup", "SyncGroup", "OffsetCommit", "LeaveGroup"),
    "AddPartitionsToTxn": ("InitProducerId",),
    "AddOffsetsToTxn": ("InitProducerId",),
    "TxnOffsetCommit": ("InitProducerId", "AddOffsetsToTxn"),
    "EndTxn": ("InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit"),
    "DescribeTransactions": ("InitProducerId", "AddOffsetsToTxn"),
    "ListTransactions": ("InitProducerId", "AddOffsetsToTxn"),
    "ConsumerGroupDescribe": ("ConsumerGroupHeartbeat",),
    "ShareGroupDescribe": ("ShareGroupHeartbeat",),
    "ShareFetch": ("ShareGroupHeartbeat",),
    "ShareAcknowledge": ("ShareGroupHeartbeat", "ShareFetch"),
    "SaslAuthenticate": ("SaslHandshake",),
    **dict.fromkeys(("CreateDelegationToken", "DescribeDelegationToken"), ("SaslHandshake", "SaslAuthenticate")),
    **dict.fromkeys(
        ("RenewDelegationToken", "ExpireDelegationToken"),
        ("SaslHandshake", "SaslAuthenticate", "CreateDelegationToken"),
    ),
    "DeleteShareGroupOffsets": ("AlterShareGroupOffsets",),
    "DeleteTopics": ("CreateTopics",),
    "DeleteAcls": ("CreateAcls",),
    "DescribeUserScramCredentials": ("AlterUserScramCredentials",),
    "DescribeClientQuotas": ("AlterClientQuotas",),
    "PushTelemetry": ("GetTelemetrySubscriptions",),
    "ReadShareGroupState": ("InitializeShareGroupState",),
    "WriteShareGroupState": ("InitializeShareGroupState", "ReadShareGroupState"),
    "ReadShareGroupStateSummary": ("InitializeShareGroupState", "WriteShareGroupState"),
    "DeleteShareGroupState": ("InitializeShareGroupState",),
}
_SUBSCRIPTION = b"\0\1" + encode(layout("ConsumerProtocolSubscription", 1), {"topics": ["t"]})
_ASSIGNMENT = b"\0\1" + encode(
    layout("ConsumerProtocolAssignment", 1), {"assigned_partitions": [{"topic": "t", "partitions": [0, 1]}]}
)


def needs_login(api: str) -> bool:
    """Return whether the API needs a broker with `WITH_LOGIN`."""
    return api.startswith("Sasl") or api.endswith("DelegationToken")


class ApiClient:
    """Sends requests to a broker with `OPTIONS` or `WITH_LOGIN`; its groups and transactions are named after `name`."""

    def __init__(self, client: SocketClient, name: str) -> None:
        topic = client.broker.cluster.part(Topics).by_name("t")
        assert topic is not None
        self._client = client
        self._name = name
        self._topic_id = topic.id
        self._member_id = ""
        self._producer_id = 0
        self._hmac = b""
        self._telemetry: Mapping[str, Any] = {"client_instance_id": topic.id, "subscription_id": 0}

    async def request(self, api: str, version: int) -> Any:
        """Send the prerequisites and then the request; return the response."""
        for prerequisite in PREREQUISITES.get(api, ()):
            await self._send(prerequisite, APIS[prerequisite][-1])
        return await self._send(api, version)

    async def _send(self, api: str, version: int) -> Any:
        response = await self._client(api, version, self.body(api, version))
        if api == "JoinGroup":
            self._member_id = response["member_id"]
            if response["error_code"] == Error.MEMBER_ID_REQUIRED:
                return await self._send(api, version)
        elif api == "InitProducerId":
            self._producer_id = response["producer_id"]
        elif api == "CreateDelegationToken":
            self._hmac = response["hmac"]
        elif api == "GetTelemetrySubscriptions":
            self._telemetry = {name: response[name] for name in self._telemetry}
        return response

    def body(self, api: str, version: int) -> Mapping[str, Any]:
        """Return the body of a request."""
        group, new_topic = f"g-{self._name}", f"made-{self._name}-{version}"
        topic = {"name": "t", "topic": "t", "topic_name": "t", "topic_id": self._topic_id}
        partition_0 = {"partition": 0, "partition_index": 0, "index": 0}
        member = {
            "group_id": group,
            "member_id": self._member_id,
            "generation_id": 1,
            "generation_id_or_member_epoch": 1,
            "protocol_type": "consumer",
            "protocol_name": "range",
        }
        producer = {"transactional_id": group, "producer_id": self._producer_id, "producer_epoch": 0}
        topic_partitions = [topic | {"partitions": [0], "partition_indexes": [0]}]
        committed = [topic | {"partitions": [partition_0 | {"committed_offset": 1, "committed_metadata": "m"}]}]
        acl = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a"}
        acl |= {"host": "*", "operation": 3, "permission_type": 3}
        acls = {"resource_type_filter": 2, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        retention = {"name": "retention.ms", "value": "1000", "config_operation": 0}
        share_member = {"group_id": f"s-{self._name}", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
        bodies: dict[str, Mapping[str, Any]] = {
            "Produce": {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [topic | {"partition_data": [partition_0 | {"records": batch(magic=_magic(version))}]}],
            },
            "Fetch": {
                "max_wait_ms": 10,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "session_epoch": -1,
                "topics": [topic | {"partitions": [partition_0 | {"fetch_offset": 0, "partition_max_bytes": 1 << 20}]}],
            },
            "ListOffsets": {
                "replica_id": -1,
                "topics": [topic | {"partitions": [partition_0 | {"timestamp": -1, "max_num_offsets": 1}]}],
            },
            "Metadata": {"topics": [{"name": "t"}]},
            "OffsetCommit": member | {"topics": committed},
            "OffsetFetch": {
                "group_id": group,
                "topics": topic_partitions,
                "groups": [{"group_id": group, "topics": topic_partitions}],
            },
            "FindCoordinator": {"key": group, "coordinator_keys": [group]},
            "JoinGroup": member
            | {
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
            },
            "Heartbeat": member,
            "LeaveGroup": member | {"members": [{"member_id": self._member_id}]},
            "SyncGroup": member | {"assignments": [{"member_id": self._member_id, "assignment": _ASSIGNMENT}]},
            "DescribeGroups": {"groups": [group], "include_authorized_operations": True},
            "SaslHandshake": {"mechanism": "PLAIN"},
            "SaslAuthenticate": {"auth_bytes": b"\0alice\0secret"},
            "ApiVersions": {"client_software_name": "test", "client_software_version": "1"},
            "CreateTopics": {
                "topics": [{"name": new_topic, "num_partitions": 2, "replication_factor": 1, "configs": [retention]}]
            },
            "DeleteTopics": {
                "topic_names": [f"made-{self._name}-7"],
                "topics": [{"name": f"made-{self._name}-7"}],
                "timeout_ms": 1000,
            },
            "DeleteRecords": {"topics": [topic | {"partitions": [partition_0 | {"offset": -1}]}], "timeout_ms": 1000},
            "InitProducerId": {"transactional_id": group, "transaction_timeout_ms": 10_000},
            "OffsetForLeaderEpoch": {"topics": [topic | {"partitions": [partition_0 | {"leader_epoch": 0}]}]},
            "AddPartitionsToTxn": {f"v3_and_below_{name}": value for name, value in producer.items()}
            | {
                "v3_and_below_topics": topic_partitions,
                "transactions": [producer | {"topics": topic_partitions, "verify_only": False}],
            },
            "AddOffsetsToTxn": producer | {"group_id": group},
            "EndTxn": producer | {"committed": True},
            "WriteTxnMarkers": {
                "markers": [
                    {"producer_id": 7, "producer_epoch": 0, "transaction_result": True, "topics": topic_partitions}
                    | {"coordinator_epoch": 0}
                ]
            },
            "TxnOffsetCommit": producer | {"group_id": group, "topics": committed},
            "DescribeAcls": acls,
            "CreateAcls": {"creations": [acl]},
            "DeleteAcls": {"filters": [acls]},
            "DescribeConfigs": {
                "resources": [
                    {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                    for kind, name in ((2, "t"), (4, "1"), (8, "1"), (32, "g"), (16, "g"))
                ],
                "include_synonyms": True,
                "include_documentation": True,
            },
            "AlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "t", "configs": [retention]}]},
            "AlterReplicaLogDirs": {"dirs": [{"path": "/nowhere", "topics": topic_partitions}]},
            "DescribeLogDirs": {"topics": topic_partitions},
            "CreatePartitions": {"topics": [{"name": "t", "count": 2 + version + 1, "assignments": None}]},
            "CreateDelegationToken": {"renewers": [], "max_lifetime_ms": -1},
            "RenewDelegationToken": {"hmac": self._hmac, "renew_period_ms": 1000},
            "ExpireDelegationToken": {"hmac": self._hmac, "expiry_time_period_ms": 1000},
            "DeleteGroups": {"groups_names": [group]},
            "ElectLeaders": {"topic_partitions": topic_partitions},
            "IncrementalAlterConfigs": {
                "resources": [{"resource_type": 2, "resource_name": "t", "configs": [retention]}]
            },
            "AlterPartitionReassignments": {"topics": [topic | {"partitions": [partition_0 | {"replicas": [1]}]}]},
            "ListPartitionReassignments": {"topics": topic_partitions},
            "OffsetDelete": {"group_id": group, "topics": [topic | {"partitions": [partition_0]}]},
            "DescribeClientQuotas": {"components": [{"entity_type": "user", "match_type": 2}]},
            "AlterClientQuotas": {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "a"}],
                        "ops": [{"key": "producer_byte_rate", "value": 1e6}],
                    }
                ]
            },
            "DescribeUserScramCredentials": {"users": [{"name": "a"}]},
            "AlterUserScramCredentials": {
                "upsertions": [
                    {"name": "a", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"s" * 32}
                ]
            },
            "DescribeQuorum": {"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition_0]}]},
            "UpdateFeatures": {"feature_updates": [{"feature": "group.version", "max_version_level": 1}]},
            "DescribeProducers": {"topics": topic_partitions},
            "UnregisterBroker": {"broker_id": 9},
            "DescribeTransactions": {"transactional_ids": [group]},
            "ListTransactions": {"transactional_id_pattern": None},
            "ConsumerGroupHeartbeat": share_member
            | {
                "group_id": f"c-{self._name}",
                "member_epoch": 0,
                "rebalance_timeout_ms": 10_000,
                "subscribed_topic_names": ["t"],
                "topic_partitions": [],
            },
            "ConsumerGroupDescribe": {"group_ids": [f"c-{self._name}"], "include_authorized_operations": True},
            "GetTelemetrySubscriptions": {"client_instance_id": self._topic_id},
            "PushTelemetry": self._telemetry,
            "DescribeTopicPartitions": {"topics": [{"name": "t"}]},
            "ShareGroupHeartbeat": share_member | {"member_epoch": 0, "subscribed_topic_names": ["t"]},
            "ShareGroupDescribe": {"group_ids": [share_member["group_id"]], "include_authorized_operations": True},
            "ShareFetch": share_member
            | {
                "max_wait_ms": 10,
                "max_bytes": 1 << 20,
                "max_records": 10,
                "batch_size": 10,
                "topics": [{"topic_id": self._topic_id, "partitions": [partition_0]}],
            },
            "ShareAcknowledge": share_member
            | {"share_session_epoch": 1, "topics": [{"topic_id": self._topic_id, "partitions": [partition_0]}]},
            "InitializeShareGroupState": share_member | {"topics": [topic | {"partitions": [partition_0]}]},
            "ReadShareGroupState": share_member | {"topics": [topic | {"partitions": [partition_0]}]},
            "WriteShareGroupState": share_member
            | {
                "topics": [
                    topic
                    | {
                        "partitions": [
                            partition_0
                            | {
                                "state_batches": [
                                    {"first_offset": 0, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}
                                ]
                            }
                        ]
                    }
                ]
            },
            "DeleteShareGroupState": share_member | {"topics": [topic | {"partitions": [partition_0]}]},
            "ReadShareGroupStateSummary": share_member | {"topics": [topic | {"partitions": [partition_0]}]},
            "DescribeShareGroupOffsets": {
                "groups": [{"group_id": share_member["group_id"], "topics": topic_partitions}]
            },
            "AlterShareGroupOffsets": share_member
            | {"topics": [topic | {"partitions": [partition_0 | {"start_offset": 0}]}]},
            "DeleteShareGroupOffsets": {"group_id": share_member["group_id"]} | {"topics": [topic]},
        }
        return bodies.get(api, {})


def _magic(version: int) -> int:
    return 2 if version >= 3 else 1 if version == 2 else 0
