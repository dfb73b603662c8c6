"""Values that other projects' serializers wrote (tests/serializers), decoded as the relay and `dissect` do."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dissectors.connections.events import Direction
from dissectors.records import encode
from dissectors.values import Schema, SchemaKey, ValueContext, decode, schema_keys
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.registry import SchemaSources
from kproxy.trace.lines import Detail, RequestLine
from tests.kproxy.frames import request

#: Go writes the fields of dynamic Protobuf messages in any order, and Avro blocks with their size.
REENCODINGS = (
    "equal",
    "differs: fields or map entries are in another order",
    "differs: an array or map has a block with its size in bytes, at byte 21 after the envelope",
)


def read_lines(name: str) -> list[dict[str, Any]]:
    path = Path(__file__).parents[2] / "serializers" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def decode_base64(line: dict[str, Any], part: str) -> bytes | None:
    return base64.b64decode(line[part]) if line.get(part) is not None else None


def as_json_value(data: Any) -> Any:
    """Return data with base64 instead of bytes, as in JSON."""
    if isinstance(data, dict):
        return {name: as_json_value(inner) for name, inner in data.items()}
    if isinstance(data, list):
        return [as_json_value(element) for element in data]
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data


@pytest.mark.parametrize("line", read_lines("java"), ids=lambda line: line["topic"])
def test_values_of_apicurio_for_java_are_decoded(line: dict[str, Any]) -> None:
    headers = tuple((name, base64.b64decode(value)) for name, value in line["headers"].items())
    references = {name: Schema(line["type"], text) for name, text in line["references"].items()}
    data, schema = decode_base64(line, "value"), Schema(line["type"], line["schema"], references=references)
    assert data is not None
    schema_ids = {"global_id": line["global_id"], "content_id": line["content_id"], "id": line["global_id"]}
    schemas = {SchemaKey(id_type, value): schema for id_type, value in schema_ids.items()}
    id_types = {"apicurio-content": "content_id", "apicurio-confluent": "id"}
    types = {"AVRO": {"shop.Order"}, "PROTOBUF": {"shop.Order", "shop.Shipped"}, "JSON": {"Person"}}
    key = SchemaKey(id_type := id_types.get(line["topic"], "global_id"), schema_ids[id_type])
    assert key in schema_keys(data, ValueContext(line["topic"], headers=headers))
    value = decode(data, ValueContext(line["topic"], headers=headers, schemas=schemas))
    assert as_json_value(value.data) == line["expected"]
    assert (value.schema, value.problem) == (key, None)
    assert value.type in types[line["type"]]
    assert value.reencoding == (None if line["type"] == "JSON" else "equal")


def test_values_of_confluent_for_go_are_decoded_with_registered_schemas() -> None:
    go_lines = read_lines("go")
    inspector = Inspector("go", Detail.FULL, record_values=RecordValues(SchemaSources([]), Masks(())))
    inspector.open(0, "client", "server", at=0)
    shown_values = []
    for number, line in enumerate(go_lines):
        records = encode([{"records": [{"key": decode_base64(line, "key"), "value": decode_base64(line, "value")}]}])
        topic = {"name": line["topic"], "partition_data": [{"index": 0, "records": records}]}
        body = {"acks": 1, "timeout_ms": 100, "topic_data": [topic]}
        for request_line in inspector.receive_data(
            0, Direction.REQUEST, request("Produce", 9, body, correlation_id=number), at=0
        ):
            assert isinstance(request_line, RequestLine)
            assert request_line.body is not None
            shown_values.append(
                request_line.body["topic_data"][0]["partition_data"][0]["records"][0]["records"][0]["value"]
            )
    messages = [(line, value) for line, value in zip(go_lines, shown_values, strict=True) if "expected" in line]
    assert len(messages) == 8
    for line, value in messages:
        assert as_json_value(value["data"]) == line["expected"], line["topic"]
        assert value["subject"].startswith(line["topic"].partition("-")[0])  # subjects share Protobuf schemas
        assert not value.keys() & {"problem", "guess", "cut"}
        assert value.get("reencoding", "equal") in REENCODINGS
