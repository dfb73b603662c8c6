"""Parses trace lines without bodies and bytes, which is all that the index and overviews need, at half the cost."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import Raw

from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine, StallLine


class _Request(RequestLine, tag="request"):
    body: Raw = Raw()  # type: ignore[assignment]  # skipped, not decoded
    frame: Raw = Raw()  # type: ignore[assignment]


class _Response(ResponseLine, tag="response"):
    body: Raw = Raw()  # type: ignore[assignment]
    frame: Raw = Raw()  # type: ignore[assignment]


_DECODER = msgspec.json.Decoder(OpenLine | _Request | _Response | FindingLine | GapLine | StallLine | CloseLine)


def parse_partial(data: bytes) -> Line | None:
    """Parse a trace line without its `body` and `frame`; return None if it is not a trace line."""
    try:
        return cast("Line", _DECODER.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
