"""Reads lengths and counts in Kafka's encodings and in those of departing writers."""

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
    """A function that reads a length and returns it with its end; -1 is null."""
    if encoding in ("int16", "int32"):
        width = 2 if encoding == "int16" else 4

        def read_fixed(state: FrameBytes, pos: int) -> tuple[int, int]:
            end = pos + width
            if end > state.end:
                raise Misfit(pos)
            size = int.from_bytes(state.data[pos:end], "big", signed=True)
            if size < -1:
                raise Misfit(pos)
            return size, end

        return read_fixed
    bias = {"uvarint": 1, "uvarint-1": 0, "uvarint+1": 2}[encoding]

    def read_compact(state: FrameBytes, pos: int) -> tuple[int, int]:
        size, end = read_uvarint(state, pos)
        if size == 0:
            return (-1 if bias else 0), end
        if size < bias:
            raise Misfit(pos)
        return size - bias, end

    return read_compact


def read_uvarint(state: FrameBytes, pos: int) -> tuple[int, int]:
    data, end = state.data, state.end
    value = shift = 0
    while pos < end and shift < 35:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise Misfit(pos)
