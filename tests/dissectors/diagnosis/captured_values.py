"""Values that real clients and brokers sent: whole structs from captures, and invented values for the rest."""

from __future__ import annotations

import functools
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from dissectors import schemas
from dissectors.diagnosis.diagnose import right_layout
from dissectors.messages.message import Message, read_request, read_response
from dissectors.wire.layout import WIDTHS, Field, Layout
from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.dissectors.diagnosis.cluster_values import Realistic
from tests.kproxy.capture_results import DATA, lines_of

#: At most this many structs of a layout (and 4 times as many values of a field), and elements of an array, are kept.
_MAX_STRUCTS = 400
_MAX_ELEMENTS = 3

_CODES = {
    "operation": "acl_operation", "permission_type": "acl_permission_type", "pattern_type": "pattern_type",
    "resource_pattern_type": "pattern_type", "pattern_type_filter": "pattern_type", "resource_type": "resource_type",
    "resource_type_filter": "resource_type", "config_operation": "alter_config_op", "mechanism": "scram_mechanism",
    "election_type": "election_type", "compression_type": "compression_codec", "upgrade_type": "feature_upgrade_type",
    "delivery_state": "share_acknowledge_type", "acknowledge_types": "share_acknowledge_type",
}  # fmt: skip
_TEXTS = {
    "principal": ("User:alice", "User:CN=loader,OU=data,O=corp", "User:ANONYMOUS"),
    "principal_filter": ("User:alice", "User:*"),
    "principal_type": ("User",),
    "owner_principal_type": ("User",),
    "token_requester_principal_type": ("User",),
    "principal_name": ("alice", "svc_ingest", "bob"),
    "owner_principal_name": ("alice", "svc_ingest"),
    "token_requester_principal_name": ("admin", "bob"),
    "user": ("alice", "svc_ingest"),
    "entity_type": ("user", "client-id", "ip"),
    "entity_name": ("alice", "192.168.7.44", "loader"),
    "host": ("*", "192.168.7.44", "172.18.0.5", "kafka-0.kafka-headless.data.svc"),
    "host_filter": ("*", "192.168.7.44"),
    "key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    "feature": ("metadata.version", "kraft.version", "group.version"),
    "listener": ("CONTROLLER", "EXTERNAL"),
    "state_filters": ("CompleteCommit", "Dead"),
    "subtopology_id": ("0", "1"),
    "process_id": ("c2b3a1de-77f0-4a4e-9f5d-02b8f1f3a9aa",),
    "token_id": ("uWzKq0iPQ2m8vJ7cXh1pSw", "Q6J0l3bYQwOqgTzj2vYb3A"),
    "path": ("/var/lib/kafka/data-0", "/mnt/disk2/kafka-logs"),
    "status_detail": ("Source topic clicks is missing.",),
    "transactional_id_pattern": ("etl-.*",),
    "subscribed_topic_regex": ("clicks-.*",),
}
_WORDS = (
    "clicks",
    "inventory-updates",
    "web.sessions",
    "etl-7",
    "fraud_scores",
    "dc2-mirror",
    "KSTREAM-SOURCE-0000000000",
)
_TIMES = (0, 1500, 9000, 25_000, 40_000, 180_000, 3_600_000)
_NODES = (1001, 1002, 1003)


class _Recording(NamedTuple):
    """The contents of the captures: structs by layout name, values by field name, and client ids."""

    structs: dict[str, list[dict[str, Any]]]
    values: dict[str, list[Any]]
    clients: list[str]


@functools.cache
def recording() -> _Recording:
    structs: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    values: dict[str, list[Any]] = defaultdict(list)
    clients: set[str] = set()
    for message in _messages():
        if (client := message.header.get("client_id")) is not None:
            clients.add(client)
        assert message.layout is not None
        for layout, struct_values in _structs(message.layout, message.body):
            known_structs = structs[layout.name]
            if len(known_structs) < _MAX_STRUCTS:
                known_structs.setdefault(repr(struct_values), struct_values)
            for name, value in struct_values.items():
                if len(values[name]) < 4 * _MAX_STRUCTS:
                    values[name] += value[:_MAX_ELEMENTS] if isinstance(value, list) else [value]
    kept_values = {
        name: [element for element in inner if not isinstance(element, dict)] for name, inner in values.items()
    }
    return _Recording({name: list(struct.values()) for name, struct in structs.items()}, kept_values, sorted(clients))


def _messages() -> list[Message]:
    messages_by_frame: dict[str, Message] = {}
    for path in sorted((DATA / "pcap").glob("*.pcap.gz")):
        for line in lines_of(path, detail=Detail.RAW):
            if isinstance(line, RequestLine | ResponseLine) and line.frame and line.frame not in messages_by_frame:
                frame = b64decode(line.frame)
                if isinstance(line, RequestLine):
                    message = read_request(frame)
                elif line.api_key is not None and line.api_version is not None:
                    message = read_response(frame, line.api_key, line.api_version)
                else:
                    continue
                if message.well_formed and message.layout is not None and right_layout(message) is not None:
                    messages_by_frame[line.frame] = message
    return list(messages_by_frame.values())


def _structs(layout: Layout, values: dict[str, Any]) -> list[tuple[Layout, dict[str, Any]]]:
    pairs = [(layout, values)]
    for field in (*layout.fields, *layout.tagged):
        value = values.get(field.name)
        if field.struct is not None and value:
            for element in value if field.array else [value]:
                pairs += _structs(field.struct, element)
    return pairs


class Recorded(Realistic):
    """A source of captured values; the same seed gives the same values."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.recording = recording()

    def values(self, layout: Layout) -> dict[str, Any]:
        """Return the values of a captured struct, completed with the fields of `layout` that it lacked."""
        structs = self.recording.structs.get(layout.name)
        values: dict[str, Any] = self._shortened(self.random.choice(structs)) if structs else {}
        self._fit(layout, values)
        if {"name", "host", "port"} <= values.keys():
            values["name"] = self.random.choice(_TEXTS["listener"])
        return values

    def client_id(self, body: Mapping[str, Any]) -> str:
        """Return the client id for the header of a body."""
        member = body.get("member_id")
        return (
            member[:-37] if isinstance(member, str) and len(member) > 40 else self.random.choice(self.recording.clients)
        )

    def _shortened(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._shortened(inner) for name, inner in value.items()}
        if isinstance(value, list):
            start = self.random.randrange(max(len(value) - _MAX_ELEMENTS, 0) + 1)
            return [self._shortened(element) for element in value[start : start + _MAX_ELEMENTS]]
        return bytes(value) if isinstance(value, memoryview) else value

    def _fit(self, layout: Layout, values: dict[str, Any]) -> None:
        """Add missing fields, and remove or replace those that do not fit `layout`."""
        for name in values.keys() - {field.name for field in (*layout.fields, *layout.tagged)}:
            del values[name]
        for field in layout.fields:
            value = values.get(field.name)
            if field.name not in values or not _fits(field, value):
                values[field.name] = self._field_value(field)
            elif field.struct is not None and value is not None:
                for element in value if field.array else (value,):
                    self._fit(field.struct, element)

    def _number(self, field: Field) -> Any:
        return self._pick_captured(field) if self._has_captured(field) else _invent_number(field, self.random)

    def _text(self, field: Field) -> str:
        text = (
            self._pick_captured(field)
            if self._has_captured(field)
            else self.random.choice(_TEXTS.get(field.name, _WORDS))
        )
        assert isinstance(text, str)
        return text

    def _has_captured(self, field: Field) -> bool:
        if field.type in ("int8", "uuid") or field.name in _TEXTS:
            return field.type == "uuid" and field.name in self.recording.values
        return any(_holds(field, value) for value in self.recording.values.get(field.name, ()))

    def _pick_captured(self, field: Field) -> Any:
        known = [value for value in self.recording.values[field.name] if _holds(field, value)]
        return self.random.choice(known if self.random.random() < 0.5 else sorted(set(known)))


def _fits(field: Field, value: Any) -> bool:
    """Return whether a field can hold a value from another version."""
    if value is None:
        return field.nullable
    if field.array:
        return isinstance(value, list) and all(
            isinstance(element, dict) == (field.struct is not None) for element in value
        )
    return (
        isinstance(value, dict)
        if field.struct is not None
        else field.type in ("bytes", "records") or _holds(field, value)
    )


def _holds(field: Field, value: Any) -> bool:
    if field.type in ("string", "uuid"):
        return isinstance(value, str)
    if field.type == "bool":
        return isinstance(value, bool)
    if field.type == "float64":
        return isinstance(value, float)
    bits = 8 * WIDTHS.get(field.type, 0)
    minimum = 0 if field.type.startswith("u") else -(1 << bits - 1) if bits else 0
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value < minimum + (1 << bits)


def _invent_number(field: Field, random: Random) -> Any:
    """Return a plausible number for a field that no capture has."""
    name = field.name
    if field.type == "bool":
        return random.random() < 0.25
    if field.type == "float64":
        return random.choice((2_097_152.0, 50.0))
    if name in _CODES:
        return random.choice([code for code, text in schemas.enum(_CODES[name]).items() if text != "UNKNOWN"])
    if field.type == "int8":
        return random.choice((0, 1, 2))
    if field.type == "uuid":
        return random.choice(recording().values["topic_id"])
    if name.endswith("_ms") and field.type != "int64":
        return random.choice(_TIMES)
    if "time" in name and field.type == "int64":
        return (
            1_763_200_000_000 + random.randrange(10**9) if "period" not in name and "life" not in name else 86_400_000
        )
    if "epoch" in name or name in ("zk_version", "iterations"):
        return random.choice((0, 1, 4, 17, 62))
    if "replica" in name or "isr" in name or name.endswith(("_id", "broker_ids")) or name == "leader":
        return random.choice(_NODES) if field.type != "int64" else random.randrange(4000)
    return random.choice((0, 1, 2, 6, 24))
