from __future__ import annotations

from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import decode, encode
from kproxy.broker.errors import Error, Refused
from kproxy.broker.log.settings import LogSettings
from kproxy.broker.log.validation import RecordsRefused
from tests.kproxy.broker.log.sample_logs import NOW, SETTINGS, log, records, sent, write

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def changed(data: bytes, at: int, new: bytes, *, crc: bool = True) -> bytes:
    """A batch with other bytes at a place, and the CRC for them."""
    out = bytearray(data)
    out[at : at + len(new)] = new
    if crc:
        out[17:21] = google_crc32c.value(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)


def refused(data: bytes, settings: LogSettings = SETTINGS) -> Refused:
    to = log()
    with pytest.raises(Refused) as caught:
        write(to, data, settings)
    assert to.end_offset == 0
    return caught.value


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_kept_as_it_was_sent_but_for_offset_and_epoch(codec: str) -> None:
    to, data = log(), sent(3, compression=codec)
    write(to, sent(5))
    to.begin_epoch(4)
    write(to, data)
    [batch] = to.batches(5, 8)
    assert batch.data[:8] == (5).to_bytes(8, "big")
    assert batch.data[12:16] == (4).to_bytes(4, "big")
    assert batch.data[8:12] + batch.data[16:] == data[8:12] + data[16:]
    assert [record["offset"] for record in records(to)] == list(range(8))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (changed(sent(), 17, b"\0\0\0\1", crc=False), Error.CORRUPT_MESSAGE),
        (changed(sent(), 16, b"\3", crc=False), Error.CORRUPT_MESSAGE),
        (sent() + bytes(20), Error.CORRUPT_MESSAGE),
        (changed(sent()[:40], 8, (28).to_bytes(4, "big"), crc=False), Error.CORRUPT_MESSAGE),
        (sent() + sent(), Error.INVALID_RECORD),
        (changed(sent(), 0, (5).to_bytes(8, "big"), crc=False), Error.INVALID_RECORD),
        (changed(sent(), 57, bytes(4)), Error.INVALID_RECORD),
        (changed(sent(), 57, b"\xff\xff\xff\xff"), Error.INVALID_RECORD),
        (changed(sent(), 57, b"\0\0\0\2"), Error.INVALID_RECORD),
        (changed(changed(sent(), 57, b"\0\0\0\2"), 23, b"\0\0\0\1"), Error.INVALID_RECORD),
        (changed(changed(sent(2), 57, b"\0\0\0\1"), 23, b"\0\0\0\0"), Error.INVALID_RECORD),
        (changed(sent(), 23, b"\x7f\xff\xff\xff"), Error.INVALID_RECORD),
        (changed(sent(), 23, b"\x80\0\0\0"), Error.INVALID_RECORD),
        (sent(is_control=True), Error.INVALID_RECORD),
        (sent(producer_id=1, producer_epoch=0), Error.INVALID_RECORD),
        (changed(sent(), 61, b"\xff" * 5), Error.INVALID_RECORD),
        (changed(sent(), 21, b"\0\5"), Error.UNKNOWN_SERVER_ERROR),
        (changed(sent(), 21, b"\0\1"), Error.UNKNOWN_SERVER_ERROR),
        (sent(at=NOW + 4_000_000), Error.INVALID_TIMESTAMP),
        (sent(size=1_048_588), Error.MESSAGE_TOO_LARGE),
        (encode([{"magic": 0, "records": [{"value": b"a"}]}, {"records": [{"value": b"b"}]}]), Error.INVALID_RECORD),
    ],
)
def test_says_what_is_wrong_with_a_batch(data: bytes, error: Error) -> None:
    assert refused(data).error is error


def test_a_cut_off_end_is_left_out() -> None:
    to = log()
    write(to, sent(2) + sent(2)[:-1])
    assert len(records(to)) == 2
    assert write(to, b"").base_offset == -1
    assert write(to, sent()[:-1]).base_offset == -1


def test_a_wrong_greatest_timestamp_is_put_right() -> None:
    to = log()
    write(to, sent(2, max_timestamp=NOW + 99))
    [batch] = to.batches(0, 2)
    assert batch.max_timestamp == batch.header.max_timestamp == NOW + 1
    assert records(to)[1]["timestamp"] == NOW + 1


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_replaces_that_of_the_client(codec: str) -> None:
    to = log()
    done = write(to, sent(2, at=5, compression=codec), SETTINGS._replace(append_time=True))
    assert done.append_time == NOW
    assert [record["timestamp"] for record in records(to)] == [NOW, NOW]


def test_a_client_may_not_say_that_it_has_log_append_time() -> None:
    data = sent(timestamp_type="LogAppendTime")
    assert refused(data, SETTINGS._replace(append_time=True)).error is Error.INVALID_TIMESTAMP


def test_a_compacted_topic_wants_keys_and_says_which_records_have_none() -> None:
    data = encode([{"records": [{"key": b"a", "value": b""}, {"value": b""}, {"value": b""}]}])
    problem = refused(data, SETTINGS._replace(compacted=True))
    assert isinstance(problem, RecordsRefused)
    assert problem.error is Error.INVALID_RECORD
    assert [index for index, _ in problem.records] == [1, 2]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "zstd"])
def test_a_topic_may_have_a_codec_of_its_own(codec: str, wanted: str) -> None:
    to = log()
    write(
        to,
        sent(3, compression=codec, producer_id=4, producer_epoch=1, base_sequence=9),
        SETTINGS._replace(compression_type=wanted),
    )
    [batch] = decode(next(to.batches(0, 3)).data)
    assert batch["compression"] == wanted.replace("uncompressed", "none")
    assert (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]) == (4, 1, 9)
    assert [record["timestamp"] for record in batch["records"]] == [NOW, NOW + 1, NOW + 2]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_old_message_sets_become_one_batch(magic: int, codec: str) -> None:
    to = log()
    given = [{"key": b"k", "value": b"v%d" % index, "timestamp": NOW + index} for index in range(4)]
    write(to, sent(2))
    assert write(to, encode([{"magic": magic, "compression": codec, "records": given}])).base_offset == 2
    [kept] = to.batches(2, 6)
    [batch] = decode(kept.data)
    assert (batch["magic"], batch["compression"]) == (2, codec)
    assert [record["value"] for record in batch["records"]] == [b"v0", b"v1", b"v2", b"v3"]
    assert [record["timestamp"] for record in batch["records"]] == [NOW + index if magic else -1 for index in range(4)]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_broken_old_message_is_refused(magic: int) -> None:
    def messages(**batch: Any) -> bytes:
        return encode([{"magic": magic, "records": [{"value": b"a"}], **batch}])

    assert refused(changed(messages(), 12, bytes(4), crc=False)).error is Error.CORRUPT_MESSAGE
    assert refused(messages(compression="gzip") * 2).error is Error.INVALID_RECORD


@given(st.binary(max_size=200))
def test_any_bytes_are_appended_or_refused(data: bytes) -> None:
    to = log()
    try:
        write(to, data)
    except Refused:
        assert to.end_offset == 0


@given(st.data())
def test_any_change_of_a_batch_is_appended_or_refused(data: st.DataObject) -> None:
    whole = sent(3, compression=data.draw(st.sampled_from(CODECS)))
    at = data.draw(st.integers(16, len(whole) - 1))
    to = log()
    try:
        write(
            to,
            changed(
                whole, at, data.draw(st.binary(min_size=1, max_size=len(whole) - at)), crc=data.draw(st.booleans())
            ),
        )
    except Refused:
        assert to.end_offset == 0
    else:
        records(to)
