"""Records in the topics of Kafka Connect, MirrorMaker 2 and the schema registry.

The names of these topics are only a convention, so both the name and the bytes must fit, and the result is a guess. The
topics of Kafka's coordinators are in `dissectors.embedded`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dissectors.schemas.sensitive_configs import is_sensitive_config
from dissectors.values.json_text import parse_json
from dissectors.values.schemas_topic import is_schemas_topic
from dissectors.values.value import DecodedValue, ValueContext
from dissectors.wire.decode import decode
from dissectors.wire.layout import Field, Layout

REDACTED: Final = "(redacted)"
#: The longest name of a topic. A hostile frame may have a longer one, for which the patterns below take minutes.
#: Source: Kafka's Topic.MAX_NAME_LENGTH.
MAX_TOPIC_LENGTH: Final = 249

_Reader: TypeAlias = Callable[[bytes, bool], DecodedValue | None]


def internal_record(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Decode a key or value in one of these topics; return None for other topics. Never raises."""
    topic = context.topic or ""
    if len(topic) > MAX_TOPIC_LENGTH or (reader := _reader(topic)) is None:
        return None
    try:
        return reader(data, context.is_key)
    except (ValueError, RecursionError):
        return None


@functools.lru_cache(256)
def _reader(topic: str) -> _Reader | None:
    if is_schemas_topic(topic):
        return _read_schema_registry
    return next((reader for pattern, reader in _TOPICS if pattern.fullmatch(topic)), None)


def _layout(name: str, **fields: str) -> Layout:
    lengths = {"string": "int16"}
    return Layout(
        name, tuple(Field(field_name, type_, length=lengths.get(type_)) for field_name, type_ in fields.items())
    )


#: Source: Kafka's Heartbeat, Checkpoint and OffsetSync (connect/mirror). `version` is the version of the value.
_HEARTBEAT: Final = (
    _layout("heartbeat", sourceClusterAlias="string", targetClusterAlias="string"),
    _layout("heartbeat", version="int16", timestamp="int64"),
)
_CHECKPOINT: Final = (
    _layout("checkpoint", group="string", topic="string", partition="int32"),
    _layout("checkpoint", version="int16", upstreamOffset="int64", offset="int64", metadata="string"),
)
_OFFSET_SYNC: Final = (
    _layout("offset-sync", topic="string", partition="int32"),
    _layout("offset-sync", upstreamOffset="int64", offset="int64"),
)


def _mirror_reader(layouts: tuple[Layout, Layout]) -> _Reader:
    def read_record(data: bytes, is_key: bool) -> DecodedValue | None:
        layout = layouts[not is_key]
        message = decode(layout, data)
        if (
            message.error is not None
            or message.decode_warnings
            or message.end != len(data)
            or message.values.get("version")
        ):
            return None
        return DecodedValue("mirror-maker", message.values, is_guess=True, type=layout.name)

    return read_record


#: The keys in Connect's topics for configs and status.
#: Source: Kafka's KafkaConfigBackingStore, KafkaStatusBackingStore.
_CONNECT_KEYS: Final = re.compile(
    r"(connector|task|commit|target-state|restart-connector|logger-cluster|status-connector|status-task|status-topic)-.+"
    r"|(session-key)"
)


def _read_connect(data: bytes, is_key: bool) -> DecodedValue | None:
    if is_key and (match := _CONNECT_KEYS.fullmatch(data.decode())) is not None:
        return DecodedValue("connect", data.decode(), is_guess=True, type=match[1] or match[2])
    if is_key or not isinstance(payload := _unwrap_payload(parse_json(data)), dict):
        return None
    if (kind := next((kind for kind, names in _CONNECT_VALUES.items() if names <= payload.keys()), None)) is None:
        return None
    if kind == "session-key":
        payload = payload | {"key": REDACTED}
    elif isinstance(properties := payload.get("properties"), dict):
        masked = {name: REDACTED if is_sensitive_config(name) else value for name, value in properties.items()}
        payload = {"properties": masked}
    return DecodedValue("connect", payload, is_guess=True, type=kind)


#: Members that each kind of value has.
_CONNECT_VALUES: Final = {
    "config": {"properties"},
    "session-key": {"key", "algorithm", "creation-timestamp"},
    "status": {"state", "worker_id", "generation"},
    "target-state": {"state"},
    "commit": {"tasks"},
    "topic": {"topic"},
}


def _read_connect_offset(data: bytes, is_key: bool) -> DecodedValue | None:
    """Read the offset of a connector: the key has its name and a partition of its source, the value the offset."""
    payload = _unwrap_payload(parse_json(data))
    is_pair = isinstance(payload, list) and len(payload) == 2 and isinstance(payload[0], str)
    if is_pair if is_key else isinstance(payload, dict):
        return DecodedValue("connect", payload, is_guess=True, type="offset")
    return None


def _unwrap_payload(value: Any) -> Any:
    """Return the payload of JSON that Connect wrote with its schema; other values unchanged."""
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _read_schema_registry(data: bytes, is_key: bool) -> DecodedValue | None:
    value = parse_json(data)
    if not isinstance(value, dict):
        return None
    if is_key:
        kind = value.get("keytype")
        return DecodedValue("schema-registry", value, is_guess=True, type=kind) if isinstance(kind, str) else None
    kind = next((kind for kind, names in _REGISTRY_VALUES.items() if names <= value.keys()), None)
    return None if kind is None else DecodedValue("schema-registry", value, is_guess=True, type=kind)


_REGISTRY_VALUES: Final = {
    "SCHEMA": {"subject", "version", "id", "schema"},
    "CONFIG": {"compatibilityLevel"},
    "MODE": {"mode"},
    "DELETE_SUBJECT": {"subject", "version"},
    "CLEAR_SUBJECT": {"subject"},
}

_TOPICS: Final[tuple[tuple[re.Pattern[str], _Reader], ...]] = (
    (re.compile(r"(.+[._-])?heartbeats"), _mirror_reader(_HEARTBEAT)),
    (re.compile(r".+[._-]checkpoints[._-]internal"), _mirror_reader(_CHECKPOINT)),
    (re.compile(r"mm2-offset-syncs[._-].+[._-]internal"), _mirror_reader(_OFFSET_SYNC)),
    (re.compile(r"(.*connect.*|mm2)[._-](configs?|status)([._-].+)?"), _read_connect),
    (re.compile(r"(.*connect.*|mm2)[._-]offsets?([._-].+)?"), _read_connect_offset),
)
