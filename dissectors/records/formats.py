"""What the three record formats share: how a batch or message says its length and format, and the attribute bits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from dissectors.wire.errors import DecodeError
from dissectors.wire.paths import render

#: Bytes up to and with the length field, which the length does not count.
LOG_OVERHEAD = 12

# Every format has its magic at the same place.
_UP_TO_MAGIC = struct.Struct(">8xi4xb")
_LENGTH = struct.Struct(">8xi")
_MINIMUM_LENGTH = 14  # of a message of format 0; Kafka holds all formats to it

TIMESTAMP_TYPE = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class BatchEntry(NamedTuple):
    """A batch of format 2 or an outermost message of format 0 or 1: ``data[start:end]``.

    `magic` is None at the end, where either less is there than the length says, or `fault` says why nothing more can
    be found.
    """

    start: int
    end: int
    magic: int | None
    fault: DecodeError | None = None


def entries(data: bytes | memoryview, start: int, end: int) -> Iterator[BatchEntry]:
    """The batches and messages in ``data[start:end]``, cut as Kafka cuts them (ByteBufferLogInputStream)."""
    while start < end:
        left = end - start
        if left < LOG_OVERHEAD:
            yield BatchEntry(start, end, None)
            return
        (length,) = _LENGTH.unpack_from(data, start)
        if length < _MINIMUM_LENGTH:
            message = f"length {length} is below the {_MINIMUM_LENGTH} bytes of the smallest message"
            yield BatchEntry(start, end, None, DecodeError(message, offset=start + 8, path=("batch_length",)))
            return
        if left < _UP_TO_MAGIC.size:
            yield BatchEntry(start, end, None)
            return
        length, magic = _UP_TO_MAGIC.unpack_from(data, start)
        if not 0 <= magic <= 2:
            message = f"record format {magic} does not exist"
            yield BatchEntry(start, end, None, DecodeError(message, offset=start + 16, path=("magic",)))
            return
        if length + LOG_OVERHEAD > left:
            yield BatchEntry(start, end, None)
            return
        yield BatchEntry(start, start + LOG_OVERHEAD + length, magic)
        start += LOG_OVERHEAD + length


def timestamp_type(attributes: int) -> str:
    """Who set the timestamps, as Kafka's ``message.timestamp.type`` names it."""
    return "LogAppendTime" if attributes & TIMESTAMP_TYPE else "CreateTime"


def counted(number: int, noun: str) -> str:
    """``1 byte``, ``2 bytes``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def sentence(error: DecodeError) -> str:
    """The error for a decoded batch: its place by name, since a byte offset says nothing in a trace."""
    return f"{render(error.path)}: {error.message}"
