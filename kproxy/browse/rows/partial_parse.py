"""Trace lines without their bodies and bytes: what an index and the overviews need, at half the cost."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import Raw

from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine, StallLine


class _Request(RequestLine, tag="request"):
    body: Raw = Raw()  # type: ignore[assignment]  # passed over, not built
    frame: Raw = Raw()  # type: ignore[assignment]


class _Response(ResponseLine, tag="response"):
    body: Raw = Raw()  # type: ignore[assignment]
    frame: Raw = Raw()  # type: ignore[assignment]


_DECODER = msgspec.json.Decoder(OpenLine | _Request | _Response | FindingLine | GapLine | StallLine | CloseLine)


def parse_light(data: bytes) -> Line | None:
    """A line of a trace whose `body` and `frame` are not to be looked at; None if it is none."""
    try:
        return cast("Line", _DECODER.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
