"""Bodies and frames without any part of keys, values and headers, also of records that are damaged."""

from __future__ import annotations

import pytest

from dissectors import embedded
from dissectors.messages.message import read_request
from kproxy.inspection.withheld_records import frame_without_records, withhold_records
from kproxy.trace.encoding import encode_json
from tests.kproxy.cli.test_payloads import SHAPES, produce


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_damaged_records(codec: str) -> None:
    for flip in (None, *range(0, 200, 7)):
        message = read_request(produce(codec, flip=flip))
        body = encode_json(withhold_records(message, embedded.presentable(message))).decode()
        assert not [shape for shape in SHAPES if shape in body], flip
        assert b"planted" not in frame_without_records(message), flip


def test_the_numbers_of_batches_stay() -> None:
    message = read_request(produce())
    shown = frame_without_records(message)
    assert shown[41:107] == message.frame[41:107]  # the batch, to the offset of the first record
    assert len(shown) == len(message.frame)
    assert shown[107:144] == bytes(37)  # key and value
