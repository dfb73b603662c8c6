"""Each wrong way to write records is named first (or another with the same bytes is), with its first byte."""

from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import decode, encode
from dissectors.records.formats import entries
from dissectors.records.layout_deviations import deviations, write_deviating_batch
from dissectors.records.layout_variants import ENCODINGS

DATA = st.none() | st.binary(max_size=90)
HEADERS = st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": DATA}), max_size=3)

HEADER_SIZE = 61


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    start = draw(st.integers(0, 2**50))
    timestamps = draw(st.lists(st.integers(0, 100_000), min_size=1, max_size=6))
    base = draw(st.integers(0, 2**40))
    records = [
        {"offset": base + index, "timestamp": start + offset_ms - timestamps[0], "key": draw(DATA), "value": draw(DATA),
         "headers": draw(HEADERS)}
        for index, offset_ms in enumerate(timestamps)
    ]  # fmt: skip
    codec = draw(st.sampled_from(["none", "none", "none", "gzip", "zstd"]))
    return {"base_offset": base, "base_timestamp": start, "compression": codec, "records": records}


@pytest.mark.slow
@given(batch=batches(), written=st.sampled_from(list(ENCODINGS)))
def test_deviation_that_was_written_is_named(batch: dict[str, Any], written: str) -> None:
    data = write_deviating_batch(batch, written)
    [decoded] = decode(data)
    assert decoded["crc_valid"]
    candidates = deviations(data)
    if "error" not in decoded:
        assert candidates == ()
        return
    assert written in [deviation.written for deviation in candidates]
    if batch["compression"] != "none":
        assert (candidates[0].offset, candidates[0].size) == (HEADER_SIZE, 0)


@pytest.mark.slow
@given(batch=batches())
def test_valid_batch_has_no_deviations(batch: dict[str, Any]) -> None:
    assert deviations(encode([batch])) == ()


def test_batches_written_by_kafka_have_no_deviations(row: dict[str, Any]) -> None:
    data = row["data"]
    for start, end, magic, _ in entries(data, 0, len(data)):
        if magic == 2:
            assert deviations(data[start:end]) == ()


TIME = 1_767_225_600_000
PLAIN = {
    "records": [
        {"timestamp": TIME, "key": b"key", "value": b"value of some length"},
        {"timestamp": TIME + 5, "key": None, "value": b"v" * 70, "headers": [{"key": "h", "value": b"x"}]},
        {"timestamp": TIME + 9, "key": b"", "value": None, "headers": [{"key": "h", "value": None}]},
    ]
}


@pytest.mark.parametrize("written", list(ENCODINGS))
def test_most_likely_deviation_is_the_correct_one(written: str) -> None:
    data = write_deviating_batch(PLAIN, written)
    [likeliest, *rivals] = deviations(data)
    assert likeliest.written == written or write_deviating_batch(PLAIN, likeliest.written) == data
    assert all(write_deviating_batch(PLAIN, rival.written) == data for rival in rivals) or likeliest.written == written


@pytest.mark.parametrize(
    ("written", "offset", "expected_bytes"),
    [
        ("record_length_int32", 0, "0000001d"),
        ("record_length_unsigned", 0, "1d"),
        ("lengths_unsigned", 0, "1d"),
        ("headers_missing", 29, ""),
        ("attributes_missing", 1, ""),
        ("offset_delta_missing", 3, ""),
        ("key_length_int32", 4, "00000003"),
        ("value_length_int32", 8, "00000014"),
        ("record_length_missing", 0, ""),
    ],
)
def test_deviation_points_at_its_first_byte(written: str, offset: int, expected_bytes: str) -> None:
    data = write_deviating_batch(PLAIN, written)
    [deviation] = [deviation for deviation in deviations(data) if deviation.written == written]
    assert deviation.offset == HEADER_SIZE + offset
    assert data[deviation.offset : deviation.offset + deviation.size].hex() == expected_bytes
    assert deviation.sentence == ENCODINGS[written].sentence


def test_ambiguous_missing_field_has_rivals() -> None:
    # if all times are equal, the attributes, timestamp delta and offset delta of a single record are three zeros
    batch = {"records": [{"timestamp": TIME, "value": b"a"}]}
    names = [deviation.written for deviation in deviations(write_deviating_batch(batch, "timestamp_delta_missing"))]
    assert names == ["attributes_missing", "offset_delta_missing", "timestamp_delta_missing"]


def test_timestamps_reveal_which_field_is_missing() -> None:
    for written in ("attributes_missing", "timestamp_delta_missing", "offset_delta_missing"):
        batch = {"records": [{"timestamp": TIME + 3 * index, "value": b"a"} for index in range(3)]}
        assert deviations(write_deviating_batch(batch, written))[0].written == written


@given(payload=st.binary(max_size=200), count=st.integers(-2, 5))
def test_arbitrary_payload_gives_offsets_inside_it(payload: bytes, count: int) -> None:
    header = bytearray(encode([{"records": []}]))
    header[8:12] = (49 + len(payload)).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big", signed=True)
    for deviation in deviations(bytes(header) + payload):
        assert HEADER_SIZE <= deviation.offset <= HEADER_SIZE + len(payload)


def test_truncated_batch_has_no_deviations() -> None:
    data = write_deviating_batch(PLAIN, "record_length_int32")
    assert deviations(data[:60]) == ()
    assert deviations(data[:-1]) == ()


def test_batch_with_too_many_records_is_not_examined() -> None:
    data = write_deviating_batch({"records": [{"value": b"a"}] * 10_001}, "record_length_int32")
    assert deviations(data) == ()


def test_deviating_batch_has_the_correct_length_and_crc() -> None:
    data = write_deviating_batch(PLAIN, "lengths_int32")
    assert int.from_bytes(data[8:12], "big") == len(data) - 12
    assert int.from_bytes(data[17:21], "big") == google_crc32c.value(data[21:])


def test_invalid_or_large_compressed_batch_is_not_examined() -> None:
    compressed = write_deviating_batch(PLAIN | {"compression": "gzip"}, "record_length_int32")
    assert deviations(compressed[:61] + b"no gzip") == ()
    large = {"records": [{"value": b"v" * (5 << 20)}]}
    assert deviations(write_deviating_batch(large, "record_length_int32")) == ()
    assert deviations(write_deviating_batch(large | {"compression": "zstd"}, "record_length_int32")) == ()


def test_unterminated_unsigned_varint_is_not_a_deviation() -> None:
    header = encode([{"records": [{}]}])[:61]
    assert deviations(header + b"\xff" * 30) == ()
