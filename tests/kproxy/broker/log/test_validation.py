from __future__ import annotations

from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import decode, encode
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log.settings import LogSettings
from kproxy.broker.log.validation import RecordValidationError
from tests.kproxy.broker.log.sample_logs import NOW, SETTINGS, new_log, produced_batch, records, write

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def with_changed_bytes(data: bytes, offset: int, replacement: bytes, *, crc: bool = True) -> bytes:
    """Return a batch with other bytes at an offset and, unless `crc` is false, a matching CRC."""
    result = bytearray(data)
    result[offset : offset + len(replacement)] = replacement
    if crc:
        result[17:21] = google_crc32c.value(bytes(result[21:])).to_bytes(4, "big")
    return bytes(result)


def refusal(data: bytes, settings: LogSettings = SETTINGS) -> ApiError:
    log = new_log()
    with pytest.raises(ApiError) as caught:
        write(log, data, settings)
    assert log.end_offset == 0
    return caught.value


@pytest.mark.parametrize("codec", CODECS)
def test_batch_is_stored_unchanged_except_for_offset_and_epoch(codec: str) -> None:
    log, data = new_log(), produced_batch(3, compression=codec)
    write(log, produced_batch(5))
    log.begin_epoch(4)
    write(log, data)
    [batch] = log.batches(5, 8)
    assert batch.data[:8] == (5).to_bytes(8, "big")
    assert batch.data[12:16] == (4).to_bytes(4, "big")
    assert batch.data[8:12] + batch.data[16:] == data[8:12] + data[16:]
    assert [record["offset"] for record in records(log)] == list(range(8))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (with_changed_bytes(produced_batch(), 17, b"\0\0\0\1", crc=False), Error.CORRUPT_MESSAGE),
        (with_changed_bytes(produced_batch(), 16, b"\3", crc=False), Error.CORRUPT_MESSAGE),
        (produced_batch() + bytes(20), Error.CORRUPT_MESSAGE),
        (with_changed_bytes(produced_batch()[:40], 8, (28).to_bytes(4, "big"), crc=False), Error.CORRUPT_MESSAGE),
        (produced_batch() + produced_batch(), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 0, (5).to_bytes(8, "big"), crc=False), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 57, bytes(4)), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 57, b"\xff\xff\xff\xff"), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 57, b"\0\0\0\2"), Error.INVALID_RECORD),
        (
            with_changed_bytes(with_changed_bytes(produced_batch(), 57, b"\0\0\0\2"), 23, b"\0\0\0\1"),
            Error.INVALID_RECORD,
        ),
        (
            with_changed_bytes(with_changed_bytes(produced_batch(2), 57, b"\0\0\0\1"), 23, b"\0\0\0\0"),
            Error.INVALID_RECORD,
        ),
        (with_changed_bytes(produced_batch(), 23, b"\x7f\xff\xff\xff"), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 23, b"\x80\0\0\0"), Error.INVALID_RECORD),
        (produced_batch(is_control=True), Error.INVALID_RECORD),
        (produced_batch(producer_id=1, producer_epoch=0), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 61, b"\xff" * 5), Error.INVALID_RECORD),
        (with_changed_bytes(produced_batch(), 21, b"\0\5"), Error.UNKNOWN_SERVER_ERROR),
        (with_changed_bytes(produced_batch(), 21, b"\0\1"), Error.UNKNOWN_SERVER_ERROR),
        (produced_batch(at=NOW + 4_000_000), Error.INVALID_TIMESTAMP),
        (produced_batch(size=1_048_588), Error.MESSAGE_TOO_LARGE),
        (encode([{"magic": 0, "records": [{"value": b"a"}]}, {"records": [{"value": b"b"}]}]), Error.INVALID_RECORD),
    ],
)
def test_rejects_an_invalid_batch(data: bytes, error: Error) -> None:
    assert refusal(data).error is error


def test_ignores_a_truncated_batch_at_the_end() -> None:
    log = new_log()
    write(log, produced_batch(2) + produced_batch(2)[:-1])
    assert len(records(log)) == 2
    assert write(log, b"").base_offset == -1
    assert write(log, produced_batch()[:-1]).base_offset == -1


def test_corrects_a_wrong_max_timestamp() -> None:
    log = new_log()
    write(log, produced_batch(2, max_timestamp=NOW + 99))
    [batch] = log.batches(0, 2)
    assert batch.max_timestamp == batch.header.max_timestamp == NOW + 1
    assert records(log)[1]["timestamp"] == NOW + 1


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_replaces_the_client_timestamp(codec: str) -> None:
    log = new_log()
    result = write(log, produced_batch(2, at=5, compression=codec), SETTINGS._replace(append_time=True))
    assert result.append_time == NOW
    assert [record["timestamp"] for record in records(log)] == [NOW, NOW]


def test_client_may_not_set_log_append_time() -> None:
    data = produced_batch(timestamp_type="LogAppendTime")
    assert refusal(data, SETTINGS._replace(append_time=True)).error is Error.INVALID_TIMESTAMP


def test_compacted_topic_rejects_records_without_a_key() -> None:
    data = encode([{"records": [{"key": b"a", "value": b""}, {"value": b""}, {"value": b""}]}])
    refused = refusal(data, SETTINGS._replace(compacted=True))
    assert isinstance(refused, RecordValidationError)
    assert refused.error is Error.INVALID_RECORD
    assert [index for index, _ in refused.records] == [1, 2]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "zstd"])
def test_recompresses_to_the_codec_of_the_topic(codec: str, compression_type: str) -> None:
    log = new_log()
    write(
        log,
        produced_batch(3, compression=codec, producer_id=4, producer_epoch=1, base_sequence=9),
        SETTINGS._replace(compression_type=compression_type),
    )
    [batch] = decode(next(log.batches(0, 3)).data)
    assert batch["compression"] == compression_type.replace("uncompressed", "none")
    assert (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]) == (4, 1, 9)
    assert [record["timestamp"] for record in batch["records"]] == [NOW, NOW + 1, NOW + 2]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_old_message_sets_become_one_batch(magic: int, codec: str) -> None:
    log = new_log()
    sent_records = [{"key": b"k", "value": b"v%d" % index, "timestamp": NOW + index} for index in range(4)]
    write(log, produced_batch(2))
    assert write(log, encode([{"magic": magic, "compression": codec, "records": sent_records}])).base_offset == 2
    [stored] = log.batches(2, 6)
    [batch] = decode(stored.data)
    assert (batch["magic"], batch["compression"]) == (2, codec)
    assert [record["value"] for record in batch["records"]] == [b"v0", b"v1", b"v2", b"v3"]
    assert [record["timestamp"] for record in batch["records"]] == [NOW + index if magic else -1 for index in range(4)]


@pytest.mark.parametrize("magic", [0, 1])
def test_rejects_a_corrupt_old_message(magic: int) -> None:
    def messages(**batch: Any) -> bytes:
        return encode([{"magic": magic, "records": [{"value": b"a"}], **batch}])

    assert refusal(with_changed_bytes(messages(), 12, bytes(4), crc=False)).error is Error.CORRUPT_MESSAGE
    assert refusal(messages(compression="gzip") * 2).error is Error.INVALID_RECORD


@given(st.binary(max_size=200))
def test_any_bytes_are_appended_or_refused(data: bytes) -> None:
    log = new_log()
    try:
        write(log, data)
    except ApiError:
        assert log.end_offset == 0


@given(st.data())
def test_any_damaged_batch_is_appended_or_refused(data: st.DataObject) -> None:
    whole = produced_batch(3, compression=data.draw(st.sampled_from(CODECS)))
    offset = data.draw(st.integers(16, len(whole) - 1))
    log = new_log()
    try:
        write(
            log,
            with_changed_bytes(
                whole,
                offset,
                data.draw(st.binary(min_size=1, max_size=len(whole) - offset)),
                crc=data.draw(st.booleans()),
            ),
        )
    except ApiError:
        assert log.end_offset == 0
    else:
        records(log)
