"""Encoded batches have the bytes that Kafka wrote, and decode returns what was encoded."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import decode, encode
from dissectors.records.compression import Decompressor
from dissectors.wire.errors import EncodeError


def complete_batches(data: bytes) -> list[dict[str, Any]]:
    return [batch for batch in decode(data) if "truncated" not in batch]


def without_compressed_size(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the batches without the fields that depend on the compression library."""
    return [{name: value for name, value in batch.items() if name not in ("crc", "batch_length")} for batch in batches]


def test_batches_written_by_kafka_are_reencoded(row: dict[str, Any]) -> None:
    batches = complete_batches(row["data"])
    encoded = encode(batches)
    if all(batch["compression"] == "none" for batch in batches):
        assert encoded == row["data"][: len(row["data"]) - row["trailing"]]
    else:
        assert without_compressed_size(decode(encoded)) == without_compressed_size(batches)


def test_compressed_payload_is_reencoded_byte_for_byte(row: dict[str, Any]) -> None:
    def decompressed_records(data: bytes) -> bytes | None:
        if len(data) < 61 or data[16] != 2 or data[22] & 7 == 0:
            return None
        end = 12 + int.from_bytes(data[8:12], "big")
        return Decompressor().decompress(data[22] & 7, data[61:end], offset=0)

    assert decompressed_records(encode(complete_batches(row["data"]))) == decompressed_records(row["data"])


INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
DATA = st.none() | st.binary(max_size=100)
TIME = st.integers(0, 2**60)


@st.composite
def batches_v2(draw: st.DrawFn) -> dict[str, Any]:
    base_offset, base_timestamp = draw(st.integers(0, 2**40)), draw(TIME)
    has_append_time, has_sequences = draw(st.booleans()), draw(st.booleans())
    batch: dict[str, Any] = {
        "base_offset": base_offset,
        "partition_leader_epoch": draw(INT32),
        "magic": 2,
        "compression": draw(st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])),
        "timestamp_type": "LogAppendTime" if has_append_time else "CreateTime",
        "is_transactional": draw(st.booleans()),
        "is_control": False,
        "last_offset_delta": draw(INT32),
        "base_timestamp": base_timestamp,
        "max_timestamp": draw(INT64),
        "producer_id": draw(INT64),
        "producer_epoch": draw(st.integers(-(2**15), 2**15 - 1)),
        "base_sequence": draw(st.integers(0, 2**31 - 1)) if has_sequences else -1,
    }
    batch["last_offset"] = base_offset + batch["last_offset_delta"]
    if draw(st.booleans()):
        batch["delete_horizon_ms"] = base_timestamp
    batch["records"] = []
    for delta in draw(st.lists(st.integers(0, 2**31 - 1), max_size=5)):
        headers = st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": DATA}), max_size=3)
        timestamp = draw(TIME)
        record = {
            "offset": base_offset + delta,
            "timestamp": batch["max_timestamp"] if has_append_time else timestamp,
            "key": draw(DATA),
            "value": draw(DATA),
            "headers": draw(headers),
        }
        if has_append_time:
            record["create_timestamp"] = timestamp
        if has_sequences:
            record["sequence"] = (batch["base_sequence"] + delta) & (2**31 - 1)
        batch["records"].append(record)
    return batch


@st.composite
def batches_v0_and_v1(draw: st.DrawFn) -> dict[str, Any]:
    magic = draw(st.integers(0, 1))
    compression = draw(st.sampled_from(["none", "gzip", "snappy", "lz4"]))
    has_append_time = magic == 1 and draw(st.booleans())
    wrapper_time = draw(TIME)
    size = 1 if compression == "none" else draw(st.integers(1, 4))
    base_offset = draw(st.integers(0, 2**40))
    records = []
    for index in range(size):
        record: dict[str, Any] = {"offset": base_offset + index, "key": draw(DATA), "value": draw(DATA)}
        if magic == 1:
            record["timestamp"] = wrapper_time if has_append_time or compression == "none" else draw(TIME)
        if has_append_time and compression != "none":
            record["create_timestamp"] = draw(TIME)
        records.append(record)
    batch = {
        "base_offset": base_offset,
        "last_offset": base_offset + size - 1,
        "magic": magic,
        "compression": compression,
    }
    if magic == 1:
        batch |= {
            "timestamp_type": "LogAppendTime" if has_append_time else "CreateTime",
            "max_timestamp": wrapper_time,
        }
    return batch | {"records": records}


@pytest.mark.slow
@given(st.lists(batches_v2() | batches_v0_and_v1(), max_size=3))
def test_decode_returns_what_was_encoded(batches: list[dict[str, Any]]) -> None:
    data = encode(batches)
    decoded = decode(data)
    assert all(batch.pop("crc_valid") for batch in decoded)
    assert sum(batch.pop("batch_length") + 12 for batch in decoded) == len(data)
    assert without_compressed_size(decoded) == batches
    assert encode(decode(data)) == data


def test_missing_batch_fields_are_derived_from_the_records() -> None:
    [batch] = decode(encode([{"records": [{"value": b"a", "timestamp": 5}, {"key": b"k", "timestamp": 4}]}]))
    assert batch["crc_valid"]
    assert (batch["base_timestamp"], batch["max_timestamp"], batch["last_offset"]) == (5, 5, 1)
    assert batch["producer_id"] == batch["base_sequence"] == -1
    assert [(record["offset"], record["timestamp"], record["key"], record["value"]) for record in batch["records"]] == [
        (0, 5, None, b"a"),
        (1, 4, b"k", None),
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_old_records_are_one_message_each(magic: int) -> None:
    records = [{"value": b"a"}, {"value": b"b"}]
    decoded = decode(encode([{"magic": magic, "base_offset": 7, "records": records}]))
    assert [batch["base_offset"] for batch in decoded] == [7, 8]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_invalid_crc_is_written_as_given(magic: int, compression: str) -> None:
    batch = {"magic": magic, "compression": compression, "records": [{"value": b"v"}]}
    [decoded] = decode(encode([batch | {"crc": 0xDEADBEEF, "crc_valid": False}]))
    assert (decoded["crc"], decoded["crc_valid"]) == (0xDEADBEEF, False)
    assert decode(encode([batch | {"crc": 0xDEADBEEF}]))[0]["crc_valid"]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"truncated": 5}, r"\[1\]: not a whole batch"),
        ({"unread": 5, "error": "?"}, r"\[1\]: not a whole batch"),
        ({"magic": 3}, r"\[1\]\.magic: record format 3 does not exist"),
        ({"compression": "lzo"}, r"\[1\]\.compression: compression lzo does not exist in format 2"),
        ({"magic": 1, "compression": "zstd"}, r"\[1\]\.compression: compression zstd does not exist in format 1"),
        ({"producer_id": 2**63}, r"\[1\]: "),
        ({"records": [{"key": 5}]}, r"\[1\]: "),
        ({"records": [{"headers": [{"value": b""}]}]}, r"\[1\]: KeyError: 'key'"),
    ],
)
def test_values_that_cannot_be_written_are_rejected(batch: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode([{"records": []}, batch])


def test_header_has_the_published_layout() -> None:
    data = encode([{"base_offset": 3, "partition_leader_epoch": 4, "producer_id": 5, "producer_epoch": 6,
                    "base_sequence": 7, "base_timestamp": 8, "max_timestamp": 9, "last_offset_delta": 1}])  # fmt: skip
    crc = struct.unpack_from(">I", data, 17)[0]
    assert data == struct.pack(">qiibIhiqqqhii", 3, 49, 4, 2, crc, 0, 1, 8, 9, 5, 6, 7, 0)
