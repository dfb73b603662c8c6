"""The three readers of record data report invalid bytes as one located error; decode and walk agree."""

import random
import struct
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import decode, encode, summarize, walk
from dissectors.wire.node import Node
from dissectors.wire.paths import render

HEADER = 61


def leaves(nodes: list[Node]) -> list[Node]:
    return [leaf for node in nodes for leaf in (leaves(node.children) if node.children else [node])]


def batch_of(payload: bytes, *, count: int, attributes: int = 0) -> bytes:
    """Return a batch of format 2 around bytes that need not be records."""
    header = struct.pack(">qiibIhiqqqhii", 0, 49 + len(payload), -1, 2, 0, attributes, 0, 0, 0, -1, -1, -1, count)
    return header + payload


def wrapper_of(payload: bytes, attributes: int) -> bytes:
    """Return a message of format 1 around bytes that need not be messages."""
    tail = struct.pack(">bbqii", 1, attributes, 0, -1, len(payload)) + payload
    return struct.pack(">qiI", 9, len(tail) + 4, 0) + tail


def decode_error(data: bytes, **options: Any) -> str:
    """Return the error that decode reports, after checking that walk agrees."""
    errors = [batch["error"] for batch in decode(data, **options) if "error" in batch]
    walked = walk(b"\xee" * 7 + data + b"\xee", 7, 7 + len(data), **options)
    assert walked.error is not None
    assert 7 <= walked.error.offset <= 7 + len(data)
    assert errors[0] == f"{render(walked.error.path[1:])}: {walked.error.message}"
    return errors[0]


def compress_with_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


RECORD = b"\x10\x00\x00\x00\x02k\x02v\x00"  # length 8: key k, value v


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (b"\x20\x00\x00\x00\x02k\x02v\x00", "records[0].length: length 16 does not fit: 8 bytes left"),
        (b"\x01", "records[0].length: length is -1"),
        (b"\x80", "records[0].length: bytes end inside a varint"),
        (b"\xff\xff\xff\xff\xff\x01", "records[0].length: varint of more than 32 bits"),
        (b"\xff\xff\xff\xff\x1f", "records[0].length: varint of more than 32 bits"),
        (b"\x00", "records[0].attributes: needs 1 byte, 0 left"),
        (b"\x18\x00" + b"\xff" * 10 + b"\x01", "records[0].timestamp_delta: varint of more than 64 bits"),
        (b"\x10\x00\x00\x00\x0ck\x02v\x00", "records[0].key: length 6 does not fit: 4 bytes left"),
        (b"\x10\x00\x00\x00\x02k\x03v\x00", "records[0].value: length is -2"),
        (b"\x0e\x00\x00\x00\x02k\x02v", "records[0].headers_count: bytes end inside a varint"),
        (b"\x10\x00\x00\x00\x02k\x02v\x01", "records[0].headers_count: count is -1"),
        (b"\x10\x00\x00\x00\x02k\x02v\x02", "records[0].headers: record ends after 0 of 1 header"),
        (b"\x14\x00\x00\x00\x02k\x02v\x02\x01\x01", "records[0].headers[0].key: length is -1"),
        (b"\x14\x00\x00\x00\x02k\x02v\x02\x00\x04", "records[0].headers[0].value: length 2 does not fit: 0 bytes left"),
        (b"\x14\x00\x00\x00\x02k\x02v\x02\x00\x03", "records[0].headers[0].value: length is -2"),
        (b"\x14\x00\x00\x00\x02k\x02v\x00zz", "records[0].length: length 10 is 2 bytes more than the fields take"),
    ],
)
def test_field_of_a_record_that_does_not_fit_is_named(record: bytes, error: str) -> None:
    assert decode_error(batch_of(record, count=1)) == error


def test_error_points_at_the_length_that_does_not_fit() -> None:
    data = batch_of(RECORD + b"\x10\x00\x00\x00\x02k\x7ev\x00", count=2)
    walked = walk(b"1234" + data, 4, 4 + len(data))
    assert walked.error is not None
    assert walked.error.path == ("0", "records", "1", "value")
    assert walked.error.offset == 4 + HEADER + len(RECORD) + 6


def test_records_before_a_bad_one_and_the_next_batch_are_kept() -> None:
    damaged_batch = batch_of(RECORD * 2 + b"\x03" + RECORD, count=4)
    first, second = decode(damaged_batch + encode([{"records": [{"value": b"next"}]}]))
    assert [record["value"] for record in first["records"]] == [b"v", b"v"]
    assert first["error"] == "records[2].length: length is -2"
    assert second["records"][0]["value"] == b"next"


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (3, "records: bytes end after 2 of 3 records"),
        (2**31 - 1, "records: bytes end after 2 of 2147483647 records"),
        (1, "records: 9 bytes left after 1 record"),
        (-5, "records: count is -5"),
    ],
)
def test_count_that_differs_from_the_records_is_rejected(count: int, error: str) -> None:
    assert decode_error(batch_of(RECORD * 2, count=count)) == error


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            b"\x00" * 7 + b"\x09" + b"\x00\x00\x00\x0d" + b"\x00" * 30,
            {"base_offset": 9, "error": "batch_length: length 13 is below the 14 bytes of the smallest message"},
        ),
        (
            b"\x00" * 11 + b"\x20" + b"\x00" * 4 + b"\x03" + b"\x00" * 25,
            {"base_offset": 0, "batch_length": 32, "error": "magic: record format 3 does not exist"},
        ),
    ],
)
def test_bytes_without_a_batch_are_unread(data: bytes, expected: dict[str, Any]) -> None:
    batch_bytes = encode([{"records": [{"value": b"v"}]}])
    assert decode(batch_bytes + data)[1] == expected | {"unread": len(data)}
    assert decode_error(batch_bytes + data) == summarize(batch_bytes + data).error == expected["error"]
    assert summarize(batch_bytes + data).trailing_bytes == len(data)
    assert leaves(walk(data, 0, len(data)).nodes)[-1].name == "unread"


def test_batch_shorter_than_its_header_ends_with_a_located_error() -> None:
    data = struct.pack(">qiib", 7, 20, 0, 2) + b"\x00" * 15
    assert decode(data) == [
        {"base_offset": 7, "batch_length": 20, "magic": 2, "error": "base_timestamp: needs 8 bytes, 5 left"}
    ]
    assert decode_error(data) == "base_timestamp: needs 8 bytes, 5 left"
    assert summarize(data).error == "batch 0: 32 bytes are too few for its header"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, 9), "value: length 9 does not fit: 0 bytes left"),
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -2, 0), "key: length is -2"),
        (struct.pack(">qiIbbiiH", 0, 16, 0, 0, 0, -1, -1, 0), "message_size: 2 bytes left after the value"),
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 1, -1, -1), "value: a compressed message without a value"),
        (struct.pack(">qiIbbqi", 0, 18, 0, 1, 0, 0, -1), "value: needs 4 bytes for its length, 0 left"),
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 4, -1, 0), "value: zstd does not exist in record format 0"),
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 7, -1, 0), "value: compression codec 7 does not exist"),
        (wrapper_of(b"\x00", 2), "value: a compressed message with none inside"),
    ],
)
def test_field_of_a_message_that_does_not_fit_is_named(data: bytes, error: str) -> None:
    assert decode_error(data) == error


BATCH_OF_26_BYTES = struct.pack(">qiib", 0, 14, 0, 2) + b"\x00" * 9


@pytest.mark.parametrize(
    ("content", "error", "byte"),
    [
        (encode([{"records": []}])[:40], "value[0]: decompressed bytes end inside this message", 0),
        (BATCH_OF_26_BYTES, "value[0].magic: a batch of format 2 inside a compressed message", 16),
        (b"\x00" * 20, "value[0].batch_length: length 0 is below the 14 bytes of the smallest message", 8),
    ],
)
def test_invalid_field_inside_a_wrapper_is_named(content: bytes, error: str, byte: int) -> None:
    assert decode_error(wrapper_of(compress_with_snappy(content), 2)) == f"{error} (byte {byte} once decompressed)"


def test_wrapper_inside_a_wrapper_is_not_opened() -> None:
    inner = encode([{"magic": 1, "compression": "gzip", "records": [{"value": b"deep"}]}])
    data = wrapper_of(compress_with_snappy(inner), 2)
    assert (
        decode_error(data) == "value[0].value: a compressed message inside a compressed one (byte 30 once decompressed)"
    )
    assert decode(data)[0]["records"] == []


def test_unknown_codec_leaves_the_records_undecoded() -> None:
    data = batch_of(b"payload", count=1, attributes=5)
    [batch] = decode(data)
    assert (batch["compression"], batch["records"]) == ("unknown(5)", [])
    assert decode_error(data) == "records: compression codec 5 does not exist"
    last_leaf = leaves(walk(data, 0, len(data)).nodes)[-1]
    assert (last_leaf.name, last_leaf.value, last_leaf.start, last_leaf.end) == (
        "records",
        b"payload",
        HEADER,
        len(data),
    )


def test_error_in_decompressed_records_points_at_the_compressed_ones() -> None:
    data = batch_of(compress_with_snappy(RECORD + b"\x03"), count=2, attributes=2)
    assert decode_error(data) == "records[1].length: length is -2 (byte 9 once decompressed)"
    walked = walk(b"1234" + data, 4, 4 + len(data))
    assert walked.error is not None
    assert walked.error.offset == 4 + HEADER
    assert {(leaf.start, leaf.end) for leaf in leaves(walked.nodes) if leaf.end > 4 + HEADER} == {
        (4 + HEADER, 4 + len(data))
    }


def check_readers_agree(data: bytes) -> None:
    """Check that no reader raises, that they agree on errors, and that leaves cover every byte once."""
    summary = summarize(memoryview(data))
    batches = decode(data, limit=1 << 16)
    walked = walk(b"abc" + data + b"d", 3, 3 + len(data), limit=1 << 16)
    assert summary.complete_bytes + summary.trailing_bytes == len(data)
    assert summary.batches == sum("truncated" not in batch and "unread" not in batch for batch in batches)
    errors = [batch["error"] for batch in batches if "error" in batch]
    assert errors[:1] == ([f"{render(walked.error.path[1:])}: {walked.error.message}"] if walked.error else [])
    assert len(walked.nodes) == len(batches)
    spans = sorted({(leaf.start, leaf.end) for leaf in leaves(walked.nodes) if leaf.start < leaf.end})
    assert [start for start, _ in spans] == [3, *(end for _, end in spans)][: len(spans)]
    assert (spans[-1][1] if spans else 3) == 3 + len(data)


@given(st.binary(max_size=200))
def test_readers_agree_on_arbitrary_bytes(data: bytes) -> None:
    check_readers_agree(data)


@given(
    st.integers(-1, 3), st.integers(0, 127), st.integers(-3, 2**31 - 1), st.binary(max_size=120), st.binary(max_size=9)
)
def test_readers_agree_on_arbitrary_bytes_after_a_plausible_header(
    magic: int, attributes: int, number: int, body: bytes, tail: bytes
) -> None:
    if magic == 2:
        fields = struct.pack(">hiqqqhii", attributes, 0, 0, 0, -1, -1, -1, number)
    else:
        fields = struct.pack(">b", attributes) + (struct.pack(">q", number) if magic == 1 else b"") + b"\xff" * 4
    rest = struct.pack(">ib", 0, magic) + (b"\x00" * 4 if magic == 2 else b"") + fields + body
    check_readers_agree(struct.pack(">qi", number, len(rest)) + rest + tail)


def test_readers_agree_on_damaged_kafka_batches(row: dict[str, Any]) -> None:
    rng = random.Random(row["name"])
    if not row["data"] or len(row["data"]) > 2000:
        return
    for _ in range(40):
        data = bytearray(row["data"])
        for _ in range(rng.choice((1, 2, 4))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        check_readers_agree(bytes(data))


def test_varint_is_not_read_beyond_the_end_of_the_records() -> None:
    header = struct.pack(">iBIhiqqqhii", -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    check_readers_agree(struct.pack(">qi", 0, len(header) + 2) + header + b"\x80\x80" + b"\x80\x80")
