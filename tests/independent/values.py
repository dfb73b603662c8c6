"""Realistic values by field name, to replace the random ones that Kafka's classes wrote."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

from tests.independent.definitions import Member, Struct, Values

_TOPICS = ("orders", "payments.v2", "clickstream-raw", "user_profiles", "audit-log", "__consumer_offsets", "metrics")
_GROUPS = ("billing", "fraud-detector", "connect-jdbc-sink", "etl-nightly", "search-indexer")
_HOSTS = ("kafka-0.kafka.svc.cluster.local", "broker-2.example.com", "10.20.1.17", "ip-10-0-3-44.ec2.internal")
_CLIENTS = ("consumer-billing-1", "rdkafka", "sarama", "producer-1", "kafka-python-2.0.2", "adminclient-4")
_MESSAGES = ("The coordinator is loading.", "Topic 'orders' already exists.", "Unknown topic", "Invalid request")
_CODES = (3, 5, 6, 7, 15, 16, 22, 25, 27, 29, 36, 41, 58, 79, 87)
_SMALL_CODES = {
    "resource_type": (2, 3, 4), "resource_type_filter": (2, 4), "operation": (3, 4, 8), "permission_type": (2, 3),
    "pattern_type": (3, 4), "resource_pattern_type": (3,), "pattern_type_filter": (3, 4), "config_source": (1, 4, 5),
    "config_type": (1, 2, 3, 5), "isolation_level": (0, 1), "key_type": (0, 1), "coordinator_type": (0, 1),
    "transaction_result": (1,), "endpoint_type": (1, 2), "election_type": (0,), "config_operation": (0, 1, 2),
    "mechanism": (1, 2), "match_type": (0, 1, 2), "transaction_state": (0,), "upgrade_type": (1,), "state": (0, 2),
    "leader_recovery_state": (0,), "compression_type": (0, 4), "group_state": (0,), "type": (0,),
    "delivery_state": (1,), "acknowledge_types": (1, 2), "partition_error_code": (0,), "share_acquire_mode": (0,),
}  # fmt: skip
_TEXTS = {
    "principal": "User:alice", "principal_type": "User", "principal_name": "alice", "owner_principal_type": "User",
    "owner_principal_name": "alice", "protocol_type": "consumer", "protocol_name": "range", "assignor_name": "uniform",
    "server_assignor": "uniform", "group_state": "Stable", "transaction_state": "Ongoing", "group_type": "consumer",
    "host_filter": "*", "feature": "metadata.version", "feature_name": "metadata.version", "entity_type": "client-id",
    "security_protocol": "PLAINTEXT", "listener": "EXTERNAL", "listener_name": "EXTERNAL", "mechanism": "SCRAM-SHA-256",
    "config_name": "retention.ms", "rack": "eu-west-1a", "rack_id": "eu-west-1b", "log_dir": "/var/lib/kafka/data",
    "client_software_name": "apache-kafka-java", "client_software_version": "3.7.0", "value": "604800000",
    "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk", "user": "alice", "token_id": "yPZ3xN2hQ0uQ8nTq1t2rKA",
    "key": "request_percentage",
}  # fmt: skip


class Source:
    """A source of realistic values for a frame; the same seed gives the same values."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def with_realistic_values(self, struct: Struct, values: Values) -> Values:
        """Return the values with other numbers and texts, but with the same arrays and nulls."""
        new_values = {"_tags": values["_tags"]} if "_tags" in values else {}
        for member in (*struct.members, *struct.tagged):
            if member.name in values:
                new_values[member.name] = self._realistic_value(member, values[member.name])
        return new_values

    def _realistic_value(self, member: Member, value: Any) -> Any:
        if value is None:
            return None
        if not member.array:
            return self.with_realistic_values(member.inner, value) if member.inner else self.value(member, 0, value)
        if member.inner:
            return [
                self._with_index(member.inner, self.with_realistic_values(member.inner, element), index)
                for index, element in enumerate(value)
            ]
        return [self.value(member, index, element) for index, element in enumerate(value)]

    def complete(self, struct: Struct, values: Values) -> None:
        """Add values for the fields of a struct of another version that are missing."""
        for member in struct.members:
            if member.name not in values:
                values[member.name] = self.member(member)
            elif member.inner and values[member.name] is not None:
                for element in values[member.name] if member.array else [values[member.name]]:
                    self.complete(member.inner, element)

    def struct(self, struct: Struct) -> Values:
        return {member.name: self.member(member) for member in struct.members}

    def member(self, member: Member) -> Any:
        if member.nullable and self.random.random() < 0.3:
            return None
        if not member.array:
            return self.struct(member.inner) if member.inner else self.value(member, 0, None)
        count = self.random.choice((1, 1, 2, 3))
        if member.inner:
            return [self._with_index(member.inner, self.struct(member.inner), index) for index in range(count)]
        return [self.value(member, index, None) for index in range(count)]

    def _with_index(self, struct: Struct, values: Values, index: int) -> Values:
        """Number an element of an array, so that its index or id differs from those of the other elements."""
        for member in struct.members:
            if member.name in ("partition_index", "partition", "index", "partition_id"):
                values[member.name] = index
            elif member.name in ("node_id", "broker_id") and member.kind == "int32":
                values[member.name] = index + 1
            elif member.name == "api_key" and member.kind == "int16":
                values[member.name] = index
        return values

    def value(self, member: Member, index: int, old_value: Any) -> Any:
        if member.kind == "string":
            return self.text(member.name, index)
        if member.kind in ("bytes", "records"):
            return (
                old_value if old_value is not None else b"" if member.kind == "records" else self.random.randbytes(12)
            )
        if member.kind == "bool":
            return old_value if old_value is not None else self.random.random() < 0.4
        if member.kind == "uuid":
            raw = bytearray(self.random.randbytes(16))
            raw[6], raw[8] = raw[6] & 15 | 64, raw[8] & 63 | 128
            return base64.urlsafe_b64encode(raw).decode().rstrip("=")
        return 0.01 * self.random.randint(1, 5000) if member.kind == "float64" else self.number(member, index)

    def text(self, name: str, index: int) -> str:
        random = self.random
        if "topic" in name or name == "name":
            return _TOPICS[(index + random.randrange(7)) % 7]
        if name == "member_id" or name in ("leader", "group_instance_id"):
            return f"consumer-{random.choice(_GROUPS)}-{random.randint(1, 9)}-{random.getrandbits(64):016x}"
        if "group" in name and name not in _TEXTS:
            return random.choice(_GROUPS)
        if name.endswith("message"):
            return random.choice(_MESSAGES)
        if "host" in name and name not in _TEXTS:
            return random.choice(_HOSTS)
        if "client" in name and name not in _TEXTS:
            return random.choice(_CLIENTS)
        return _TEXTS.get(name, random.choice((*_TOPICS, *_GROUPS)))

    def number(self, member: Member, index: int) -> int:
        name, random = member.name, self.random
        if name.endswith("error_code"):
            return random.choice(_CODES) if random.random() < 0.25 else 0
        if member.kind == "int8":
            return random.choice(_SMALL_CODES.get(name, (0, 1)))
        if name == "throttle_time_ms":
            return random.choice((0, 0, 0, 12, 100, 640))
        if name == "port":
            return random.choice((9092, 9092, 9093, 9094, 19092, 31090))
        if "partition" in name and member.kind == "int32" and "count" not in name:
            return index + random.choice((0, 0, 1, 5))
        if name in ("num_partitions", "count"):
            return random.choice((1, 3, 6, 12, 24))
        if name == "replication_factor":
            return random.choice((1, 3))
        if any(part in name for part in ("node", "broker_id", "leader_id", "replica", "isr", "controller_id")) and (
            member.kind == "int32"
        ):
            return random.choice((1, 2, 3, 1, 2, 3, 101))
        if "epoch" in name:
            return random.choice((-1, 0, 1, 4, 7, 42)) if member.kind != "int64" else random.randint(20, 9000)
        if "timestamp" in name or name.endswith("_time"):
            return random.choice((-1, random.randint(1_650_000_000_000, 1_750_000_000_000)))
        if name.endswith("_ms"):
            return random.choice((500, 3000, 5000, 10_000, 30_000, 45_000, 300_000))
        if "offset" in name or "watermark" in name:
            return random.choice((-1, 0, 1, 57, random.randint(100, 90_000), random.randint(10**6, 10**9)))
        if "bytes" in name:
            return random.choice((1, 1_048_576, 52_428_800))
        if "producer_id" in name:
            return random.randint(1, 9000)
        if "version" in name or name in ("api_key",):
            return random.randint(0, 12)
        if name.endswith("authorized_operations"):
            return random.choice((-(2**31), 3400, 264))
        if name in ("session_id", "subscription_id"):
            return random.choice((0, random.getrandbits(31)))
        if name == "acks":
            return random.choice((-1, 1))
        return random.randint(0, 40)
