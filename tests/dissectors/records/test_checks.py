"""Record data examined: what is wrong and at which bytes, and silence where nothing is."""

import struct
import zlib
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import encode
from dissectors.records.checks import MAX_SUSPECTS, Examined, examine
from dissectors.records.compression import compress
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.layout_departures import write_departed

TIME = 1_767_225_600_000
ONE = {"records": [{"timestamp": TIME, "value": b"a"}]}
TWO = {"records": [{"timestamp": TIME, "value": b"a"}, {"timestamp": TIME, "value": b"b"}]}
CRC = slice(17, 21)


def look(data: bytes, *, produced: bool = True) -> Examined:
    return examine(data, selects=lambda _: True, produced=produced)


def only(data: bytes, *, produced: bool = True) -> Fault:
    [fault] = look(data, produced=produced).faults
    return fault


def sealed(data: bytes | bytearray) -> bytes:
    """With the length and the CRC that the bytes should have."""
    out = bytearray(data)
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[CRC] = google_crc32c.value(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)


def changed(batch: dict[str, Any], at: int, new: str) -> bytes:
    data = bytearray(encode([batch]))
    data[at : at + len(bytes.fromhex(new))] = bytes.fromhex(new)
    return sealed(data)


def test_what_kafka_wrote_is_right(row: dict[str, Any]) -> None:
    found = look(row["data"], produced=False)
    wrong = {fault.kind for fault in found.faults if fault.proven or fault.kind is FaultKind.CRC}
    assert wrong == ({FaultKind.CRC} if row["name"] == "bad-crc-v2" else set())
    assert found.cut_off == row["trailing"]


@pytest.mark.parametrize(
    ("data", "kind", "path", "span"),
    [
        (changed(ONE, 57, "7fffffff"), FaultKind.ABSURD_COUNT, ("0", "records_count"), "7fffffff"),
        (changed(ONE, 57, "ffffffff"), FaultKind.ABSURD_COUNT, ("0", "records_count"), "ffffffff"),
        (changed(TWO, 57, "00000003"), FaultKind.COUNT, ("0", "records_count"), "00000003"),
        (changed(TWO, 57, "00000001"), FaultKind.COUNT, ("0", "records_count"), "00000001"),
        (changed(TWO, 23, "00000000"), FaultKind.LAST_OFFSET, ("0", "last_offset_delta"), "00000000"),
        (changed(TWO, 23, "00000002"), FaultKind.LAST_OFFSET, ("0", "last_offset_delta"), "00000002"),
        (changed(ONE, 21, "0007"), FaultKind.CODEC, ("0", "attributes"), "0007"),
        (changed(ONE, 21, "0003"), FaultKind.COMPRESSION, ("0", "records"), "0e00000001026100"),
        (changed(ONE, 66, "20"), FaultKind.LENGTH, ("0", "records", "0", "value"), "20"),
        (changed(TWO, 72, "04"), FaultKind.OFFSETS, ("0", "records", "1", "offset_delta"), "04"),
        (sealed(encode([ONE]) + b"\xff\xff"), FaultKind.LENGTH, ("0", "records"), "ffff"),
        (encode([{"records": []}]), FaultKind.COUNT, ("0", "records_count"), "00000000"),
        (encode([ONE])[:-1], FaultKind.LENGTH, ("0", "batch_length"), "00000039"),
        (encode([ONE]) + bytes(5), FaultKind.LENGTH, ("1", "batch_length"), "0000000000"),
        (encode([ONE]) + bytes(20), FaultKind.LENGTH, ("1", "batch_length"), "00000000"),
        (encode([ONE])[:16] + b"\x03" + encode([ONE])[17:], FaultKind.MAGIC, ("0", "magic"), "03"),
        (struct.pack(">qiib", 0, 14, 0, 2) + bytes(9), FaultKind.LENGTH, ("0", "batch_length"), "0000000e"),
    ],
)
def test_names_what_is_wrong_and_where(data: bytes, kind: FaultKind, path: tuple[str, ...], span: str) -> None:
    fault = only(data)
    assert (fault.kind, fault.path) == (kind, path)
    assert data[fault.start : fault.end].hex() == span


def test_a_header_without_a_key() -> None:
    data = encode([{"records": [{"value": b"a", "headers": [{"key": "k", "value": b"v"}]}]}])
    at = data.index(b"\x02k")
    record = bytes([data[61] - 2]) + data[62:at] + b"\x01" + data[at + 2 :]
    fault = only(sealed(data[:61] + record))
    assert fault.kind is FaultKind.HEADER_KEY
    assert fault.path == ("0", "records", "0", "headers", "0", "key")
    assert "the key of header 0 of record 0 is null" in fault.message


@pytest.mark.parametrize(
    ("checksum", "name"),
    [
        (lambda data: zlib.crc32(data[21:]), "CRC-32 (IEEE, as in zlib)"),
        (lambda data: google_crc32c.value(data[16:17] + data[21:]), "CRC-32C (Castagnoli) from the magic on"),
        (lambda data: google_crc32c.value(data[61:]), "CRC-32C (Castagnoli) of the records alone"),
        (lambda data: google_crc32c.value(data[21:]) ^ 0xFFFFFFFF, "without the final inversion"),
        (lambda data: int.from_bytes(google_crc32c.value(data[21:]).to_bytes(4, "little"), "big"), "in reverse order"),
    ],
)
def test_says_which_other_checksum_it_is(checksum: Callable[[bytes], int], name: str) -> None:
    data = encode([ONE])
    data = data[:17] + checksum(data).to_bytes(4, "big") + data[21:]
    fault = only(data)
    assert fault.kind is FaultKind.OTHER_CHECKSUM
    assert name in fault.message
    assert data[fault.start : fault.end] == data[CRC]


@pytest.mark.parametrize(
    ("written", "of"),
    [
        ({"timestamp_type": "LogAppendTime"}, "the timestamp type CreateTime"),
        ({}, "the timestamp type LogAppendTime"),
    ],
)
def test_says_to_which_timestamp_type_the_checksum_belongs(written: dict[str, str], of: str) -> None:
    other = {} if written else {"timestamp_type": "LogAppendTime"}
    data = bytearray(encode([TWO | written]))
    data[CRC] = encode([TWO | other])[CRC]
    assert only(bytes(data)).message.endswith(f"; it is that of the same batch with {of}")


@pytest.mark.parametrize(
    ("field", "of"),
    [
        ("is_transactional", "the transactional bit cleared"),
        ("is_control", "the control bit cleared"),
    ],
)
def test_says_to_which_attributes_the_checksum_belongs(field: str, of: str) -> None:
    data = bytearray(encode([TWO | {field: True}]))
    data[CRC] = encode([TWO])[CRC]
    assert only(bytes(data)).message.endswith(f"; it is that of the same batch with {of}")


def test_says_that_the_checksum_is_of_a_batch_without_a_producer() -> None:
    data = bytearray(encode([TWO | {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}]))
    data[CRC] = encode([TWO])[CRC]
    assert only(bytes(data)).message.endswith("; it is that of the same batch with no producer id, epoch and sequence")


def test_a_flipped_bit_in_the_records_belongs_to_no_other_header() -> None:
    data = bytearray(encode([TWO]))
    data[-1] ^= 1
    assert only(bytes(data)).message.startswith("the CRC is 0x")
    assert ";" not in only(bytes(data)).message


def test_the_versions_in_a_snappy_header_are_big_endian() -> None:
    data = bytearray(encode([TWO | {"compression": "snappy"}]))
    at = data.index(b"\x82SNAPPY\x00") + 8
    assert look(bytes(data)).faults == []
    data[at : at + 8] = struct.pack("<II", 1, 1)
    fault = only(sealed(data))
    assert fault.kind is FaultKind.SNAPPY_HEADER
    assert (fault.start, fault.end) == (at, at + 8)
    assert (
        fault.message
        == "the snappy header has the versions 16777216 and 16777216, should be 1 and 1: they are little-endian"
    )
    data[at : at + 8] = struct.pack(">II", 2, 1)
    assert only(sealed(data)).message == "the snappy header has the versions 2 and 1, should be 1 and 1"


def test_raw_snappy_has_no_header() -> None:
    packed = encode([TWO | {"compression": "snappy"}])
    assert look(sealed(packed[:61] + packed[81:])).faults == []


def test_the_right_checksum_of_one_format_is_the_wrong_one_of_another() -> None:
    data = bytearray(encode([{"magic": 1, "records": [{"value": b"a"}]}]))
    data[12:16] = google_crc32c.value(bytes(data[16:])).to_bytes(4, "big")
    assert only(bytes(data)).kind is FaultKind.OTHER_CHECKSUM


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_bytes_that_do_not_belong_to_their_crc(magic: int) -> None:
    data = encode([{"magic": magic, "records": [{"value": b"abc"}]}]).replace(b"abc", b"abd")
    assert only(data).kind is FaultKind.CRC


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_departure_is_all_that_is_said_of_its_batch(compression: str) -> None:
    data = write_departed(TWO | {"compression": compression}, "record_length_int32")
    fault = only(data, produced=False)
    assert fault.kind is FaultKind.ENCODING
    assert fault.departure is not None
    assert fault.departure.written == "record_length_int32"
    assert fault.start == 61
    assert data[fault.start : fault.end].hex() == "00000007" or (compression != "none" and fault.end == len(data))


def test_a_departure_that_may_be_another_says_so() -> None:
    fault = only(write_departed(ONE, "attributes_missing"))
    assert [rival.written for rival in fault.rivals] == ["offset_delta_missing", "timestamp_delta_missing"]
    assert "; or records have no offset delta before their key" in fault.message


def test_offsets_in_a_log_may_have_gaps_but_do_not_go_back() -> None:
    gaps = {"base_offset": 4, "last_offset_delta": 9, "records": [{"offset": 5}, {"offset": 11}]}
    after = {"base_offset": 14, "records": [{"offset": 14}]}
    assert not look(encode([gaps, after]), produced=False).faults
    assert only(encode([gaps, after | {"base_offset": 13}]), produced=False).kind is FaultKind.OFFSETS


def test_an_empty_batch_is_right_in_a_log() -> None:
    assert not look(encode([{"base_offset": 4, "last_offset_delta": 9, "records": []}]), produced=False).faults


def test_a_wrapper_of_format_1_with_damaged_contents() -> None:
    inner = encode([{"magic": 1, "records": [{"value": b"abc"}]}]).replace(b"abc", b"abd")
    payload = compress(1, inner, magic=1)
    body = struct.pack(">bbqii", 1, 1, TIME, -1, len(payload)) + payload
    data = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    assert only(data).kind is FaultKind.CRC
    assert only(data).path == ("0", "value")


def test_timestamps_far_apart() -> None:
    fault = only(encode([{"base_timestamp": 0, "records": [{"timestamp": TIME}]}]))
    assert fault.kind is FaultKind.TIMESTAMP
    assert fault.path == ("0", "records", "0", "timestamp_delta")


def test_only_some_bad_batches_are_looked_into() -> None:
    data = write_departed(TWO, "record_length_int32")
    assert len(look(data * 100, produced=False).faults) < 100 + MAX_SUSPECTS
    encodings = [fault for fault in look(data * 100, produced=False).faults if fault.kind is FaultKind.ENCODING]
    assert len(encodings) == MAX_SUSPECTS


def test_what_is_not_wanted_is_not_looked_into() -> None:
    data = write_departed(TWO, "record_length_int32")
    assert not examine(data, selects=lambda _: False, produced=True).faults
    # a header that contradicts itself is reason enough
    assert examine(changed(TWO, 57, "00000003"), selects=lambda _: False, produced=True).faults


GOOD = st.sampled_from(
    [encode([TWO]), encode([TWO | {"compression": "gzip"}]), encode([ONE, TWO]), write_departed(TWO, "headers_missing"),
     encode([{"magic": 1, "compression": "gzip", "records": [{"value": b"a"}, {"value": b"b"}]}])]
)  # fmt: skip


@given(data=GOOD, at=st.integers(0, 150), new=st.binary(max_size=9), seal=st.booleans(), produced=st.booleans())
def test_no_bytes_raise(data: bytes, at: int, new: bytes, seal: bool, produced: bool) -> None:
    damaged = data[:at] + new + data[at + len(new) :]
    if seal and len(damaged) > 61:
        damaged = sealed(damaged)
    for fault in look(damaged, produced=produced).faults:
        assert 0 <= fault.start <= fault.end <= len(damaged)


def message(body: bytes) -> bytes:
    """A message of format 0 or 1 around what follows its CRC."""
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize(
    ("body", "kind", "path"),
    [
        (struct.pack(">bbii", 0, 0, -1, 9), FaultKind.LENGTH, ("0", "value")),
        (struct.pack(">bbqii", 1, 1, TIME, -1, 4) + b"gzip", FaultKind.COMPRESSION, ("0", "value")),
        (struct.pack(">bbqii", 1, 4, TIME, -1, 4) + b"zstd", FaultKind.CODEC, ("0", "attributes")),
        (struct.pack(">bbii", 0, 1, -1, -1), FaultKind.LENGTH, ("0", "value")),
    ],
)
def test_names_what_is_wrong_in_old_formats(body: bytes, kind: FaultKind, path: tuple[str, ...]) -> None:
    assert (only(message(body)).kind, only(message(body)).path) == (kind, path)


def test_a_message_that_wraps_too_much_is_left_alone() -> None:
    inner = encode([{"magic": 1, "records": [{"value": b"v" * (3 << 20)}]}])
    payload = compress(1, inner, magic=1)
    assert not look(message(struct.pack(">bbqii", 1, 1, TIME, -1, len(payload)) + payload)).faults


def test_a_timestamp_that_no_int64_holds() -> None:
    data = changed({"base_timestamp": 1, "records": [{"timestamp": TIME}]}, 27, "7fffffffffffffff")
    fault = only(data)
    assert fault.kind is FaultKind.TIMESTAMP
    assert fault.got == str(2**63 - 1 + TIME - 1)


def test_a_batch_of_very_many_records_with_a_fault_far_behind_is_left_alone() -> None:
    many = encode([{"last_offset_delta": 12_000, "records": [{}] * 12_000}])
    assert not look(sealed(many[:-1] + b"\x02"), produced=False).faults


def test_a_length_that_never_ends() -> None:
    data = sealed(encode([ONE])[:61] + b"\xff" * 8)
    assert (only(data).kind, only(data).end - only(data).start) == (FaultKind.LENGTH, 1)
