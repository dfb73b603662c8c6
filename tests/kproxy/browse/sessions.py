"""Browse sessions with lines from a test or a capture."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kproxy.browse.rows.store import Spool
from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import Source, SourcePhase
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import Detail, FindingEntry, Line, RequestLine, ResponseLine
from kproxy.trace.timestamps import nanoseconds, timestamp
from tests.kproxy.capture_results import lines_of

SECOND = 1_000_000_000
BEGAN = 1_763_690_000 * SECOND


class LinesSource(Source):
    """A source with initial lines; a test may add more."""

    def __init__(
        self, lines: Iterable[Line] = (), *, phase: SourcePhase = SourcePhase.ENDED, keep: int | None = None
    ) -> None:
        self.spool = Spool(keep=keep, segment=4096)
        super().__init__("given", self.spool)
        self.phase = phase
        self.add(*lines)

    def add(self, *lines: Line) -> None:
        data = bytearray()
        for line in lines:
            append_line(line, data)
        self.spool.append(bytes(data))

    async def run(self) -> None:
        await asyncio.Event().wait()


def session_of(lines: Iterable[Line], **more: Any) -> BrowseSession:
    """Return a session that has read these lines."""
    session = BrowseSession(LinesSource(lines, **more))
    read(session)
    return session


def session_of_capture(path: Path) -> BrowseSession:
    return session_of(lines_of(path, detail=Detail.RAW))


def read(session: BrowseSession) -> None:
    while session.work(1):
        pass


def request(number: int, *, at: float = 0, api: str = "Fetch", api_key: int = 1, **more: Any) -> RequestLine:
    """Return a request on connection n-1, sent `at` seconds after `BEGAN`."""
    facts: dict[str, Any] = {
        "connection_id": "n-1", "client": "10.0.0.1:4000", "server": "10.0.0.2:9092", "api_version": 12,
        "client_id": "shop", "size": 100, "offset": number * 100,
    }  # fmt: skip
    return RequestLine(v=1, ts=timestamp(BEGAN + int(at * SECOND)), api=api, api_key=api_key, correlation_id=number,
                       **facts | more)  # fmt: skip


def response(request_line: RequestLine, *, after_us: int = 1000, **more: Any) -> ResponseLine:
    """Return the response to a request."""
    facts: dict[str, Any] = {
        name: getattr(request_line, name)
        for name in ("connection_id", "client", "server", "api", "api_key", "api_version", "client_id")
    } | {
        "size": 50, "offset": request_line.offset, "latency_us": after_us, "request_offset": request_line.offset,
    }  # fmt: skip
    return ResponseLine(v=1, ts=timestamp(nanoseconds(request_line.ts) + after_us * 1000),
                        correlation_id=request_line.correlation_id,
                        request_ts=request_line.ts, **facts | more)  # fmt: skip


def finding(severity: str = "warning", code: str = "S001") -> FindingEntry:
    return FindingEntry(code, "something-wrong", severity, "it is wrong")
