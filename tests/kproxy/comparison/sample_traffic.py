"""Sample traffic, built from exchanges written as short tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kproxy.comparison.traffic import RecordedTraffic, collect_traffic
from kproxy.trace.lines import ErrorEntry, FindingEntry, Line, RequestLine, ResponseLine

TS = "2026-01-01T00:00:00.000000Z"
#: API, version, response body (None if there was no response) and request body.
Exchange = tuple[Any, ...]


def lines(*connections: Sequence[Exchange], client_ids: Sequence[str] = (), finding: str = "") -> Iterator[Line]:
    for number, exchanges in enumerate(connections):
        client = client_ids[number] if client_ids else "app"
        for offset, (api, version, response, *request) in enumerate(exchanges):
            common: dict[str, Any] = {
                "v": 1, "ts": TS, "connection_id": f"x-{number}", "client": "c", "server": "s", "api": api,
                "api_version": version, "correlation_id": offset, "client_id": client, "size": 1, "offset": offset,
            }  # fmt: skip
            yield RequestLine(**common, body=request[0] if request else {})
            if response is not None:
                entries = [FindingEntry(finding, "name", "error", "message")] if finding else []
                code = response.get("error_code", 0)
                errors = [ErrorEntry("error_code", code, "name")] if code else []
                yield ResponseLine(**common, request_offset=offset, body=response, findings=entries, errors=errors)


def traffic(*connections: Sequence[Exchange], **options: Any) -> RecordedTraffic:
    return collect_traffic("x.jsonl", lines(*connections, **options))
