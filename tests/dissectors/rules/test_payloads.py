"""Serialized values broken by hand get the right finding about their envelope or value; valid values get none."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from dissectors.records import encode
from dissectors.values import Schema
from dissectors.values.compatibility import conflict
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.inspection.text_masks import TextMasks
from kproxy.registry import SchemaSource, SchemaSources
from kproxy.registry.directory import SchemaDirectory
from kproxy.trace.lines import FindingEntry, RequestLine
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.frames import request
from tests.serialized import (
    JSON_ORDER,
    KEY,
    ORDER,
    ORDER_SCHEMA,
    PAYMENT,
    PROTO_PAYMENT,
    InMemoryRegistry,
    sample_registry,
)

CHANGED_ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'


UNMASKED = Masks(())


def produce_frame(topic: str, records: list[dict[str, Any]], compression: str = "none") -> bytes:
    """Return the frame of a Produce request."""
    partition = {"index": 0, "records": encode([{"records": records, "compression": compression}])}
    body = {"acks": 1, "timeout_ms": 100, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    return request("Produce", 9, body)


def frame_findings(frame: bytes, source: SchemaSource, masks: Masks = UNMASKED) -> list[FindingEntry]:
    inspector = Inspector("t", record_values=RecordValues(source, masks))
    inspector.open(1, "a:1", "b:9092", at=0)
    [line] = inspector.receive_data(1, 0, frame, at=1)  # type: ignore[arg-type]
    assert isinstance(line, RequestLine)
    return line.findings


def produce_findings(
    topic: str, records: list[dict[str, Any]], source: InMemoryRegistry, masks: Masks = UNMASKED
) -> list[FindingEntry]:
    """Return the findings about records that are produced to a topic."""
    return frame_findings(produce_frame(topic, records), source, masks)


def order_record(value: bytes | None = ORDER, key: bytes = KEY) -> dict[str, Any]:
    return {"key": key, "value": value}


PROTO_VALUE = PROTO_PAYMENT[7:]
#: Case -> topic, valid records before the broken one, the broken record, code, part of the message.
BROKEN = {
    "unknown id": (
        "orders",
        [order_record()] * 3,
        order_record(ORDER[:4] + b"\x09" + ORDER[5:]),
        "P001",
        "nobody registered",
    ),
    "id of another subject": (
        "orders",
        [order_record()] * 3,
        order_record(PAYMENT),
        "P002",
        "(Payment) belongs to payments-value",
    ),
    "key and value swapped": ("orders", [], order_record(KEY, ORDER), "P003", "(Order) belongs to orders-value"),
    "no envelope": ("orders", [order_record()] * 3, order_record(ORDER[5:]), "P004", "no schema id"),
    "little-endian id": (
        "orders",
        [order_record()] * 3,
        order_record(b"\0\2\0\0\0" + ORDER[5:]),
        "P004",
        "in little-endian order",
    ),
    "no magic byte": (
        "orders",
        [order_record()] * 3,
        order_record(ORDER[1:]),
        "P001",
        "the zero byte before the id is missing",
    ),
    "other magic byte": (
        "orders",
        [order_record()] * 3,
        order_record(b"\7" + ORDER[1:]),
        "P004",
        "before the id is 7, not 0",
    ),
    "base64": ("orders", [order_record()] * 3, order_record(base64.b64encode(ORDER)), "P004", "is written in base64"),
    "two envelopes": ("orders", [], order_record(ORDER[:5] + ORDER), "P005", "id 2 is written twice"),
    "leftover bytes": ("orders", [], order_record(ORDER + b"\0"), "P006", "(Order): 1 byte left after the value"),
    "message index too high": (
        "bills",
        [],
        {"value": PROTO_PAYMENT[:5] + b"\2\4" + PROTO_VALUE},
        "P007",
        "no message with index 2; they fit shop.Payment (index 1)",
    ),
    "no message index": (
        "bills",
        [],
        {"value": PROTO_PAYMENT[:5] + PROTO_VALUE},
        "P007",
        "without message indexes they fit shop.Payment (index 1)",
    ),
    "message index of another message": (
        "bills",
        [],
        {"value": PROTO_PAYMENT[:5] + b"\0" + PROTO_VALUE},
        "P008",
        "fields that shop.Order does not have: 3",
    ),
    "cut off": ("orders", [], order_record(ORDER[:-5]), "P008", "(Order): tags"),
    "JSON under an Avro id": ("orders", [], order_record(ORDER[:5] + b'{"id": 17}'), "P008", "(Order): "),
    "invalid JSON": ("events", [], {"value": JSON_ORDER.replace(b"17", b"null")}, "P009", "id violates 'type'"),
    "incompatible schema": (
        "orders",
        [order_record()],
        order_record(b"\0\0\0\0\6\2a"),
        "P010",
        "id: the reader has string",
    ),
}


@pytest.mark.parametrize(
    ("topic", "valid_records", "broken_record", "code", "message_part"), BROKEN.values(), ids=BROKEN
)
def test_broken_envelope_has_one_finding(
    topic: str, valid_records: list[dict[str, Any]], broken_record: dict[str, Any], code: str, message_part: str
) -> None:
    source = sample_registry()
    source.add(6, "AVRO", CHANGED_ORDER, "orders-value")
    assert not valid_records or produce_findings(topic, valid_records, source) == []
    reported = produce_findings(topic, [*valid_records, broken_record, broken_record], source)
    expected = ["P003", "P003"] if code == "P003" else [code]  # the key and the value
    assert [finding.code for finding in reported] == expected
    assert message_part in "; ".join(finding.message for finding in reported)
    assert reported[0].blame == "client"
    path = reported[0].path or ""
    assert path.startswith(f"topic_data[0].partition_data[0].records[0].records[{len(valid_records)}].")
    start, end = reported[0].span or (0, 0)
    data = broken_record[path.rpartition(".")[2]]
    assert (
        data[len(data) - (end - start) :]
        == produce_frame(topic, [*valid_records, broken_record, broken_record])[start:end]
    )


def test_finding_points_at_the_leftover_bytes() -> None:
    record = order_record(ORDER + b"!?")
    frame = produce_frame("orders", [record])
    [finding] = frame_findings(frame, sample_registry())
    assert finding.span is not None
    assert (finding.code, frame[slice(*finding.span)]) == ("P006", b"!?")
    frame = produce_frame("orders", [record], "gzip")
    [finding] = frame_findings(frame, sample_registry())
    assert finding.span is not None
    assert frame[slice(*finding.span)].startswith(b"\x1f\x8b")  # the whole compressed data


def test_id_missing_in_a_schema_directory_is_reported_as_information(tmp_path: Path) -> None:
    (tmp_path / "2.orders-value.avsc").write_text(ORDER_SCHEMA)
    unlisted_record, swapped_record = (
        order_record(ORDER[:1] + key + ORDER[5:], b"") for key in (b"\0\0\0\x09", b"\2\0\0\0")
    )
    frames = [
        produce_frame("orders", [*[order_record(key=b"")] * 3, record]) for record in (unlisted_record, swapped_record)
    ]
    directory = SchemaDirectory(tmp_path)
    [unlisted_finding], [little_endian] = (frame_findings(frame, directory) for frame in frames)
    text = f"orders, value: {tmp_path} has no schema with id 9; other records of the topic have id 2"
    assert (unlisted_finding.code, unlisted_finding.severity, unlisted_finding.message) == ("P001", "info", text)
    assert little_endian.message.endswith(": the id is written in little-endian order")
    assert little_endian.severity == "error"
    assert (
        frame_findings(produce_frame("orders", [order_record(key=b"")] * 2 + [unlisted_record] * 3), directory) == []
    )  # this may be chance
    [denied_finding] = frame_findings(
        frames[0], SchemaSources([directory, sample_registry()])
    )  # the registry knows that nobody registered it
    assert (denied_finding.severity, denied_finding.message[:40]) == (
        "error",
        "orders, value: nobody registered the sch",
    )


def test_valid_records_of_each_format_have_no_findings() -> None:
    records = [
        order_record(), order_record(None), order_record(b""), {"key": b"text", "value": b'{"id": 17}'},
        {"value": (1 << 40).to_bytes(8, "big")}, {"value": b"\xa1aa\1"}, {"value": b"\x81\xa1a\1"},
    ]  # fmt: skip
    for topic, record in [("bills", {"value": PROTO_PAYMENT}), ("events", {"value": JSON_ORDER})]:
        assert produce_findings(topic, [record] * 5, sample_registry()) == []
    for record in records:
        assert produce_findings("orders", [record] * 5, sample_registry()) == []


def test_finding_contains_no_part_of_a_masked_value() -> None:
    source = sample_registry()
    source.add(5, "JSON", '{"additionalProperties": {"type": "integer"}}', "events-value")
    record = {"value": JSON_ORDER[:5] + b'{"planted": ""}'}
    [finding] = produce_findings("events", [record], source)
    assert "planted violates" in finding.message
    [finding] = produce_findings("events", [record], source, Masks(["value.a"]))
    assert (finding.code, "planted" in str(finding)) == ("P009", False)
    [finding] = produce_findings("events", [record], source, Masks((), text_masks=TextMasks(["plant"])))
    assert finding.message.endswith(": (masked)")


CAPTURES = sorted((DATA / "pcap").glob("*.pcap.gz"))


@pytest.mark.parametrize(
    "path",
    [
        capture if capture.name == "kcat-4.3.1.pcap.gz" else pytest.param(capture, marks=pytest.mark.wide)
        for capture in CAPTURES
    ],
    ids=lambda path: path.name,
)
def test_real_captures_have_no_payload_findings(path: Path) -> None:
    lines = lines_of(path, record_values=RecordValues(sample_registry(), Masks(())))
    reported = [finding for line in lines for finding in getattr(line, "findings", ())]
    assert [f"{finding.code} {finding.message}" for finding in reported if finding.code.startswith("P")] == []


RECORD_SCHEMA = '{{"type": "record", "name": "R", "fields": [{}]}}'
ENUM_SCHEMA = '{{"type": "enum", "name": "E", "symbols": [{}]}}'
FIELD_A = '{"name": "a", "type": "int"}'


@pytest.mark.parametrize(
    ("schema_type", "writer", "reader", "reason"),
    [
        ("AVRO", '"int"', '"double"', None),
        ("AVRO", '"long"', '"int"', "the reader has int, the writer long"),
        ("AVRO", '["null", "int"]', '"int"', "the reader has int, the writer null"),
        ("AVRO", '"int"', '["null", "long"]', None),
        ("AVRO", '"string"', '["null", "int"]', "no branch of the reader's union reads string"),
        ("AVRO", RECORD_SCHEMA.format(FIELD_A),
         RECORD_SCHEMA.format('{"name": "b", "aliases": ["a"], "type": "int"}'), None),
        ("AVRO", RECORD_SCHEMA.format(""), RECORD_SCHEMA.format(FIELD_A),
         "a: the reader needs this field, which has no default"),
        ("AVRO", '{"type": "map", "values": "int"}', '{"type": "map", "values": "string"}',
         "[]: the reader has string, the writer int"),
        ("AVRO", ENUM_SCHEMA.format('"A", "B"'), ENUM_SCHEMA.format('"A"'), "the reader has no symbol B"),
        ("AVRO", "{", '"int"', None),
        ("PROTOBUF", "message A { int32 a = 1; }", "message A { bool b = 1; string c = 2; }", None),
        ("PROTOBUF", "message A { int32 a = 1; }", "message A { string a = 1; }",
         "field 1 of A was int32 and is string"),
        ("JSON", '{"properties": {"a": {"type": "integer"}}}', '{"properties": {"a": {"type": "number"}}}', None),
        ("JSON", '{"type": "object"}', '{"required": ["a"]}', "a became required"),
        ("JSON", '{"properties": {"a": {"type": "integer"}}}', '{"properties": {"a": {"type": "string"}}}',
         "a was integer and is string"),
        ("JSON", '{"required": 5, "properties": [], "type": {}}', '{"required": [5], "type": 7}', None),
    ],
)  # fmt: skip
def test_incompatible_reader_schema_is_explained(
    schema_type: str, writer: str, reader: str, reason: str | None
) -> None:
    writer_text, reader_text = (
        'syntax = "proto3"; ' * (schema_type == "PROTOBUF") + schema_text for schema_text in (writer, reader)
    )
    assert conflict(reader=Schema(schema_type, reader_text), writer=Schema(schema_type, writer_text)) == reason
    assert conflict(reader=Schema(schema_type, writer_text), writer=Schema(schema_type, writer_text)) is None


def test_schemas_of_different_formats_are_incompatible() -> None:
    assert conflict(reader=Schema("JSON", "{}"), writer=Schema("AVRO", '"int"')) == "it was AVRO and is JSON"
