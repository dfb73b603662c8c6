"""Bodies and frames without any part of keys, values and headers, also of records that are damaged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from dissectors import embedded
from dissectors.messages.message import read_request
from kproxy.inspection.withheld_records import frame_without_records, withhold_records
from kproxy.trace.encoding import encode_json
from tests.kproxy.cli.test_payloads import CARD, SHAPES, produce

#: The keys, values and names in the records of the frames here.
CONTENT = (
    CARD,
    b"planted-key",
    b"planted-header",
    b"planted-without-schema",
    b'{"id": 5, "card": {"number": "planted"}}',
)


def found_at(data: bytes, part: bytes) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(part), data)]


def integers(item: Any) -> Iterator[int]:
    """The integers in a tree."""
    if isinstance(item, dict | list):
        for inner in item.values() if isinstance(item, dict) else item:
            yield from integers(inner)
    elif isinstance(item, int):
        yield item & (1 << 64) - 1


def pieces(part: bytes) -> list[bytes]:
    return [part[at : at + 4] for at in range(len(part) - 3)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_damaged_records(codec: str) -> None:
    for flip in (None, *range(0, 200, 7)):
        message = read_request(produce(codec, flip=flip))
        body = encode_json(withhold_records(message, embedded.presentable_body(message))).decode()
        assert not [shape for shape in SHAPES if shape in body], flip
        assert b"planted" not in frame_without_records(message), flip


def test_the_numbers_of_batches_stay() -> None:
    message = read_request(produce())
    shown = frame_without_records(message)
    assert shown[41:107] == message.frame[41:107]  # the batch, to the offset of the first record
    assert len(shown) == len(message.frame)
    assert shown[107:144] == bytes(37)  # key and value


def test_numbers_of_damaged_batches_are_no_parts_of_values() -> None:
    whole = produce()
    content = [at + index for part in CONTENT for at in found_at(whole, part) for index in range(len(part))]
    start = whole.index(b"\0\0\0\0\0\0\0\0", 40)  # the batch
    for at in (*range(start, start + 70), *range(start + 70, len(whole), 4)):
        for bits in (1, 0x10, 0x40, 0x80):
            frame = bytearray(whole)
            frame[at] ^= bits
            message = read_request(bytes(frame))
            if message.error is not None:
                continue
            shown = frame_without_records(message)
            assert not [place for place in content if shown[place]], (at, bits)
            numbers = b" ".join(
                integer.to_bytes(8)
                for integer in integers(withhold_records(message, embedded.presentable_body(message)))
            )
            assert not [part for part in CONTENT for piece in pieces(part) if piece in numbers], (at, bits)
