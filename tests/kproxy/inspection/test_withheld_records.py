"""Withheld bodies and frames contain no part of a key, value or header, even if the records are damaged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from dissectors import embedded
from dissectors.messages.message import read_request
from kproxy.inspection.withheld_records import frame_without_records, withhold_records
from kproxy.trace.encoding import encode_json
from tests.kproxy.cli.test_payloads import CARD, PLANTED_SPELLINGS, produce

#: The keys, values and names in the records of these frames.
CONTENT = (
    CARD,
    b"planted-key",
    b"planted-header",
    b"planted-without-schema",
    b'{"id": 5, "card": {"number": "planted"}}',
)


def positions_of(planted: bytes, data: bytes) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(planted), data)]


def integers(item: Any) -> Iterator[int]:
    """Yield the integers in a tree."""
    if isinstance(item, dict | list):
        for inner in item.values() if isinstance(item, dict) else item:
            yield from integers(inner)
    elif isinstance(item, int):
        yield item & (1 << 64) - 1


def four_byte_pieces(planted: bytes) -> list[bytes]:
    return [planted[start : start + 4] for start in range(len(planted) - 3)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_withholds_damaged_records(codec: str) -> None:
    for flipped_index in (None, *range(0, 200, 7)):
        message = read_request(produce(codec, flipped_index=flipped_index))
        body = encode_json(withhold_records(message, embedded.presentable_body(message))).decode()
        assert not [spelling for spelling in PLANTED_SPELLINGS if spelling in body], flipped_index
        assert b"planted" not in frame_without_records(message), flipped_index


def test_batch_headers_are_not_withheld() -> None:
    message = read_request(produce())
    withheld_frame = frame_without_records(message)
    assert withheld_frame[41:107] == message.frame[41:107]  # from the batch header up to the offset of the first record
    assert len(withheld_frame) == len(message.frame)
    assert withheld_frame[107:144] == bytes(37)  # key and value


def test_numbers_of_damaged_batches_do_not_reveal_values() -> None:
    valid_frame = produce()
    content_positions = [
        offset + index
        for planted in CONTENT
        for offset in positions_of(planted, valid_frame)
        for index in range(len(planted))
    ]
    start = valid_frame.index(b"\0\0\0\0\0\0\0\0", 40)  # where the batch starts
    for offset in (*range(start, start + 70), *range(start + 70, len(valid_frame), 4)):
        for bits in (1, 0x10, 0x40, 0x80):
            frame = bytearray(valid_frame)
            frame[offset] ^= bits
            message = read_request(bytes(frame))
            if message.error is not None:
                continue
            withheld_frame = frame_without_records(message)
            assert not [position for position in content_positions if withheld_frame[position]], (offset, bits)
            numbers = b" ".join(
                integer.to_bytes(8)
                for integer in integers(withhold_records(message, embedded.presentable_body(message)))
            )
            assert not [planted for planted in CONTENT for piece in four_byte_pieces(planted) if piece in numbers], (
                offset,
                bits,
            )
