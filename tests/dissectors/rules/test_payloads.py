"""Broken envelopes and values get the right finding, and nothing else does: values of serializers, broken by hand."""

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
from kproxy.registry import SchemaSource, Sources
from kproxy.registry.directory import SchemaDirectory
from kproxy.trace.lines import FindingEntry, RequestLine
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.frames import request
from tests.serialized import JSON_ORDER, KEY, ORDER, ORDER_SCHEMA, PAYMENT, PROTO_PAYMENT, Registered, registered

CHANGED_ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'


UNMASKED = Masks(())


def produce(topic: str, records: list[dict[str, Any]], compression: str = "none") -> bytes:
    """The frame of a Produce request."""
    partition = {"index": 0, "records": encode([{"records": records, "compression": compression}])}
    body = {"acks": 1, "timeout_ms": 100, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    return request("Produce", 9, body)


def findings(frame: bytes, source: SchemaSource, masks: Masks = UNMASKED) -> list[FindingEntry]:
    inspector = Inspector("t", record_values=RecordValues(source, masks))
    inspector.open(1, "a:1", "b:9092", at=0)
    [line] = inspector.data(1, 0, frame, at=1)  # type: ignore[arg-type]
    assert isinstance(line, RequestLine)
    return line.findings


def produced(
    topic: str, records: list[dict[str, Any]], source: Registered, masks: Masks = UNMASKED
) -> list[FindingEntry]:
    """The findings about records that are produced to a topic."""
    return findings(produce(topic, records), source, masks)


def order(value: bytes | None = ORDER, key: bytes = KEY) -> dict[str, Any]:
    return {"key": key, "value": value}


PROTO = PROTO_PAYMENT[7:]
#: topic, valid records before it, the broken record, code, part of the message.
BROKEN = {
    "unknown id": ("orders", [order()] * 3, order(ORDER[:4] + b"\x09" + ORDER[5:]), "P001", "nobody registered"),
    "id of another subject": ("orders", [order()] * 3, order(PAYMENT), "P002", "(Payment) belongs to payments-value"),
    "key and value swapped": ("orders", [], order(KEY, ORDER), "P003", "(Order) belongs to orders-value"),
    "no envelope": ("orders", [order()] * 3, order(ORDER[5:]), "P004", "no schema id"),
    "little-endian id": ("orders", [order()] * 3, order(b"\0\2\0\0\0" + ORDER[5:]), "P004", "in little-endian order"),
    "no magic byte": ("orders", [order()] * 3, order(ORDER[1:]), "P001", "the zero byte before the id is missing"),
    "other magic byte": ("orders", [order()] * 3, order(b"\7" + ORDER[1:]), "P004", "before the id is 7, not 0"),
    "base64": ("orders", [order()] * 3, order(base64.b64encode(ORDER)), "P004", "is written in base64"),
    "two envelopes": ("orders", [], order(ORDER[:5] + ORDER), "P005", "id 2 is written twice"),
    "leftover bytes": ("orders", [], order(ORDER + b"\0"), "P006", "(Order): 1 byte left after the value"),
    "message index too high": ("bills", [], {"value": PROTO_PAYMENT[:5] + b"\2\4" + PROTO}, "P007",
                               "no message with index 2; they fit shop.Payment (index 1)"),
    "no message index": ("bills", [], {"value": PROTO_PAYMENT[:5] + PROTO}, "P007",
                         "without message indexes they fit shop.Payment (index 1)"),
    "message index of another message": ("bills", [], {"value": PROTO_PAYMENT[:5] + b"\0" + PROTO}, "P008",
                                         "fields that shop.Order does not have: 3"),
    "cut off": ("orders", [], order(ORDER[:-5]), "P008", "(Order): tags"),
    "JSON under an Avro id": ("orders", [], order(ORDER[:5] + b'{"id": 17}'), "P008", "(Order): "),
    "invalid JSON": ("events", [], {"value": JSON_ORDER.replace(b"17", b"null")}, "P009", "id violates 'type'"),
    "incompatible schema": ("orders", [order()], order(b"\0\0\0\0\6\2a"), "P010", "id: the reader has string"),
}  # fmt: skip


@pytest.mark.parametrize(("topic", "valid", "broken", "code", "text"), BROKEN.values(), ids=BROKEN)
def test_a_broken_envelope_has_one_finding(
    topic: str, valid: list[dict[str, Any]], broken: dict[str, Any], code: str, text: str
) -> None:
    source = registered()
    source.add(6, "AVRO", CHANGED_ORDER, "orders-value")
    assert not valid or produced(topic, valid, source) == []
    finding_entries = produced(topic, [*valid, broken, broken], source)
    expected = ["P003", "P003"] if code == "P003" else [code]  # the key and the value
    assert [finding_entry.code for finding_entry in finding_entries] == expected
    assert text in "; ".join(finding_entry.message for finding_entry in finding_entries)
    assert finding_entries[0].blame == "client"
    path = finding_entries[0].path or ""
    assert path.startswith(f"topic_data[0].partition_data[0].records[0].records[{len(valid)}].")
    start, end = finding_entries[0].span or (0, 0)
    data = broken[path.rpartition(".")[2]]
    assert data[len(data) - (end - start) :] == produce(topic, [*valid, broken, broken])[start:end]


def test_findings_name_the_bytes() -> None:
    leftover = order(ORDER + b"!?")
    frame = produce("orders", [leftover])
    [finding] = findings(frame, registered())
    assert finding.span is not None
    assert (finding.code, frame[slice(*finding.span)]) == ("P006", b"!?")
    frame = produce("orders", [leftover], "gzip")
    [finding] = findings(frame, registered())
    assert finding.span is not None
    assert frame[slice(*finding.span)].startswith(b"\x1f\x8b")  # all that is compressed


def test_ids_that_a_directory_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "2.orders-value.avsc").write_text(ORDER_SCHEMA)
    unlisted, swapped = (order(ORDER[:1] + key + ORDER[5:], b"") for key in (b"\0\0\0\x09", b"\2\0\0\0"))
    frames = [produce("orders", [*[order(key=b"")] * 3, each]) for each in (unlisted, swapped)]
    records = SchemaDirectory(tmp_path)
    [found], [little_endian] = (findings(frame, records) for frame in frames)
    text = f"orders, value: {tmp_path} has no schema with id 9; other records of the topic have id 2"
    assert (found.code, found.severity, found.message) == ("P001", "info", text)
    assert little_endian.message.endswith(": the id is written in little-endian order")
    assert little_endian.severity == "error"
    assert findings(produce("orders", [order(key=b"")] * 2 + [unlisted] * 3), records) == []  # may be chance
    [denied] = findings(frames[0], Sources([records, registered()]))  # a registry knows that nobody registered it
    assert (denied.severity, denied.message[:40]) == ("error", "orders, value: nobody registered the sch")


def test_valid_records_of_each_format_have_none() -> None:
    records = [
        order(), order(None), order(b""), {"key": b"text", "value": b'{"id": 17}'},
        {"value": (1 << 40).to_bytes(8, "big")}, {"value": b"\xa1aa\1"}, {"value": b"\x81\xa1a\1"},
    ]  # fmt: skip
    for topic, record in [("bills", {"value": PROTO_PAYMENT}), ("events", {"value": JSON_ORDER})]:
        assert produced(topic, [record] * 5, registered()) == []
    for record in records:
        assert produced("orders", [record] * 5, registered()) == []


def test_a_finding_has_no_part_of_a_masked_value() -> None:
    source = registered()
    source.add(5, "JSON", '{"additionalProperties": {"type": "integer"}}', "events-value")
    record = {"value": JSON_ORDER[:5] + b'{"planted": ""}'}
    [finding] = produced("events", [record], source)
    assert "planted violates" in finding.message
    [finding] = produced("events", [record], source, Masks(["value.a"]))
    assert (finding.code, "planted" in str(finding)) == ("P009", False)
    [finding] = produced("events", [record], source, Masks((), text=TextMasks(["plant"])))
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
def test_real_captures_are_silent(path: Path) -> None:
    lines = lines_of(path, record_values=RecordValues(registered(), Masks(())))
    found = [finding for line in lines for finding in getattr(line, "findings", ())]
    assert [f"{finding.code} {finding.message}" for finding in found if finding.code.startswith("P")] == []


RECORD = '{{"type": "record", "name": "R", "fields": [{}]}}'
ENUM = '{{"type": "enum", "name": "E", "symbols": [{}]}}'
A = '{"name": "a", "type": "int"}'


@pytest.mark.parametrize(
    ("type_", "writer", "reader", "reason"),
    [
        ("AVRO", '"int"', '"double"', None),
        ("AVRO", '"long"', '"int"', "the reader has int, the writer long"),
        ("AVRO", '["null", "int"]', '"int"', "the reader has int, the writer null"),
        ("AVRO", '"int"', '["null", "long"]', None),
        ("AVRO", '"string"', '["null", "int"]', "no branch of the reader's union reads string"),
        ("AVRO", RECORD.format(A), RECORD.format('{"name": "b", "aliases": ["a"], "type": "int"}'), None),
        ("AVRO", RECORD.format(""), RECORD.format(A), "a: the reader needs this field, which has no default"),
        ("AVRO", '{"type": "map", "values": "int"}', '{"type": "map", "values": "string"}',
         "[]: the reader has string, the writer int"),
        ("AVRO", ENUM.format('"A", "B"'), ENUM.format('"A"'), "the reader has no symbol B"),
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
def test_what_a_reader_cannot_read(type_: str, writer: str, reader: str, reason: str | None) -> None:
    before, after = ('syntax = "proto3"; ' * (type_ == "PROTOBUF") + each for each in (writer, reader))
    assert conflict(reader=Schema(type_, after), writer=Schema(type_, before)) == reason
    assert conflict(reader=Schema(type_, before), writer=Schema(type_, before)) is None


def test_another_format_is_incompatible() -> None:
    assert conflict(reader=Schema("JSON", "{}"), writer=Schema("AVRO", '"int"')) == "it was AVRO and is JSON"
