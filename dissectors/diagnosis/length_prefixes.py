"""Read lengths and counts in Kafka's encodings, and in the wrong encodings that some writers use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

from dissectors.diagnosis.misfit import Misfit


class FrameBytes(Protocol):
    """The frame being read."""

    data: bytes
    end: int


@functools.cache
def length_reader(encoding: str) -> Callable[[FrameBytes, int], tuple[int, int]]:
    """Return a function that reads a length and returns it and the position after it; the length -1 stands for null."""
    if encoding in ("int16", "int32"):
        width = 2 if encoding == "int16" else 4

        def read_fixed(frame: FrameBytes, pos: int) -> tuple[int, int]:
            end = pos + width
            if end > frame.end:
                raise Misfit(pos)
            size = int.from_bytes(frame.data[pos:end], "big", signed=True)
            if size < -1:
                raise Misfit(pos)
            return size, end

        return read_fixed
    bias = {"uvarint": 1, "uvarint-1": 0, "uvarint+1": 2}[encoding]

    def read_compact(frame: FrameBytes, pos: int) -> tuple[int, int]:
        size, end = read_uvarint(frame, pos)
        if size == 0:
            return (-1 if bias else 0), end
        if size < bias:
            raise Misfit(pos)
        return size - bias, end

    return read_compact


def read_uvarint(frame: FrameBytes, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; return it and the position after it."""
    data, end = frame.data, frame.end
    value = shift = 0
    while pos < end and shift < 35:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise Misfit(pos)
