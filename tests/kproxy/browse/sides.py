"""Trace lines of single frames, for tests of the detail view."""

from __future__ import annotations

import base64
from typing import Any

from dissectors.messages.message import api_name
from kproxy.trace.lines import RequestLine, ResponseLine

_TS = "2026-03-01T00:00:00.000000Z"


def request_line(frame: bytes | None, **more: Any) -> RequestLine:
    """Return the line of a request with its raw frame; `more` sets further columns."""
    key, version = (int.from_bytes((frame or b"")[offset : offset + 2], "big", signed=True) for offset in (4, 6))
    return RequestLine(v=1, ts=_TS, connection_id="c-1", client="a:1", server="b:2", size=len(frame or b""), offset=0,
                       **(_columns(frame, key, version) | more))  # fmt: skip


def response_line(frame: bytes | None, key: int, version: int, **more: Any) -> ResponseLine:
    """Return the line of a response to a request of that API and version."""
    return ResponseLine(v=1, ts=_TS, connection_id="c-1", client="a:1", server="b:2", size=len(frame or b""), offset=0,
                        **(_columns(frame, key, version) | more))  # fmt: skip


def _columns(frame: bytes | None, key: int, version: int) -> dict[str, Any]:
    encoded = None if frame is None else base64.b64encode(frame).decode()
    return {"api": api_name(key), "api_key": key, "api_version": version, "frame": encoded}
