"""Decoded batches are compared with those of Kafka's own iterators."""

from collections.abc import Callable
from typing import Any

import pytest

from dissectors.records import decode, encode

BATCH_KEYS = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "magic": "magic",
    "compression": "compression",
    "crc": "crc",
    "crcValid": "crc_valid",
}
BATCH_V2_KEYS = {
    "timestampType": "timestamp_type",
    "maxTimestamp": "max_timestamp",
    "baseTimestamp": "base_timestamp",
    "producerId": "producer_id",
    "epoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
    "partitionLeaderEpoch": "partition_leader_epoch",
}


def as_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def as_kafka_record(record: dict[str, Any]) -> dict[str, Any]:
    printed = {
        "offset": record["offset"],
        "timestamp": record.get("timestamp", -1),
        "sequence": record.get("sequence", -1),
        "key_hex": as_hex(record["key"]),
        "value_hex": as_hex(record["value"]),
        "headers": [[header["key"], as_hex(header["value"])] for header in record.get("headers", [])],
    }
    if "control" in record:
        printed["control"] = record["control"]
    return printed


def without_control_value(record: dict[str, Any]) -> dict[str, Any]:
    """Return Kafka's record without the parsed value of a control record, which stays bytes here."""
    if "control" not in record:
        return record
    return record | {"control": {name: record["control"][name] for name in ("type", "version")}}


def test_decoded_batches_match_kafka(row: dict[str, Any]) -> None:
    batches = [batch for batch in decode(row["data"]) if "truncated" not in batch]
    assert len(batches) == len(row["batches"])
    for batch, expected in zip(batches, row["batches"], strict=True):
        assert "error" not in batch
        keys = BATCH_KEYS | (BATCH_V2_KEYS if batch["magic"] == 2 else {})
        assert {name: batch[decoded_name] for name, decoded_name in keys.items()} == {
            name: expected[name] for name in keys
        }
        assert batch.get("delete_horizon_ms") == expected.get("deleteHorizonMs")
        assert batch["batch_length"] + 12 == expected["size"]
        if batch["magic"] == 1:
            assert batch["timestamp_type"] == expected["timestampType"]
            assert batch["max_timestamp"] == expected["maxTimestamp"]
        assert [as_kafka_record(record) for record in batch["records"]] == [
            without_control_value(record) for record in expected["records"]
        ]


def test_truncated_end_is_the_last_entry(row: dict[str, Any]) -> None:
    truncated = [batch["truncated"] for batch in decode(row["data"]) if "truncated" in batch]
    assert truncated == ([row["trailing"]] if row["trailing"] else [])


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (5, {"truncated": 5}),
        (12, {"base_offset": 1200, "batch_length": 195, "truncated": 12}),
        (40, {"base_offset": 1200, "batch_length": 195, "magic": 2, "truncated": 40}),
        (206, {"base_offset": 1200, "batch_length": 195, "magic": 2, "truncated": 206}),
    ],
)
def test_truncated_batch_keeps_the_readable_header_fields(
    sample: Callable[[str], bytes], size: int, expected: dict[str, Any]
) -> None:
    assert decode(sample(f"truncated-v2-{size}"))[-1] == expected


def test_append_time_is_kept_alongside_the_create_time(sample: Callable[[str], bytes]) -> None:
    record = decode(sample("v2-none-append-time"))[0]["records"][0]
    assert (record["timestamp"], record["create_timestamp"]) == (1800000000456, 1700000000123)
    wrapper = {"magic": 1, "compression": "gzip", "timestamp_type": "LogAppendTime", "max_timestamp": 9}
    [batch] = decode(encode([wrapper | {"records": [{"create_timestamp": 3}]}]))
    assert batch["records"] == [{"offset": 0, "timestamp": 9, "create_timestamp": 3, "key": None, "value": None}]


def test_memoryview_is_decoded_to_bytes(sample: Callable[[str], bytes]) -> None:
    data = sample("v2-none")
    [batch] = decode(memoryview(bytearray(data)))
    assert batch == decode(data)[0]
    assert type(batch["records"][0]["key"]) is bytes


def test_header_key_with_invalid_utf8_is_preserved() -> None:
    data = encode([{"records": [{"headers": [{"key": "\udcff", "value": b""}]}]}])
    assert data.endswith(b"\x02\xff\x00")
    [batch] = decode(data)
    assert batch["records"][0]["headers"] == [{"key": "\udcff", "value": b""}]


def test_wrapper_at_offset_zero_keeps_the_inner_offsets() -> None:
    """librdkafka leaves the offset of the wrapper at 0 when it produces."""
    batch = {"magic": 1, "compression": "gzip", "last_offset": 0, "records": [{"value": b"a"}, {"value": b"b"}]}
    [decoded] = decode(encode([batch]))
    assert [record["offset"] for record in decoded["records"]] == [0, 1]
    assert "error" not in decoded


def test_wrapper_below_its_inner_offsets_is_an_error() -> None:
    batch = {"magic": 1, "compression": "gzip", "last_offset": 1, "records": [{"value": b"a"}] * 3}
    [decoded] = decode(encode([batch]))
    assert decoded["error"] == "value: offset 1 is below 2, the relative offset of the last message inside"
    assert len(decoded["records"]) == 3


def test_invalid_crc_inside_a_wrapper_is_reported_at_its_record() -> None:
    invalid_record = {"offset": 1, "timestamp": 5, "key": None, "value": b"b", "crc": 7, "crc_valid": False}
    valid_record = {"offset": 0, "timestamp": 5, "key": None, "value": b"a"}
    [decoded] = decode(encode([{"magic": 1, "compression": "snappy", "records": [valid_record, invalid_record]}]))
    assert decoded["records"] == [valid_record, invalid_record]
    assert decoded["crc_valid"]


def test_sequences_wrap_at_the_end_of_int32() -> None:
    [decoded] = decode(encode([{"producer_id": 1, "base_sequence": 2**31 - 1, "records": [{}, {}]}]))
    assert [record["sequence"] for record in decoded["records"]] == [2**31 - 1, 0]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"\x00\x00\x00\x01", {"type": "COMMIT", "version": 0}),
        (b"\x00\x01\x00\x63", {"type": "UNKNOWN", "version": 1}),
        (b"\x00\x01\x00", {"type": "UNKNOWN", "version": None}),
        (None, {"type": "UNKNOWN", "version": None}),
    ],
)
def test_key_of_a_control_record_gives_its_type(key: bytes | None, expected: dict[str, Any]) -> None:
    [decoded] = decode(encode([{"is_control": True, "records": [{"key": key}]}]))
    assert decoded["records"][0]["control"] == expected
