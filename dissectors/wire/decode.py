"""Bytes to values: the compiled path for what is regular, the walk for what is not."""

from __future__ import annotations

from typing import Any, NamedTuple

from dissectors.wire.compiled import ERROR_CODE, TAGGED, Irregular, decoder
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout
from dissectors.wire.walk import DecodeWarning, walk


class Decoded(NamedTuple):
    """Values read, partial if `error` is set; `end` is one past the last byte read.

    `flags` are those of `dissectors.wire.compiled`; what the walk has read has all of them, because it does not look.
    """

    values: dict[str, Any]
    end: int
    error: DecodeError | None = None
    decode_warnings: tuple[DecodeWarning, ...] = ()
    flags: int = TAGGED | ERROR_CODE


def decode(layout: Layout, frame: bytes, start: int = 0) -> Decoded:
    """Read `layout` from `frame`.

    Args:
        layout: Body or header, as `dissectors.wire.layout` or an edit made it.
        frame: The whole frame, length prefix included, so that offsets in errors index into it.
        start: Offset of the first byte.

    Returns:
        Values by snake_case name. Times stay as Kafka sends them (ms), null is None, uuids are text as Kafka prints
        them, records a view of their bytes. A tagged field is there if it was on the wire; unknown ones are under
        ``_tags`` as [tag, bytes]. Bad bytes set `error` and never raise; bytes after the last field are left alone.

    Source: https://kafka.apache.org/protocol (types), KIP-482 (compact types, tag buffer).
    """
    try:
        values, end, flags = decoder(layout)(frame, start)
    except Irregular:
        walked = walk(layout, frame, start)
        return Decoded(walked.values, walked.end, walked.error, tuple(walked.decode_warnings))
    return Decoded(values, end, flags=flags)
