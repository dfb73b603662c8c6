"""Records of Connect, MirrorMaker 2 and the schema registry; Kafka's own classes wrote those in `kafka_topics`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dissectors.values import SchemaKey, ValueContext, decode, schema_keys

WRITTEN = Path(__file__).with_name("kafka_topics") / "records.jsonl"
RECORDS = [json.loads(line) for line in WRITTEN.read_text().splitlines()]
#: The value types of keys whose values have another type.
VALUE_TYPES = {"connector": "config", "task": "config", "status-task": "status"}


def as_java_text(value: Any) -> str:
    """Return a value as Java prints it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={as_java_text(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(as_java_text, value)) + "]" if isinstance(value, list) else str(value)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["topic"])
def test_records_written_by_kafka_are_decoded(record: dict[str, str]) -> None:
    key, value = (
        decode(base64.b64decode(record[record_part]), ValueContext(record["topic"], is_key=record_part == "key"))
        for record_part in ("key", "value")
    )
    assert key.is_guess
    assert value.is_guess
    assert key.problem is None
    if key.format == "connect":
        fields = {name: field_value for name, field_value in value.data.items() if field_value is not None}
        text = (
            as_java_text(fields).strip("{}")
            if value.type != "config"
            else f"properties={as_java_text(fields['properties'])}"
        )
        expected = record["text"].replace("planted-1", "(redacted)").replace("planted-2", "(redacted)")
        assert expected in (f"{as_java_text(key.data)} {{{text}}}", f"{key.data} Struct{{{text.replace(', ', ',')}}}")
        assert VALUE_TYPES.get(str(key.type), key.type) == value.type
        return
    assert key.format == value.format == "mirror-maker"
    data = key.data | value.data
    assert data.pop("version", 0) == 0
    if key.type == "heartbeat":
        assert record["text"] == f"Heartbeat{as_java_text(data)}"
        return
    topic_partition = f"topicPartition={data['topic']}-{data['partition']}"
    offsets = f"upstreamOffset={data['upstreamOffset']}, downstreamOffset={data['offset']}"
    if key.type == "checkpoint":
        group, metadata = f"consumerGroupId={data['group']}", f"metadata={data['metadata']}"
        assert record["text"] == f"Checkpoint{{{group}, {topic_partition}, {offsets}, {metadata}}}"
    else:
        assert record["text"] == f"OffsetSync{{{topic_partition}, {offsets}}}"


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ({"keytype": "SCHEMA", "magic": 1}, {"subject": "s", "version": 1, "id": 2, "schema": "{}"}, "SCHEMA"),
        ({"keytype": "CONFIG", "magic": 0}, {"compatibilityLevel": "FULL"}, "CONFIG"),
        ({"keytype": "MODE", "magic": 0}, {"mode": "IMPORT"}, "MODE"),
        ({"keytype": "DELETE_SUBJECT", "magic": 0}, {"subject": "s", "version": 1}, "DELETE_SUBJECT"),
        ({"keytype": "CLEAR_SUBJECT", "magic": 0}, {"subject": "s"}, "CLEAR_SUBJECT"),
    ],
)
def test_records_of_the_schema_registry_are_decoded(key: object, value: object, kind: str) -> None:
    for record_part, data in (("key", key), ("value", value)):
        decoded_value = decode(json.dumps(data).encode(), ValueContext("_schemas", is_key=record_part == "key"))
        assert (decoded_value.format, decoded_value.type, decoded_value.data, decoded_value.is_guess) == (
            "schema-registry",
            kind,
            data,
            True,
        )


@pytest.mark.parametrize(
    ("topic", "data"),
    [
        ("heartbeats", b'{"id": 1}'),
        ("heartbeats", b"\0\1" + bytes(8)),  # a later version
        ("orders", bytes(10)),
        ("_schemas", b'{"id": 1}'),
        ("connect-configs", b'{"id": 1}'),
        ("connect-offsets", b"[1, 2]"),
        ("connect-configs", b"[" * 100_000),
        ("connect-status", b"\xff\xfe"),
        ("connect-configs-x" * 1900 + "\n", b'{"properties": {}}'),  # must not take minutes
    ],
)
def test_other_records_in_topics_with_these_names_are_not_special(topic: str, data: bytes) -> None:
    for is_key in (True, False):
        assert decode(data, ValueContext(topic, is_key)).format not in ("connect", "mirror-maker", "schema-registry")


def test_mirrormaker_records_need_no_schema_lookup() -> None:
    heartbeat = base64.b64decode(RECORDS[0]["value"])
    assert schema_keys(heartbeat, ValueContext("heartbeats")) == []
    assert SchemaKey("id", 1) in schema_keys(heartbeat, ValueContext("orders"))
