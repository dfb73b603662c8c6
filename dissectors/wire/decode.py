"""Decode bytes to values: with the compiled decoder, or with the walk if the bytes are irregular."""

from __future__ import annotations

from typing import Any, NamedTuple

from dissectors.wire.compiled import ERROR_CODE, TAGGED, Irregular, decoder
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout
from dissectors.wire.walk import DecodeWarning, walk


class Decoded(NamedTuple):
    """Decoded values, partial if `error` is set; `end` is one past the last byte read.

    `flags` are defined in `dissectors.wire.compiled`. The walk cannot compute them: it sets `TAGGED` and `ERROR_CODE`.
    """

    values: dict[str, Any]
    end: int
    error: DecodeError | None = None
    decode_warnings: tuple[DecodeWarning, ...] = ()
    flags: int = TAGGED | ERROR_CODE


def decode(layout: Layout, frame: bytes, start: int = 0) -> Decoded:
    """Read `layout` from `frame`.

    Args:
        layout: The layout of a body or header, from `dissectors.wire.layout` or an edit.
        frame: The whole frame, length prefix included, so that offsets in errors index into it.
        start: Offset of the first byte.

    Returns:
        Values by snake_case name. Times are in ms, as Kafka sends them; null is None; uuids are text as Kafka prints
        them; records are a memoryview. A tagged field is present only if it was on the wire; unknown tags are under
        ``_tags`` as [tag, bytes]. Bad bytes set `error` and never raise. Bytes after the last field are not read.

    Source: https://kafka.apache.org/protocol (types), KIP-482 (compact types, tag buffer).
    """
    try:
        values, end, flags = decoder(layout)(frame, start)
    except Irregular:
        walked = walk(layout, frame, start)
        return Decoded(walked.values, walked.end, walked.error, tuple(walked.decode_warnings))
    return Decoded(values, end, flags=flags)
