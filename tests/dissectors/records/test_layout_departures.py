"""Records written wrongly: each way is named first, or one that leaves the same bytes, with its first byte."""

from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import decode, encode
from dissectors.records.formats import entries
from dissectors.records.layout_departures import departures, write_departed
from dissectors.records.layout_variants import ENCODINGS

DATA = st.none() | st.binary(max_size=90)
HEADERS = st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": DATA}), max_size=3)

HEADER_SIZE = 61


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    start = draw(st.integers(0, 2**50))
    times = draw(st.lists(st.integers(0, 100_000), min_size=1, max_size=6))
    base = draw(st.integers(0, 2**40))
    records = [
        {"offset": base + index, "timestamp": start + time - times[0], "key": draw(DATA), "value": draw(DATA),
         "headers": draw(HEADERS)}
        for index, time in enumerate(times)
    ]  # fmt: skip
    codec = draw(st.sampled_from(["none", "none", "none", "gzip", "zstd"]))
    return {"base_offset": base, "base_timestamp": start, "compression": codec, "records": records}


@given(batch=batches(), written=st.sampled_from(list(ENCODINGS)))
def test_what_was_written_is_named(batch: dict[str, Any], written: str) -> None:
    data = write_departed(batch, written)
    [read] = decode(data)
    assert read["crc_valid"]
    found = departures(data)
    if "error" not in read:
        assert found == ()
        return
    assert written in [departure.written for departure in found]
    if batch["compression"] != "none":
        assert (found[0].offset, found[0].size) == (HEADER_SIZE, 0)


@given(batch=batches())
def test_a_batch_that_reads_well_departs_in_no_way(batch: dict[str, Any]) -> None:
    assert departures(encode([batch])) == ()


def test_what_kafka_wrote_departs_in_no_way(row: dict[str, Any]) -> None:
    data = row["data"]
    for start, end, magic, _ in entries(data, 0, len(data)):
        if magic == 2:
            assert departures(data[start:end]) == ()


TIME = 1_767_225_600_000
PLAIN = {
    "records": [
        {"timestamp": TIME, "key": b"key", "value": b"value of some length"},
        {"timestamp": TIME + 5, "key": None, "value": b"v" * 70, "headers": [{"key": "h", "value": b"x"}]},
        {"timestamp": TIME + 9, "key": b"", "value": None, "headers": [{"key": "h", "value": None}]},
    ]
}


@pytest.mark.parametrize("written", list(ENCODINGS))
def test_the_likeliest_way_is_the_right_one(written: str) -> None:
    data = write_departed(PLAIN, written)
    [first, *rivals] = departures(data)
    assert first.written == written or write_departed(PLAIN, first.written) == data
    assert all(write_departed(PLAIN, rival.written) == data for rival in rivals) or first.written == written


@pytest.mark.parametrize(
    ("written", "offset", "field"),
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
def test_points_at_the_first_byte_that_departs(written: str, offset: int, field: str) -> None:
    data = write_departed(PLAIN, written)
    [departure] = [departure for departure in departures(data) if departure.written == written]
    assert departure.offset == HEADER_SIZE + offset
    assert data[departure.offset : departure.offset + departure.size].hex() == field
    assert departure.sentence == ENCODINGS[written].sentence


def test_a_missing_field_that_cannot_be_told_from_another_has_rivals() -> None:
    # with all times alike, attributes, timestamp delta and offset delta of one record are three zeros
    batch = {"records": [{"timestamp": TIME, "value": b"a"}]}
    names = [departure.written for departure in departures(write_departed(batch, "timestamp_delta_missing"))]
    assert names == ["attributes_missing", "offset_delta_missing", "timestamp_delta_missing"]


def test_timestamps_tell_which_field_is_missing() -> None:
    for written in ("attributes_missing", "timestamp_delta_missing", "offset_delta_missing"):
        batch = {"records": [{"timestamp": TIME + 3 * index, "value": b"a"} for index in range(3)]}
        assert departures(write_departed(batch, written))[0].written == written


@given(payload=st.binary(max_size=200), count=st.integers(-2, 5))
def test_any_bytes_give_an_answer(payload: bytes, count: int) -> None:
    head = bytearray(encode([{"records": []}]))
    head[8:12] = (49 + len(payload)).to_bytes(4, "big")
    head[57:61] = count.to_bytes(4, "big", signed=True)
    for departure in departures(bytes(head) + payload):
        assert HEADER_SIZE <= departure.offset <= HEADER_SIZE + len(payload)


def test_a_batch_cut_short_departs_in_no_way() -> None:
    data = write_departed(PLAIN, "record_length_int32")
    assert departures(data[:60]) == ()
    assert departures(data[:-1]) == ()


def test_too_many_records_are_not_looked_at() -> None:
    data = write_departed({"records": [{"value": b"a"}] * 10_001}, "record_length_int32")
    assert departures(data) == ()


def test_a_departed_batch_has_the_right_length_and_crc() -> None:
    data = write_departed(PLAIN, "lengths_int32")
    assert int.from_bytes(data[8:12], "big") == len(data) - 12
    assert int.from_bytes(data[17:21], "big") == google_crc32c.value(data[21:])


def test_what_does_not_decompress_or_is_too_much_is_not_looked_at() -> None:
    packed = write_departed(PLAIN | {"compression": "gzip"}, "record_length_int32")
    assert departures(packed[:61] + b"no gzip") == ()
    large = {"records": [{"value": b"v" * (5 << 20)}]}
    assert departures(write_departed(large, "record_length_int32")) == ()
    assert departures(write_departed(large | {"compression": "zstd"}, "record_length_int32")) == ()


def test_an_unsigned_varint_that_never_ends_is_none() -> None:
    head = encode([{"records": [{}]}])[:61]
    assert departures(head + b"\xff" * 30) == ()
