"""Where frames end, from their length prefixes alone."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.limits import MAX_FRAME_BYTES
from kproxy.proxy.frame_boundaries import Boundaries

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12)


def stream_of(sizes: list[int]) -> tuple[bytes, list[int]]:
    """Frames of these sizes, and where each ends."""
    stream, ends = b"", []
    for size in sizes:
        stream += struct.pack(">i", size) + size * b"\xff"
        ends.append(len(stream))
    return stream, ends


@given(SIZES, st.data())
def test_ends_do_not_depend_on_how_the_stream_is_cut(sizes: list[int], data: st.DataObject) -> None:
    stream, ends = stream_of(sizes)
    cuts = data.draw(st.lists(st.integers(0, len(stream))))
    boundaries = Boundaries()
    found: list[int] = []
    places = [0, *sorted(cuts), len(stream)]
    for start, end in pairwise(places):
        found += [start + offset for offset in boundaries.ends(stream[start:end])]
        assert boundaries.between == (end == 0 or end in ends)
    assert found == ends
    assert boundaries.framed


def test_a_frame_in_progress_has_no_end_yet() -> None:
    boundaries = Boundaries()
    assert list(boundaries.ends(struct.pack(">i", 10) + b"abc")) == []
    assert list(boundaries.ends(b"defg")) == []
    assert list(boundaries.ends(b"hij" + struct.pack(">i", 1))) == [3]


def test_content_that_looks_like_a_whole_frame_is_none() -> None:
    boundaries = Boundaries()
    inner = struct.pack(">i", 4) + b"abcd"
    assert list(boundaries.ends(struct.pack(">i", 2 * len(inner)))) == []
    assert list(boundaries.ends(inner)) == []
    assert list(boundaries.ends(inner)) == [len(inner)]
    assert boundaries.between


def test_what_begins_with_letters_as_tls_or_below_zero_is_not_framed() -> None:
    for start in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", b"\xff\xff\xff\xff", b"\x15\x03\x03\x00"):
        boundaries = Boundaries()
        assert list(boundaries.ends(start)) == []
        assert not boundaries.framed
        assert boundaries.between
        assert list(boundaries.ends(b"\x00\x00\x00\x00")) == []


def test_the_longest_frame_is_framed_and_one_byte_more_is_not() -> None:
    longest, longer = Boundaries(), Boundaries()
    longest.ends(struct.pack(">i", MAX_FRAME_BYTES))
    longer.ends(struct.pack(">i", MAX_FRAME_BYTES + 1))
    assert longest.framed
    assert not longer.framed


def test_ends_before_the_place_where_framing_is_lost_are_found() -> None:
    boundaries = Boundaries()
    assert list(boundaries.ends(struct.pack(">i", 1) + b"x" + b"HTTP")) == [5]
    assert not boundaries.framed
