"""Skipping fields ends where decoding does."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.compiled import Irregular
from dissectors.wire.encode import encode
from dissectors.wire.layout import Layout, layout
from dissectors.wire.skip import skipper_to, struct_skipper
from tests.strategies import damaged, layouts, values


@pytest.mark.slow
@given(st.data(), layouts())
def test_message_is_skipped_to_its_end(data: st.DataObject, shape: Layout) -> None:
    raw = encode(shape, data.draw(values(shape)))
    assert struct_skipper(shape)(b"pre" + raw + b"post", 3) == 3 + len(raw)


@pytest.mark.slow
@given(st.data(), layouts())
def test_any_bytes_are_skipped_or_rejected(data: st.DataObject, shape: Layout) -> None:
    raw = data.draw(st.binary(max_size=64) | damaged(values(shape).map(lambda drawn: encode(shape, drawn))))
    with contextlib.suppress(Irregular):
        assert 0 <= struct_skipper(shape)(raw, 0) <= len(raw)


def test_skipping_stops_before_a_field() -> None:
    shape = layout("ProduceRequest", 9)
    raw = encode(shape, {"transactional_id": "tx", "acks": -1, "timeout_ms": 7, "topic_data": []})
    assert skipper_to(shape, "acks")(raw, 0) == 3
    assert skipper_to(shape, "topic_data")(raw, 0) == 9


def test_impossible_count_is_rejected_immediately() -> None:
    shape = layout("MetadataResponse", 1)
    with pytest.raises(Irregular):
        struct_skipper(shape)(b"\x7f\xff\xff\xff" + bytes(100), 0)
