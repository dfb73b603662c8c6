"""The ends of frames are found from length prefixes alone."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.limits import MAX_FRAME_BYTES
from kproxy.proxy.frame_boundaries import FrameBoundaries

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12)


def make_stream(sizes: list[int]) -> tuple[bytes, list[int]]:
    """Return a stream with frames of these sizes, and the offset at which each frame ends."""
    stream, ends = b"", []
    for size in sizes:
        stream += struct.pack(">i", size) + size * b"\xff"
        ends.append(len(stream))
    return stream, ends


@given(SIZES, st.data())
def test_frame_ends_do_not_depend_on_how_the_stream_is_cut(sizes: list[int], data: st.DataObject) -> None:
    stream, ends = make_stream(sizes)
    cuts = data.draw(st.lists(st.integers(0, len(stream))))
    boundaries = FrameBoundaries()
    found_ends: list[int] = []
    offsets = [0, *sorted(cuts), len(stream)]
    for start, end in pairwise(offsets):
        found_ends += [start + offset for offset in boundaries.ends(stream[start:end])]
        assert boundaries.at_boundary == (end == 0 or end in ends)
    assert found_ends == ends
    assert boundaries.framed


def test_frame_in_progress_has_no_end_yet() -> None:
    boundaries = FrameBoundaries()
    assert list(boundaries.ends(struct.pack(">i", 10) + b"abc")) == []
    assert list(boundaries.ends(b"defg")) == []
    assert list(boundaries.ends(b"hij" + struct.pack(">i", 1))) == [3]


def test_content_that_looks_like_a_frame_is_not_a_frame() -> None:
    boundaries = FrameBoundaries()
    inner = struct.pack(">i", 4) + b"abcd"
    assert list(boundaries.ends(struct.pack(">i", 2 * len(inner)))) == []
    assert list(boundaries.ends(inner)) == []
    assert list(boundaries.ends(inner)) == [len(inner)]
    assert boundaries.at_boundary


def test_http_tls_and_negative_lengths_are_not_framed() -> None:
    for start in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", b"\xff\xff\xff\xff", b"\x15\x03\x03\x00"):
        boundaries = FrameBoundaries()
        assert list(boundaries.ends(start)) == []
        assert not boundaries.framed
        assert boundaries.at_boundary
        assert list(boundaries.ends(b"\x00\x00\x00\x00")) == []


def test_rejects_a_length_above_the_maximum() -> None:
    maximum_length, excessive_length = FrameBoundaries(), FrameBoundaries()
    maximum_length.ends(struct.pack(">i", MAX_FRAME_BYTES))
    excessive_length.ends(struct.pack(">i", MAX_FRAME_BYTES + 1))
    assert maximum_length.framed
    assert not excessive_length.framed


def test_finds_frame_ends_before_framing_is_lost() -> None:
    boundaries = FrameBoundaries()
    assert list(boundaries.ends(struct.pack(">i", 1) + b"x" + b"HTTP")) == [5]
    assert not boundaries.framed
