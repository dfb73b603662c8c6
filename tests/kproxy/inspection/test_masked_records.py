"""Lines of masked records contain no planted value in any encoding."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from dissectors.connections.events import Direction
from dissectors.records import encode
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.inspection.text_masks import TextMasks
from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import Detail
from tests.kproxy.frames import request
from tests.serialized import sample_registry

PLANTED = "planted"
EVENT = json.dumps({"specversion": "1.0", "id": "1", "source": "s", "type": PLANTED, "data": {"a": 1}}).encode()
CONNECT = json.dumps({"schema": {"type": "string", "name": PLANTED}, "payload": "x"}).encode()
OFFSET_KEY = struct.pack(">h", 1) + b"\0\7planted" + b"\0\1t" + struct.pack(">i", 0)
OFFSET = struct.pack(">hqih", 3, 5, -1, 7) + b"planted" + struct.pack(">q", 1)
BIG = "4111" * 6
CONTROL = 0x20


def schema_record(version: int, id_: int, type_: str) -> dict[str, bytes]:
    subject = {"subject": "planted-value", "version": version}
    schema = {"type": "record", "name": PLANTED, "fields": [{"name": "planted2", "type": type_}]}
    value = {**subject, "id": id_, "schema": json.dumps(schema), "deleted": False}
    key = {"keytype": "SCHEMA", "magic": 1, **subject}
    return {"key": json.dumps(key).encode(), "value": json.dumps(value).encode()}


def trace_text(
    *records: tuple[str, list[dict[str, Any]]],
    api_key: int = 0,
    withheld: bool = False,
    attributes: int = 0,
    **masks: Any,
) -> str:
    """Return the trace lines of Produce requests as text."""
    source = sample_registry()
    source.add(9, "JSON", '{"type": "object", "additionalProperties": {"type": "string"}}', "o-value")
    text = TextMasks([masks["text"]]) if "text" in masks else None
    values = None if withheld else RecordValues(source, Masks(masks.get("paths", ()), (), text))
    inspector = Inspector("t", Detail.FULL, record_values=values, withholds_records=withheld, frames=not withheld)
    lines = inspector.open(1, "c:1", "a:9092", at=0)
    for topic, batch_records in records:
        data = bytearray(encode([{"records": batch_records}]))
        data[22] |= attributes
        partition = {"index": 0, "records": bytes(data)}
        body = {"acks": 1, "timeout_ms": 9, "topic_data": [{"name": topic, "partition_data": [partition]}]}
        frame = bytearray(request("Produce", 9, body))
        frame[4:6] = api_key.to_bytes(2, "big")
        lines += inspector.receive_data(1, Direction.REQUEST, bytes(frame), at=0)
    return b"".join(map(encode_line, lines)).decode()


def contains(lines: str, planted: str) -> bool:
    base64_shapes = [
        base64.b64encode(bytes(shift) + planted.encode())[4 if shift else 0 : -4].decode() for shift in range(3)
    ]
    return any(shape in lines for shape in (planted, planted.encode().hex(), *base64_shapes))


@pytest.mark.parametrize(
    ("topic", "record", "masks"),
    [
        ("o", {"value": EVENT}, {"paths": ["value.type"]}),
        ("o", {"value": EVENT}, {"paths": ["value"]}),
        ("o", {"value": CONNECT}, {"paths": ["value"]}),
        ("o", {"value": CONNECT}, {"paths": ["value.x"]}),
        ("_schemas", {"key": b'{"keytype":"planted"}', "value": b"{}"}, {"paths": ["key"]}),
        ("__consumer_offsets", {"key": OFFSET_KEY, "value": OFFSET}, {"text": PLANTED}),
        ("__consumer_offsets", {"key": OFFSET_KEY, "value": OFFSET}, {"paths": ["key", "value.metadata"]}),
        ("o", {"key": b"\0\0\0\0planted", "value": b"planted"}, {"paths": ["key", "value"], "attributes": CONTROL}),
        ("o", {"key": b"planted", "value": b"planted"}, {"text": ".+", "attributes": CONTROL}),
        ("o", {"key": b"planted", "value": b"planted"}, {"withheld": True, "attributes": CONTROL}),
        ("o", {"value": b'\0\0\0\0\x09{"planted":1}'}, {"text": "^planted$"}),
        ("o", {"value": PLANTED.encode()}, {"paths": ["value"], "api_key": 8}),
    ],
)
def test_lines_do_not_contain_masked_text(topic: str, record: dict[str, Any], masks: dict[str, Any]) -> None:
    other_options = {name: value for name, value in masks.items() if name == "api_key"}
    assert contains(trace_text((topic, [record]), **other_options), PLANTED) or topic == "__consumer_offsets"
    assert not contains(trace_text((topic, [record]), **masks), PLANTED)


@pytest.mark.parametrize(
    ("value", "headers", "masks", "planted"),
    [
        (f'{{"card":{BIG}}}'.encode(), [], {"text": r"\d{16,}"}, hex(int(BIG))),
        (b"\0" + (4242424).to_bytes(4, "big") + b"xxxxx", [], {"paths": ["value"]}, "4242424"),
        (
            b"x",
            [{"key": "apicurio.value.globalId", "value": (4242424).to_bytes(8, "big")}],
            {"paths": ["header"]},
            "4242424",
        ),
    ],
)
def test_lines_do_not_contain_masked_numbers(
    value: bytes, headers: list[dict[str, Any]], masks: dict[str, Any], planted: str
) -> None:
    lines = trace_text(("o", [{"value": value, "headers": headers}]), **masks)
    assert planted not in lines
    assert BIG not in lines


def test_masks_names_in_observed_schemas() -> None:
    schemas = ("_schemas", [schema_record(1, 55, "long"), schema_record(2, 56, "string")])
    values = [("o", [{"value": b"\0\0\0\0" + data}]) for data in (b"\x37\x22", b"\x38\2a", b"\x37\x22\x22")]
    assert not contains(trace_text(schemas, *values, text=PLANTED), PLANTED)
    lines = trace_text(schemas, *values)
    assert "P010" in lines
    assert "planted2" in lines
