"""Examining record data: faults are reported with their bytes, and valid data has none."""

import struct
import zlib
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import encode
from dissectors.records.checks import MAX_SUSPECTS, ExaminationResult, examine
from dissectors.records.compression import compress
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.layout_deviations import write_deviating_batch

TIME = 1_767_225_600_000
ONE = {"records": [{"timestamp": TIME, "value": b"a"}]}
TWO = {"records": [{"timestamp": TIME, "value": b"a"}, {"timestamp": TIME, "value": b"b"}]}
CRC = slice(17, 21)


def examine_data(data: bytes, *, produced: bool = True) -> ExaminationResult:
    return examine(data, selects=lambda _: True, produced=produced)


def only_fault(data: bytes, *, produced: bool = True) -> Fault:
    [fault] = examine_data(data, produced=produced).faults
    return fault


def with_valid_length_and_crc(data: bytes | bytearray) -> bytes:
    """Return a batch with the length and the CRC that its bytes should have."""
    batch = bytearray(data)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[CRC] = google_crc32c.value(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def change_batch(batch: dict[str, Any], position: int, new_hex: str) -> bytes:
    data = bytearray(encode([batch]))
    data[position : position + len(bytes.fromhex(new_hex))] = bytes.fromhex(new_hex)
    return with_valid_length_and_crc(data)


def test_batches_written_by_kafka_have_no_fault(row: dict[str, Any]) -> None:
    examination = examine_data(row["data"], produced=False)
    fault_kinds = {fault.kind for fault in examination.faults if fault.proven or fault.kind is FaultKind.CRC}
    assert fault_kinds == ({FaultKind.CRC} if row["name"] == "bad-crc-v2" else set())
    assert examination.cut_off == row["trailing"]


@pytest.mark.parametrize(
    ("data", "kind", "path", "span"),
    [
        (change_batch(ONE, 57, "7fffffff"), FaultKind.ABSURD_COUNT, ("0", "records_count"), "7fffffff"),
        (change_batch(ONE, 57, "ffffffff"), FaultKind.ABSURD_COUNT, ("0", "records_count"), "ffffffff"),
        (change_batch(TWO, 57, "00000003"), FaultKind.COUNT, ("0", "records_count"), "00000003"),
        (change_batch(TWO, 57, "00000001"), FaultKind.COUNT, ("0", "records_count"), "00000001"),
        (change_batch(TWO, 23, "00000000"), FaultKind.LAST_OFFSET, ("0", "last_offset_delta"), "00000000"),
        (change_batch(TWO, 23, "00000002"), FaultKind.LAST_OFFSET, ("0", "last_offset_delta"), "00000002"),
        (change_batch(ONE, 21, "0007"), FaultKind.CODEC, ("0", "attributes"), "0007"),
        (change_batch(ONE, 21, "0003"), FaultKind.COMPRESSION, ("0", "records"), "0e00000001026100"),
        (change_batch(ONE, 66, "20"), FaultKind.LENGTH, ("0", "records", "0", "value"), "20"),
        (change_batch(TWO, 72, "04"), FaultKind.OFFSETS, ("0", "records", "1", "offset_delta"), "04"),
        (with_valid_length_and_crc(encode([ONE]) + b"\xff\xff"), FaultKind.LENGTH, ("0", "records"), "ffff"),
        (encode([{"records": []}]), FaultKind.COUNT, ("0", "records_count"), "00000000"),
        (encode([ONE])[:-1], FaultKind.LENGTH, ("0", "batch_length"), "00000039"),
        (encode([ONE]) + bytes(5), FaultKind.LENGTH, ("1", "batch_length"), "0000000000"),
        (encode([ONE]) + bytes(20), FaultKind.LENGTH, ("1", "batch_length"), "00000000"),
        (encode([ONE])[:16] + b"\x03" + encode([ONE])[17:], FaultKind.MAGIC, ("0", "magic"), "03"),
        (struct.pack(">qiib", 0, 14, 0, 2) + bytes(9), FaultKind.LENGTH, ("0", "batch_length"), "0000000e"),
    ],
)
def test_fault_names_kind_path_and_bytes(data: bytes, kind: FaultKind, path: tuple[str, ...], span: str) -> None:
    fault = only_fault(data)
    assert (fault.kind, fault.path) == (kind, path)
    assert data[fault.start : fault.end].hex() == span


def test_null_header_key_is_a_fault() -> None:
    data = encode([{"records": [{"value": b"a", "headers": [{"key": "k", "value": b"v"}]}]}])
    key_start = data.index(b"\x02k")
    record = bytes([data[61] - 2]) + data[62:key_start] + b"\x01" + data[key_start + 2 :]
    fault = only_fault(with_valid_length_and_crc(data[:61] + record))
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
def test_checksum_used_instead_of_the_crc_is_named(checksum: Callable[[bytes], int], name: str) -> None:
    data = encode([ONE])
    data = data[:17] + checksum(data).to_bytes(4, "big") + data[21:]
    fault = only_fault(data)
    assert fault.kind is FaultKind.OTHER_CHECKSUM
    assert name in fault.message
    assert data[fault.start : fault.end] == data[CRC]


@pytest.mark.parametrize(
    ("written", "variant"),
    [
        ({"timestamp_type": "LogAppendTime"}, "the timestamp type CreateTime"),
        ({}, "the timestamp type LogAppendTime"),
    ],
)
def test_timestamp_type_that_fits_the_checksum_is_named(written: dict[str, str], variant: str) -> None:
    other_fields = {} if written else {"timestamp_type": "LogAppendTime"}
    data = bytearray(encode([TWO | written]))
    data[CRC] = encode([TWO | other_fields])[CRC]
    assert only_fault(bytes(data)).message.endswith(f"; it is that of the same batch with {variant}")


@pytest.mark.parametrize(
    ("field", "variant"),
    [
        ("is_transactional", "the transactional bit cleared"),
        ("is_control", "the control bit cleared"),
    ],
)
def test_attribute_that_fits_the_checksum_is_named(field: str, variant: str) -> None:
    data = bytearray(encode([TWO | {field: True}]))
    data[CRC] = encode([TWO])[CRC]
    assert only_fault(bytes(data)).message.endswith(f"; it is that of the same batch with {variant}")


def test_checksum_computed_without_a_producer_is_named() -> None:
    data = bytearray(encode([TWO | {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}]))
    data[CRC] = encode([TWO])[CRC]
    assert only_fault(bytes(data)).message.endswith(
        "; it is that of the same batch with no producer id, epoch and sequence"
    )


def test_flipped_bit_in_the_records_fits_no_other_header() -> None:
    data = bytearray(encode([TWO]))
    data[-1] ^= 1
    assert only_fault(bytes(data)).message.startswith("the CRC is 0x")
    assert ";" not in only_fault(bytes(data)).message


def test_snappy_header_versions_must_be_big_endian() -> None:
    data = bytearray(encode([TWO | {"compression": "snappy"}]))
    versions_start = data.index(b"\x82SNAPPY\x00") + 8
    assert examine_data(bytes(data)).faults == []
    data[versions_start : versions_start + 8] = struct.pack("<II", 1, 1)
    fault = only_fault(with_valid_length_and_crc(data))
    assert fault.kind is FaultKind.SNAPPY_HEADER
    assert (fault.start, fault.end) == (versions_start, versions_start + 8)
    assert (
        fault.message
        == "the snappy header has the versions 16777216 and 16777216, should be 1 and 1: they are little-endian"
    )
    data[versions_start : versions_start + 8] = struct.pack(">II", 2, 1)
    assert (
        only_fault(with_valid_length_and_crc(data)).message
        == "the snappy header has the versions 2 and 1, should be 1 and 1"
    )


def test_raw_snappy_is_accepted() -> None:
    compressed = encode([TWO | {"compression": "snappy"}])
    assert examine_data(with_valid_length_and_crc(compressed[:61] + compressed[81:])).faults == []


def test_checksum_of_another_format_is_named() -> None:
    data = bytearray(encode([{"magic": 1, "records": [{"value": b"a"}]}]))
    data[12:16] = google_crc32c.value(bytes(data[16:])).to_bytes(4, "big")
    assert only_fault(bytes(data)).kind is FaultKind.OTHER_CHECKSUM


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_changed_bytes_cause_a_crc_fault(magic: int) -> None:
    data = encode([{"magic": magic, "records": [{"value": b"abc"}]}]).replace(b"abc", b"abd")
    assert only_fault(data).kind is FaultKind.CRC


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_layout_deviation_is_the_only_fault_of_its_batch(compression: str) -> None:
    data = write_deviating_batch(TWO | {"compression": compression}, "record_length_int32")
    fault = only_fault(data, produced=False)
    assert fault.kind is FaultKind.ENCODING
    assert fault.deviation is not None
    assert fault.deviation.written == "record_length_int32"
    assert fault.start == 61
    assert data[fault.start : fault.end].hex() == "00000007" or (compression != "none" and fault.end == len(data))


def test_ambiguous_deviation_lists_its_rivals() -> None:
    fault = only_fault(write_deviating_batch(ONE, "attributes_missing"))
    assert [rival.written for rival in fault.rivals] == ["offset_delta_missing", "timestamp_delta_missing"]
    assert "; or records have no offset delta before their key" in fault.message


def test_offsets_in_a_log_may_have_gaps_but_not_decrease() -> None:
    batch_with_gaps = {"base_offset": 4, "last_offset_delta": 9, "records": [{"offset": 5}, {"offset": 11}]}
    next_batch = {"base_offset": 14, "records": [{"offset": 14}]}
    assert not examine_data(encode([batch_with_gaps, next_batch]), produced=False).faults
    assert (
        only_fault(encode([batch_with_gaps, next_batch | {"base_offset": 13}]), produced=False).kind
        is FaultKind.OFFSETS
    )


def test_empty_batch_in_a_log_is_accepted() -> None:
    assert not examine_data(encode([{"base_offset": 4, "last_offset_delta": 9, "records": []}]), produced=False).faults


def test_damaged_message_in_a_wrapper_is_a_crc_fault() -> None:
    inner = encode([{"magic": 1, "records": [{"value": b"abc"}]}]).replace(b"abc", b"abd")
    payload = compress(1, inner, magic=1)
    body = struct.pack(">bbqii", 1, 1, TIME, -1, len(payload)) + payload
    data = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    assert only_fault(data).kind is FaultKind.CRC
    assert only_fault(data).path == ("0", "value")


def test_distant_record_timestamp_is_a_fault() -> None:
    fault = only_fault(encode([{"base_timestamp": 0, "records": [{"timestamp": TIME}]}]))
    assert fault.kind is FaultKind.TIMESTAMP
    assert fault.path == ("0", "records", "0", "timestamp_delta")


def test_number_of_examined_bad_batches_is_limited() -> None:
    data = write_deviating_batch(TWO, "record_length_int32")
    assert len(examine_data(data * 100, produced=False).faults) < 100 + MAX_SUSPECTS
    encodings = [fault for fault in examine_data(data * 100, produced=False).faults if fault.kind is FaultKind.ENCODING]
    assert len(encodings) == MAX_SUSPECTS


def test_unselected_batches_are_examined_only_if_their_header_is_inconsistent() -> None:
    data = write_deviating_batch(TWO, "record_length_int32")
    assert not examine(data, selects=lambda _: False, produced=True).faults
    # a header that contradicts itself is reason enough
    assert examine(change_batch(TWO, 57, "00000003"), selects=lambda _: False, produced=True).faults


RECORD_DATA = st.sampled_from(
    [encode([TWO]), encode([TWO | {"compression": "gzip"}]), encode([ONE, TWO]), write_deviating_batch(TWO,
                                                                                                       "headers_missing"),
     encode([{"magic": 1, "compression": "gzip", "records": [{"value": b"a"}, {"value": b"b"}]}])]
)  # fmt: skip


@given(
    data=RECORD_DATA,
    position=st.integers(0, 150),
    replacement=st.binary(max_size=9),
    reseal=st.booleans(),
    produced=st.booleans(),
)
def test_arbitrary_changes_never_raise(
    data: bytes, position: int, replacement: bytes, reseal: bool, produced: bool
) -> None:
    damaged = data[:position] + replacement + data[position + len(replacement) :]
    if reseal and len(damaged) > 61:
        damaged = with_valid_length_and_crc(damaged)
    for fault in examine_data(damaged, produced=produced).faults:
        assert 0 <= fault.start <= fault.end <= len(damaged)


def old_message(body: bytes) -> bytes:
    """Return a message of format 0 or 1 with `body` after its CRC."""
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
def test_fault_in_old_formats_names_kind_and_path(body: bytes, kind: FaultKind, path: tuple[str, ...]) -> None:
    assert (only_fault(old_message(body)).kind, only_fault(old_message(body)).path) == (kind, path)


def test_large_wrapper_is_not_examined() -> None:
    inner = encode([{"magic": 1, "records": [{"value": b"v" * (3 << 20)}]}])
    payload = compress(1, inner, magic=1)
    assert not examine_data(old_message(struct.pack(">bbqii", 1, 1, TIME, -1, len(payload)) + payload)).faults


def test_timestamp_beyond_int64_is_a_fault() -> None:
    data = change_batch({"base_timestamp": 1, "records": [{"timestamp": TIME}]}, 27, "7fffffffffffffff")
    fault = only_fault(data)
    assert fault.kind is FaultKind.TIMESTAMP
    assert fault.got == str(2**63 - 1 + TIME - 1)


def test_late_fault_in_a_batch_of_many_records_is_not_examined() -> None:
    large_batch = encode([{"last_offset_delta": 12_000, "records": [{}] * 12_000}])
    assert not examine_data(with_valid_length_and_crc(large_batch[:-1] + b"\x02"), produced=False).faults


def test_unterminated_length_varint_is_a_fault() -> None:
    data = with_valid_length_and_crc(encode([ONE])[:61] + b"\xff" * 8)
    assert (only_fault(data).kind, only_fault(data).end - only_fault(data).start) == (FaultKind.LENGTH, 1)
