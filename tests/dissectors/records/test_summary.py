"""Summaries of record data, read from the batch headers alone."""

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import Outline, RecordsSummary, decode, encode, outline, summarize


def test_summary_agrees_with_kafka(row: dict[str, Any]) -> None:
    summary = summarize(memoryview(row["data"]))
    batches = row["batches"]
    assert summary == RecordsSummary(
        batches=len(batches),
        records=sum(batch.get("count", 1) for batch in batches),
        complete_bytes=sum(batch["size"] for batch in batches),
        trailing_bytes=row["trailing"],
        magics=tuple(dict.fromkeys(batch["magic"] for batch in batches)),
        compressions=tuple(dict.fromkeys(batch["compression"] for batch in batches)),
        max_timestamp=max((batch["maxTimestamp"] for batch in batches), default=-1),
        is_transactional=any(batch["isTransactional"] for batch in batches),
        is_control=any(batch["isControl"] for batch in batches),
        error=None,
    )


def test_wrapper_counts_as_one_record() -> None:
    data = encode([{"magic": 1, "compression": "gzip", "records": [{"value": b"v"}] * 9}])
    assert summarize(data).records == 1
    assert len(decode(data)[0]["records"]) == 9


def test_negative_count_is_left_out_of_the_sum() -> None:
    valid_batch = encode([{"records": [{"value": b"v"}] * 3}])
    negative_batch = valid_batch[:57] + b"\xff\xff\xff\xff" + valid_batch[61:]
    summary = summarize(valid_batch + negative_batch)
    assert (summary.batches, summary.records) == (2, 3)
    assert summary.error == "batch 1: records_count is -1"


def test_outline_agrees_with_kafka(row: dict[str, Any]) -> None:
    batches = row["batches"]
    runs = itertools.groupby(batches, key=lambda batch: batch["magic"] == 2)
    assert outline(row["data"]) == Outline(
        records=sum(batch.get("count", 1) for batch in batches),
        batches=sum(len(list(run)) if is_new else 1 for is_new, run in runs),
        compressions=tuple(dict.fromkeys(batch["compression"] for batch in batches)),
        next_offset=batches[-1]["lastOffset"] + 1 if batches else None,
    )


def test_message_sets_around_a_batch_are_counted_separately() -> None:
    message = {"magic": 1, "records": [{"value": b"v"}] * 3}
    batch = {"compression": "lz4", "records": [{"value": b"v"}] * 4}
    data = encode([message | {"base_offset": 0}, batch | {"base_offset": 3}, message | {"base_offset": 7}])
    assert outline(data) == Outline(10, 3, ("none", "lz4"), 10)


def test_truncated_batch_is_not_counted(sample: Callable[[str], bytes]) -> None:
    complete = sample("v2-gzip")
    assert outline(complete[:-1]) == Outline(0, 0, (), None)
    assert outline(complete + sample("v2-zstd")[:-1]) == outline(complete) == Outline(5, 1, ("gzip",), 1301)


def test_unknown_codec_in_an_outline_is_named_by_its_number() -> None:
    data = bytearray(encode([{"records": [{"value": b"v"}]}]))
    data[22] |= 5
    assert outline(data).compressions == ("unknown(5)",)


def test_batch_too_short_for_its_header_is_counted_without_records() -> None:
    short = struct.pack(">qiib", 7, 20, 0, 2) + b"\x00" * 15
    valid_batch = encode([{"base_offset": 30, "records": [{"value": b"v"}]}])
    assert outline(short) == Outline(0, 1, (), None)
    assert outline(valid_batch + short) == Outline(1, 2, ("none",), 31)


_PIECES = st.sampled_from(
    [
        encode([{"records": [{"value": b"v"}] * 3}]),
        encode([{"magic": 0, "records": [{"value": b"v"}]}]),
        encode([{"magic": 1, "compression": "gzip", "records": [{"value": b"v"}] * 2}]),
        encode([{"records": [{"value": b"v"}]}])[:-4] + b"\xff\xff\xff\xff",
    ]
)


@given(pieces=st.lists(_PIECES | st.binary(max_size=80)), cut=st.integers(0, 70))
@pytest.mark.parametrize("buffer_type", [bytes, memoryview])
def test_outline_of_any_bytes_agrees_with_the_summary(buffer_type: type, pieces: list[bytes], cut: int) -> None:
    data = b"".join(pieces)
    data = data[: max(len(data) - cut, 0)]
    brief, summary = outline(buffer_type(data)), summarize(data)
    assert (brief.records, brief.compressions) == (summary.records, summary.compressions)
    assert brief.batches <= summary.batches
