"""The common parts of the three record formats: length, magic, and attribute bits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from dissectors.wire.errors import DecodeError
from dissectors.wire.paths import render

#: The size of the fields up to and including the length, which the length does not count.
LOG_OVERHEAD = 12

# The magic is at the same offset in every format.
_UP_TO_MAGIC = struct.Struct(">8xi4xb")
_LENGTH = struct.Struct(">8xi")
_MINIMUM_LENGTH = 14  # the minimum of format 0, which Kafka requires of all formats

TIMESTAMP_TYPE = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class BatchEntry(NamedTuple):
    """A batch of format 2, or an outermost message of format 0 or 1, in ``data[start:end]``.

    `magic` is None for the last entry if it is truncated, or if `fault` explains why no further batch can be found.
    """

    start: int
    end: int
    magic: int | None
    fault: DecodeError | None = None


def entries(data: bytes | memoryview, start: int, end: int) -> Iterator[BatchEntry]:
    """Yield the batches and messages in ``data[start:end]``, split as in Kafka (ByteBufferLogInputStream)."""
    while start < end:
        remaining = end - start
        if remaining < LOG_OVERHEAD:
            yield BatchEntry(start, end, None)
            return
        (length,) = _LENGTH.unpack_from(data, start)
        if length < _MINIMUM_LENGTH:
            message = f"length {length} is below the {_MINIMUM_LENGTH} bytes of the smallest message"
            yield BatchEntry(start, end, None, DecodeError(message, offset=start + 8, path=("batch_length",)))
            return
        if remaining < _UP_TO_MAGIC.size:
            yield BatchEntry(start, end, None)
            return
        length, magic = _UP_TO_MAGIC.unpack_from(data, start)
        if not 0 <= magic <= 2:
            message = f"record format {magic} does not exist"
            yield BatchEntry(start, end, None, DecodeError(message, offset=start + 16, path=("magic",)))
            return
        if length + LOG_OVERHEAD > remaining:
            yield BatchEntry(start, end, None)
            return
        yield BatchEntry(start, start + LOG_OVERHEAD + length, magic)
        start += LOG_OVERHEAD + length


def timestamp_type(attributes: int) -> str:
    """Return the timestamp type, as in Kafka's ``message.timestamp.type``."""
    return "LogAppendTime" if attributes & TIMESTAMP_TYPE else "CreateTime"


def count_text(number: int, noun: str) -> str:
    """Return a count with its noun: ``1 byte``, ``2 bytes``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def sentence(error: DecodeError) -> str:
    """Return the text of an error in a decoded batch, with its path instead of an offset."""
    return f"{render(error.path)}: {error.message}"
