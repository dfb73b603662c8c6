"""Records are shown with absolute offsets and times, and as text, JSON or hex."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest

from dissectors import records as wire
from kproxy.browse.fields.detail import build_frame_detail
from kproxy.browse.fields.records import MAX_BYTES, RecordPart, RecordsView, record_fields, records
from kproxy.trace.encoding import encode_json
from tests.kproxy.browse.sides import response_line
from tests.kproxy.capture_results import DATA
from tests.kproxy.frames import response


def fetched_records(data: bytes, limit: int = 200, topic: str = "t") -> RecordsView:
    """Return the records of a Fetch response."""
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": data}
    body = {"throttle_time_ms": 0, "responses": [{"topic": topic, "partitions": [partition]}]}
    [field] = record_fields(build_frame_detail(response_line(response("Fetch", 4, body), 1, 4)).fields)
    return records(field, limit)


def value_part(data: bytes | None) -> RecordPart:
    """Return the value of a record, as the view shows it."""
    [record] = fetched_records(wire.encode([{"records": [{"value": data}]}])).records
    return record.value


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_records_of_every_format_and_codec_are_read(magic: int, codec: str) -> None:
    if magic < 2 and codec == "zstd":
        return
    expected_records = [
        {"offset": 40 + number, "timestamp": 1_000 + number, "key": b"k%d" % number, "value": b"v"}
        for number in range(3)
    ]
    data = wire.encode([{"magic": magic, "compression": codec, "base_offset": 40, "records": expected_records}])
    records_view = fetched_records(data)
    assert [record.offset for record in records_view.records] == [40, 41, 42]
    assert [record.key.text for record in records_view.records] == ["k0", "k1", "k2"]
    if magic:
        assert [record.timestamp for record in records_view.records] == [1_000, 1_001, 1_002]
    assert (records_view.more, records_view.problems) == (0, [])
    assert all(record.field.path.startswith("responses[0].partitions[0].records[") for record in records_view.records)


@pytest.mark.slow
def test_records_written_by_kafka_are_read() -> None:
    with gzip.open(DATA / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        samples = [bytes.fromhex(json.loads(line)["hex"]) for line in lines]
    for data in samples:
        expected = [record for batch in wire.decode(data) for record in batch.get("records", ())]
        actual = fetched_records(data, 10_000).records
        assert [(record.offset, record.timestamp) for record in actual] == [
            (row["offset"], row.get("timestamp")) for row in expected
        ]
        assert [record.value.size for record in actual] == [
            None if row["value"] is None else len(row["value"]) for row in expected
        ]


def test_no_more_records_than_requested_are_read() -> None:
    batch = {"records": [{"value": b"v"}] * 700}
    records_view = fetched_records(wire.encode([batch, batch, batch]), 710)
    assert (len(records_view.records), records_view.more) == (710, 1_390)
    assert fetched_records(wire.encode([{"records": [{"value": b"v"}]}] * 1_000), 5).more is None


def test_headers_of_a_record_are_shown() -> None:
    headers = [{"key": "trace", "value": b"\x01\x80"}, {"key": "none", "value": None}]
    [record] = fetched_records(wire.encode([{"records": [{"value": b"", "headers": headers}]}])).records
    assert record.headers == (
        ("trace", RecordPart("hex", f"0000  01 80{' ' * 42}  ..", 2)),
        ("none", RecordPart("null")),
    )
    assert record.value == RecordPart("empty", size=0)


def test_representation_of_a_value_depends_on_its_content() -> None:
    assert value_part(None) == RecordPart("null")
    assert value_part("größer\n".encode()) == RecordPart("text", "größer\n", 9)
    assert value_part(b'{"a":1.10,"a":[1e400]}') == RecordPart(
        "json", '{\n  "a": 1.10,\n  "a": [\n    1e400\n  ]\n}', 22
    )
    assert value_part(b"{broken") == RecordPart("text", "{broken", 7)
    assert value_part(b"42") == RecordPart("text", "42", 2)
    assert value_part(b"\x1b[31mred") == RecordPart("hex", f"0000  1b 5b 33 31 6d 72 65 64{' ' * 24}  .[31mred", 8)
    assert value_part(b"[" * 10_000).form == "text"


def test_schema_registry_prefix_is_recognised() -> None:
    assert value_part(b'\x00\x00\x00\x00\x07{"a":1}') == RecordPart("json", '{\n  "a": 1\n}', 12, 7)
    avro = value_part(b"\x00\x00\x00\x00\x07\x02\x80")
    assert (avro.form, avro.schema_id) == ("hex", 7)
    assert avro.text.startswith("0000  00 00 00 00 07 02 80")
    assert value_part((1 << 40).to_bytes(8, "big")).schema_id is None


def test_long_value_is_truncated() -> None:
    part = value_part("ä".encode() * MAX_BYTES)
    assert (part.form, part.cut, part.size) == ("text", True, 2 * MAX_BYTES)
    assert len(part.text) == MAX_BYTES // 2


def test_records_of_internal_topics_are_shown_as_json() -> None:
    key = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x02"
    committed = b"\x00\x01" + (42).to_bytes(8, "big") + b"\x00\x00" + bytes(16)
    data = wire.encode([{"records": [{"key": key, "value": committed}]}])
    [record] = fetched_records(data, topic="__consumer_offsets").records
    assert (record.key.form, record.value.form) == ("OffsetCommitKey", "OffsetCommitValue")
    assert msgspec.json.decode(record.key.text)["data"] == {"group": "g", "topic": "t", "partition": 2}


def test_unreadable_records_are_reported_as_problems() -> None:
    valid = wire.encode([{"records": [{"value": b"v"}] * 3}])
    [problem] = fetched_records(valid[:-2] + b"\xff\xff").problems
    assert problem.startswith("[0]: [2].")
    corrupted = wire.encode([{"compression": "gzip", "records": [{"value": b"v"}]}])
    assert "not gzip" in fetched_records(corrupted[:61] + b"nonsense" + corrupted[69:]).problems[0]
    truncated_view = fetched_records(valid + valid[:30])
    assert len(truncated_view.records) == 3
    assert truncated_view.problems == ["[1]: truncated"]


def test_records_of_a_body_can_be_read_without_a_frame() -> None:
    row: dict[str, Any] = {"offset": 9, "timestamp": 5, "key": b"k", "value": b'{"a": 1}',
                           "headers": [{"key": "h", "value": b"x"}]}  # fmt: skip
    body = msgspec.json.decode(encode_json({"responses": [{"topic": "t",
                                           "partitions": [{"partition_index": 0,
                                           "records": [{"base_offset": 9, "records": [row]}]}]}]}))  # fmt: skip
    [field] = record_fields(build_frame_detail(response_line(None, 1, 4, body=body)).fields)
    [record] = records(field).records
    assert (record.offset, record.timestamp, record.key.text, record.value.form) == (9, 5, "k", "json")
    assert record.headers == (("h", RecordPart("text", "x", 1)),)
