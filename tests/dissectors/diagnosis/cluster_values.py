"""Values like those of real clusters, for any layout: names, ports, ids, offsets, times, error codes."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

from dissectors import records
from dissectors.wire.layout import Field, Layout
from dissectors.wire.primitives import uuid_text

_TOPICS = ("orders", "payments.v2", "user-events", "t", "__consumer_offsets", "metrics_raw", "logs.app-1.json")
_GROUPS = ("g", "billing", "console-consumer-48121", "flink-job.7f3a", "connect-s3-sink")
_HOSTS = ("localhost", "127.0.0.1", "broker-1.kafka.svc.cluster.local", "10.12.0.7", "kafka2", "b-3.prod.example.com")
_CLIENTS = ("rdkafka", "producer-1", "consumer-orders-1", "sarama", "adminclient-4")
_ERRORS = (0, 0, 0, 0, 0, 0, 1, 3, 5, 6, 15, 16, 22, 25, 27, 29, 35)
_NAMED = {
    "protocol_type": ("consumer", "connect"),
    "protocol_name": ("range", "cooperative-sticky", "roundrobin"),
    "protocol_data": ("range", "cooperative-sticky", "roundrobin"),
    "group_state": ("Stable", "Empty", "PreparingRebalance", "Dead"),
    "states_filter": ("Stable", "Empty"),
    "group_type": ("classic", "consumer"),
    "types_filter": ("classic", "consumer"),
    "state_filters": ("Ongoing", "PrepareCommit"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256"),
    "assignor_name": ("uniform", "range"),
    "principal_type": ("User",),
    "owner_principal_type": ("User",),
    "token_requester_principal_type": ("User",),
    "principal_name": ("admin", "orders-app"),
    "owner_principal_name": ("admin", "orders-app"),
    "token_requester_principal_name": ("admin", "orders-app"),
    "principal": ("User:admin", "User:orders-app", "User:CN=kafka2"),
    "principal_filter": ("User:admin", "User:orders-app"),
    "entity_type": ("user", "client-id", "ip"),
    "transaction_state": ("Empty", "Ongoing", "CompleteCommit"),
    "client_host": ("/10.12.0.44", "/127.0.0.1"),
    "client_software_name": ("apache-kafka-java", "librdkafka"),
    "client_software_version": ("3.7.0", "2.3.0", "4.1.1"),
    "log_dir": ("/var/lib/kafka/data",),
    "path": ("/var/lib/kafka/data",),
    "listener": ("PLAINTEXT", "CONTROLLER"),
    "rack": ("eu-west-1a", "b"),
    "rack_id": ("eu-west-1a", "b"),
    "cluster_id": ("kR2hXx0bQ8mTq3FzV7n1Yg", "lkc-4p2x9"),
}
_CODES = {
    "operation": (2, 3, 4, 8, 10),
    "permission_type": (3, 3, 2),
    "pattern_type": (3, 3, 4),
    "resource_pattern_type": (3, 3, 4),
    "pattern_type_filter": (3, 1, 2),
    "resource_type": (2, 2, 3, 4),
    "resource_type_filter": (2, 1, 3),
    "mechanism": (1, 2),
    "config_source": (1, 4, 5, 5),
    "source": (1, 4, 5, 5),
    "config_type": (1, 2, 3, 5, 7),
    "acknowledge_types": (1, 1, 2, 3),
}
#: Names of configurations, each with a value and its type.
_CONFIGS = (
    ("retention.ms", "604800000", 5), ("cleanup.policy", "compact", 7), ("min.insync.replicas", "2", 3),
    ("message.timestamp.type", "CreateTime", 2), ("unclean.leader.election.enable", "false", 1),
)  # fmt: skip
_PARTITIONS = ("partition_index", "partition", "index", "partition_indexes", "partitions", "partition_id")
_KEYS = ("name", "topic", "topic_name", "group_id", "node_id", "broker_id", "api_key", *_PARTITIONS[:3])
_NODES = ("node_id", "broker_id", "leader_id", "controller_id", "replica_id", "voter_id", "candidate_id", "leader")
_SETS = ("replicas", "isr", "new_isr", "broker_ids", "preferred_successors", *_PARTITIONS[3:5])
_WORDS = ("range", "roundrobin", "consumer", "cooperative-sticky", "eu-west-1a", "compact", "retention.ms", "604800000")


class Realistic:
    """A source of realistic values; the same seed gives the same values."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.own_client_id = self.random.choice(_CLIENTS)
        self.nodes = self.random.choice(([0, 1, 2], [1, 2, 3], [1, 2, 3, 4, 5], [101, 102, 103]))

    def client_id(self, body: Mapping[str, Any]) -> str:
        """Return the client id for the header of a body."""
        del body
        return self.own_client_id

    def values(self, layout: Layout) -> dict[str, Any]:
        """Return values for a layout, with some of its tagged fields."""
        values = {field.name: self._field_value(field) for field in layout.fields}
        values.update({field.name: self._field_value(field) for field in layout.tagged if self.random.random() < 0.3})
        self._make_consistent(values)
        return values

    def complete(self, layout: Layout, values: dict[str, Any]) -> None:
        """Add the fields of `layout` (of another version) that `values` lacks, also in nested structs."""
        for field in layout.fields:
            if field.name not in values or (field.struct is not None and isinstance(values[field.name], bytes)):
                values[field.name] = self._field_value(field)
            elif field.struct is not None and values[field.name] is not None:
                inner = values[field.name]
                if field.array and inner and not isinstance(inner[0], dict):
                    values[field.name] = self._field_value(field)  # an array of names that became an array of structs
                    continue
                for element in inner if field.array else (inner,):
                    self.complete(field.struct, element)

    def _make_consistent(self, values: dict[str, Any]) -> None:
        """Make related fields of a struct consistent."""
        random = self.random
        offsets = [name for name in ("log_start_offset", "last_stable_offset", "high_watermark") if name in values]
        values.update(zip(offsets, sorted(random.choice((0, 7, 1200, 88_000)) for _ in offsets), strict=True))
        times = [name for name in ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms") if name in values]
        for index, name in enumerate(times):
            values[name] = 1_790_000_000_000 + 86_400_000 * index + random.randint(0, 1000)
        if isinstance(replicas := values.get("replica_nodes"), list):
            replicas[:] = random.sample(self.nodes, random.choice((1, 3)))
            values["leader_id"] = replicas[0]
            for name in ("isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr"):
                if isinstance(values.get(name), list):
                    values[name] = replicas[: random.choice((1, 2, 3))] if name == "isr_nodes" else []
        if "config_source" in values or ("value" in values and "name" in values and isinstance(values["name"], str)):
            name, value, kind = random.choice(_CONFIGS)
            config = {"name": name, "value": value, "config_type": kind}
            values.update({field: config[field] for field in config if values.get(field) is not None})
        if {"name", "host", "port"} <= values.keys():
            values["name"] = random.choice(("PLAINTEXT", "CONTROLLER", "REPLICATION"))
        if "min_version" in values and "max_version" in values:
            values["min_version"], values["max_version"] = random.choice((0, 0, 1, 3)), random.choice((3, 7, 12))
        if "error_message" in values and "error_code" in values and values["error_code"] == 0:
            values["error_message"] = None

    def _field_value(self, field: Field) -> Any:
        random = self.random
        if field.nullable and random.random() < 0.15:
            return None
        if field.array:
            count = random.choice((0, 1, 1, 2, 3) if field.name not in ("brokers", "api_keys") else (1, 3, 3, 6))
            return self._without_duplicates(field, [self._element(field) for _ in range(count)])
        return self._element(field)

    def _without_duplicates(self, field: Field, elements: list[Any]) -> list[Any]:
        """Return the elements of an array without duplicate keys; partition indexes usually count up from 0."""
        if field.struct is None:
            return (
                sorted(set(elements), key=elements.index) if field.name in _SETS or field.type == "string" else elements
            )
        for key in _KEYS:
            if elements and key in elements[0]:
                if key in _PARTITIONS and self.random.random() < 0.7:
                    for index, element in enumerate(elements):
                        element[key] = index
                elements = list({element[key]: element for element in elements}.values())
        return elements

    def _element(self, field: Field) -> Any:
        if field.struct is not None:
            return self.values(field.struct)
        if field.type == "string":
            return self._text(field)
        if field.type in ("bytes", "records"):
            return self._bytes(field)
        return self._number(field)

    def _text(self, field: Field) -> str:
        random, name = self.random, field.name
        if name in _NAMED:
            return random.choice(_NAMED[name])
        if field.entity == "topicName" or name in ("topic", "topics"):
            return random.choice(_TOPICS)
        if field.entity == "groupId" or "group" in name:
            return random.choice(_GROUPS)
        if "host" in name:
            return random.choice(_HOSTS)
        if "member" in name:
            client = self.own_client_id if random.random() < 0.5 else random.choice(_CLIENTS)
            return f"{client}-{UUID(int=random.getrandbits(128), version=4)}"
        if "message" in name:
            return random.choice(("", "Unknown topic.", "The group is rebalancing, so a rejoin is needed."))
        if "client" in name:
            return random.choice(_CLIENTS)
        return random.choice(_WORDS)

    def _bytes(self, field: Field) -> bytes:
        random = self.random
        if field.type == "records":
            entries = [
                {"key": None, "value": random.randbytes(random.randint(1, 40)), "timestamp": 1_790_000_000_000 + index}
                for index in range(random.randint(1, 3))
            ]
            return records.encode([{"base_offset": random.randint(0, 9999), "records": entries}])
        return random.randbytes(random.choice((0, 4, 16, 33)))

    def _number(self, field: Field) -> Any:
        random, name = self.random, field.name
        if field.type == "bool":
            return random.random() < 0.4
        if field.type == "uuid":
            raw = bytearray(random.randbytes(16))
            raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
            return uuid_text(bytes(raw))
        if field.type == "float64":
            return random.choice((0.0, 1024.0, 1.5e6))
        if name.endswith("error_code"):
            return random.choice(_ERRORS)
        if name == "throttle_time_ms":
            return random.choice((0, 0, 0, 0, 15, 350, 1000))
        if name == "port":
            return random.choice((9092, 9093, 19092, 29092, 31001))
        if name.endswith("authorized_operations"):
            return random.choice((-2147483648, 264, 3400))
        if name in _PARTITIONS and field.type == "int32":
            return random.choice((0, 0, 1, 2, 3, 7, 11, 49))
        if (name in _NODES or field.entity == "brokerId") and field.type == "int32":
            return random.choice(self.nodes)
        if name in _CODES:
            return random.choice(_CODES[name])
        if name == "api_key":
            return random.randrange(69)
        if name == "session_id":
            return random.choice((0, random.getrandbits(31)))
        if field.type == "int64":
            if "period" in name or "life" in name or "retention" in name:
                return random.choice((-1, 0, 3_600_000, 86_400_000, 604_800_000))
            if "time" in name:
                return random.choice((-1, 1_700_000_000_000 + random.getrandbits(36)))
            return random.choice((-1, 0, random.randint(0, 500), random.randint(0, 10**6), random.randint(0, 10**10)))
        if name.endswith("_ms"):
            return random.choice((500, 5000, 10_000, 30_000, 45_000, 300_000))
        if "bytes" in name:
            return random.choice((1, 65_536, 1_048_576, 52_428_800))
        if field.type == "int8":
            return random.choice((0, 1, 2))
        if field.type == "int16":
            return random.choice((0, 1, 2, 3, 5, 12, -1))
        return random.choice((0, 0, 1, 1, 2, 3, 5, 7, 12, 31, 101, -1))
