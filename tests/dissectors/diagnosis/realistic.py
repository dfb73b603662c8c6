"""Values as clusters have them, for any layout: names, ports, ids, offsets, times, error codes."""

from __future__ import annotations

from random import Random
from typing import Any

from dissectors import records
from dissectors.layout import Field, Layout
from dissectors.primitives import uuid_text

_TOPICS = ("orders", "payments.v2", "user-events", "t", "__consumer_offsets", "metrics_raw", "logs.app-1.json")
_GROUPS = ("g", "billing", "console-consumer-48121", "flink-job.7f3a", "connect-s3-sink")
_HOSTS = ("localhost", "127.0.0.1", "broker-1.kafka.svc.cluster.local", "10.12.0.7", "kafka2", "b-3.prod.example.com")
_CLIENTS = ("rdkafka", "producer-1", "consumer-orders-1", "sarama", "adminclient-4")
_ERRORS = (0, 0, 0, 0, 0, 0, 1, 3, 5, 6, 15, 16, 22, 25, 27, 29, 35)
_NAMED = {
    "protocol_type": ("consumer", "connect"),
    "protocol_name": ("range", "cooperative-sticky", "roundrobin"),
    "group_state": ("Stable", "Empty", "PreparingRebalance", "Dead"),
    "group_type": ("classic", "consumer"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256"),
    "assignor_name": ("uniform", "range"),
    "rack": ("eu-west-1a", "b"),
    "rack_id": ("eu-west-1a", "b"),
    "cluster_id": ("kR2hXx0bQ8mTq3FzV7n1Yg", "lkc-4p2x9"),
}
_WORDS = ("range", "roundrobin", "consumer", "cooperative-sticky", "eu-west-1a", "compact", "retention.ms", "604800000")


class Realistic:
    """A source of values; the same seed gives the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def values(self, of: Layout) -> dict[str, Any]:
        """Values for a layout; tagged fields now and then."""
        made = {one.name: self._field(one) for one in of.fields}
        made.update({one.name: self._field(one) for one in of.tagged if self.random.random() < 0.3})
        self._agree(made)
        return made

    def complete(self, of: Layout, made: dict[str, Any]) -> None:
        """Add what `of` has and `made` lacks, in structs below too: the fields of another version."""
        for one in of.fields:
            if one.name not in made:
                made[one.name] = self._field(one)
            elif one.struct is not None and made[one.name] is not None:
                below = made[one.name]
                if one.array and below and not isinstance(below[0], dict):
                    made[one.name] = self._field(one)  # an array of names that became one of structs
                    continue
                for each in below if one.array else (below,):
                    self.complete(one.struct, each)

    def _agree(self, made: dict[str, Any]) -> None:
        """Make fields of a struct say the same, as they do where they are about one thing."""
        random = self.random
        offsets = [name for name in ("log_start_offset", "last_stable_offset", "high_watermark") if name in made]
        made.update(zip(offsets, sorted(random.choice((0, 7, 1200, 88_000)) for _ in offsets), strict=True))
        times = [name for name in ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms") if name in made]
        for index, name in enumerate(times):
            made[name] = 1_790_000_000_000 + 86_400_000 * index + random.randint(0, 1000)
        if isinstance(replicas := made.get("replica_nodes"), list):
            replicas[:] = random.sample(range(1, 7), random.choice((1, 3)))
            made["leader_id"] = replicas[0]
            for name in ("isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr"):
                if isinstance(made.get(name), list):
                    made[name] = replicas[: random.choice((1, 2, 3))] if name == "isr_nodes" else []
        if "min_version" in made and "max_version" in made:
            made["min_version"], made["max_version"] = random.choice((0, 0, 1, 3)), random.choice((3, 7, 12))
        if "error_message" in made and "error_code" in made and made["error_code"] == 0:
            made["error_message"] = None

    def _field(self, one: Field) -> Any:
        random = self.random
        if one.nullable and random.random() < 0.15:
            return None
        if one.array:
            number = random.choice((0, 1, 1, 2, 3) if one.name not in ("brokers", "api_keys") else (1, 3, 3, 6))
            return [self._one(one) for _ in range(number)]
        return self._one(one)

    def _one(self, one: Field) -> Any:
        if one.struct is not None:
            return self.values(one.struct)
        if one.type == "string":
            return self._text(one)
        if one.type in ("bytes", "records"):
            return self._bytes(one)
        return self._number(one)

    def _text(self, one: Field) -> str:
        random, name = self.random, one.name
        if one.entity == "topicName" or name in ("topic", "topics"):
            return random.choice(_TOPICS)
        if one.entity == "groupId" or "group" in name:
            return random.choice(_GROUPS)
        if "host" in name:
            return random.choice(_HOSTS)
        if "member" in name:
            return f"{random.choice(_CLIENTS)}-{random.getrandbits(64):016x}"
        if "message" in name:
            return random.choice(("", "Unknown topic.", "The group is rebalancing, so a rejoin is needed."))
        if name in _NAMED:
            return random.choice(_NAMED[name])
        if "client" in name:
            return random.choice(_CLIENTS)
        return random.choice(_WORDS)

    def _bytes(self, one: Field) -> bytes:
        random = self.random
        if one.type == "records":
            entries = [
                {"key": None, "value": random.randbytes(random.randint(1, 40)), "timestamp": 1_790_000_000_000 + index}
                for index in range(random.randint(1, 3))
            ]
            return records.encode([{"base_offset": random.randint(0, 9999), "records": entries}])
        return random.randbytes(random.choice((0, 4, 16, 33)))

    def _number(self, one: Field) -> Any:
        random, name = self.random, one.name
        if one.type == "bool":
            return random.random() < 0.4
        if one.type == "uuid":
            raw = bytearray(random.randbytes(16))
            raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
            return uuid_text(bytes(raw))
        if one.type == "float64":
            return random.choice((0.0, 1024.0, 1.5e6))
        if name.endswith("error_code"):
            return random.choice(_ERRORS)
        if name == "throttle_time_ms":
            return random.choice((0, 0, 0, 0, 15, 350, 1000))
        if name == "port":
            return random.choice((9092, 9093, 19092, 29092, 31001))
        if name.endswith("authorized_operations"):
            return random.choice((-2147483648, 264, 3400))
        if one.type == "int64":
            if "time" in name:
                return random.choice((-1, 1_700_000_000_000 + random.getrandbits(36)))
            return random.choice((-1, 0, random.randint(0, 500), random.randint(0, 10**6), random.randint(0, 10**10)))
        if name.endswith("_ms"):
            return random.choice((500, 5000, 10_000, 30_000, 45_000, 300_000))
        if "bytes" in name:
            return random.choice((1, 65_536, 1_048_576, 52_428_800))
        if one.type == "int8":
            return random.choice((0, 1, 2, 3, -1))
        if one.type == "int16":
            return random.choice((0, 1, 2, 3, 5, 12, -1))
        return random.choice((0, 0, 1, 1, 2, 3, 5, 7, 12, 31, 101, -1))
