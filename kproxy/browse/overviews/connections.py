"""Connections: addresses, state, traffic, requests in flight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain

from dissectors.bounded import MAX_NAME_LENGTH
from kproxy.browse.overviews.connection import ConnectionSummary, ThrottledResponse, WaitingRequest
from kproxy.counting.counts import SeverityCounts
from kproxy.counting.frame_figures import FrameFigures, new_figures
from kproxy.counting.percentiles import Histogram
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine, StallLine

#: Maximum number of connections that are listed.
MAX_CONNECTIONS = 10_000
#: Maximum number of client ids kept per connection.
MAX_CLIENT_IDS = 8
#: Maximum number of pairs of API and version kept per connection.
MAX_VERSIONS = 200

_SASL = frozenset({"SaslHandshake", "SaslAuthenticate"})

#: A `WaitingRequest` in compact form: creating a named tuple takes four times as long.
_Waiting = tuple[str | None, int | None, int | None, int, int]


@dataclass(slots=True)
class _State:
    """The state of a connection; `summary` caches its row."""

    first_row: int
    first_at: int
    last_row: int
    last_at: int
    client: str = ""
    server: str = ""
    opened: OpenLine | None = None
    closed: CloseLine | None = None
    closed_at: int | None = None
    client_ids: dict[str, None] = field(default_factory=dict)
    last_client_id: str | None = None
    more_client_ids: bool = False
    software: tuple[str | None, str | None] = None, None
    sasl: str | None = None
    sasl_error: str | None = None
    principal: str | None = None
    client_instance_id: str | None = None
    versions: set[tuple[str, int]] = field(default_factory=set)
    waiting: dict[int, _Waiting] = field(default_factory=dict)  # by row, the oldest first
    frames: FrameFigures[Histogram] = field(default_factory=new_figures)
    throttled: int = 0
    throttled_ms: int = 0
    last_throttle: ThrottledResponse | None = None
    findings: SeverityCounts = field(default_factory=SeverityCounts)
    repeated: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    summary: ConnectionSummary | None = None


class ConnectionsOverview:
    """Collects the connections in the lines of a trace.

    If there are more than `MAX_CONNECTIONS`, those closed longest ago are dropped first; `others` counts those dropped.
    """

    def __init__(self) -> None:
        self.others = 0
        self._open: OrderedDict[str, _State] = OrderedDict()  # most recently active last
        self._closed: OrderedDict[str, _State] = OrderedDict()

    def observe(self, line: Line, row: int, at: int, requests: Collection[int]) -> None:
        """Process the next line, given its row in the index, its time in ns, and the requests it concerns."""
        if isinstance(line, StallLine):
            return
        connection_id = line.connection_id
        if isinstance(line, GapLine) and not connection_id:  # lines missing from the trace
            for connection in self._open.values():
                if requests:
                    connection.waiting.clear()
                connection.summary = None
            return
        state = self._open.get(connection_id)
        if state is None:
            state = self._find_or_add_connection(line, row, at)
        else:
            self._open.move_to_end(connection_id)
        state.summary = None
        state.last_row = row
        state.last_at = at
        if isinstance(line, RequestLine):
            self._observe_request(state, line, row, at, requests)
        elif isinstance(line, ResponseLine):
            self._observe_response(state, line, row, at, requests)
        elif isinstance(line, OpenLine):
            if state.opened is not line:
                self._add_connection(line, row, at)
        elif isinstance(line, CloseLine):
            self._close(state, line, at)
        elif isinstance(line, FindingLine):
            state.findings.add((line,))
        else:
            if requests:
                state.waiting.clear()
            state.gaps += 1
            state.gap_bytes += line.bytes

    def _find_or_add_connection(self, line: Line, row: int, at: int) -> _State:
        """Return the connection of a line if it is closed, or else a new one."""
        closed = None if isinstance(line, OpenLine) else self._closed.get(line.connection_id)
        return closed or self._add_connection(line, row, at)

    def _add_connection(self, line: Line, row: int, at: int) -> _State:
        """Add a connection that opens, or whose start is not in the trace; replace any with the same id."""
        connection_id = line.connection_id
        self._drop(self._open, connection_id)
        self._drop(self._closed, connection_id)
        if len(self._open) >= MAX_CONNECTIONS:
            self._drop(self._open, next(iter(self._open)))
        elif len(self._open) + len(self._closed) >= MAX_CONNECTIONS:
            self._drop(self._closed, next(iter(self._closed)))
        state = self._open[connection_id] = _State(row, at, row, at)
        if isinstance(line, OpenLine):
            state.opened = line
        if not isinstance(line, FindingLine | GapLine | StallLine):
            state.client, state.server = line.client, line.server
        return state

    def _drop(self, connections: OrderedDict[str, _State], connection_id: str) -> None:
        """Drop a connection from the list, if it is listed."""
        if connections.pop(connection_id, None) is not None:
            self.others += 1

    def _observe_request(self, state: _State, line: RequestLine, row: int, at: int, requests: Collection[int]) -> None:
        state.frames.add_request(line)
        api, version = line.api, line.api_version
        if line.client_id != state.last_client_id or line.software_name is not None or not state.server:
            _record_client(state, line)
        if api is not None and version is not None:
            if (api, version) not in state.versions and len(state.versions) < MAX_VERSIONS:
                state.versions.add((api, version))
            if requests:
                state.waiting[row] = api, version, line.correlation_id, at, row
        if line.findings:
            state.findings.add(line.findings)

    def _observe_response(
        self, state: _State, line: ResponseLine, row: int, at: int, requests: Collection[int]
    ) -> None:
        state.frames.add_response(line)
        if line.principal is not None:
            state.principal = line.principal[:MAX_NAME_LENGTH]
        if line.client_instance_id is not None:
            state.client_instance_id = line.client_instance_id[:MAX_NAME_LENGTH]
        for request in requests:
            state.waiting.pop(request, None)
        if line.throttle_time_ms is not None and line.throttle_time_ms > 0:
            state.throttled += 1
            state.throttled_ms += line.throttle_time_ms
            state.last_throttle = ThrottledResponse(line.throttle_time_ms, at, row)
        if line.findings:
            state.findings.add(line.findings)
        if line.api in _SASL or state.sasl == "asked":
            _update_login(state, line)

    def _close(self, state: _State, line: CloseLine, at: int) -> None:
        state.closed, state.closed_at = line, at
        state.client, state.server = line.client, line.server
        state.repeated += sum(repeat.count for repeat in line.repeated)
        state.waiting.clear()
        if self._open.pop(line.connection_id, None) is not None:
            self._closed[line.connection_id] = state

    def rows(self) -> list[ConnectionSummary]:
        """Return the connections in order of first appearance."""
        states = sorted(chain(self._closed.items(), self._open.items()), key=lambda item: item[1].first_row)
        return [state.summary or self._connection_summary(connection_id, state) for connection_id, state in states]

    def _connection_summary(self, connection_id: str, state: _State) -> ConnectionSummary:
        opened, closed = state.opened, state.closed
        oldest = next(iter(state.waiting.values()), None)
        p50, p99 = state.frames.latencies.percentiles(0.5, 0.99)
        versions: dict[str, tuple[int, ...]] = {}
        for api, version in sorted(state.versions):
            versions[api] = (*versions.get(api, ()), version)
        state.summary = ConnectionSummary(
            connection_id=connection_id,
            client=state.client,
            server=state.server,
            listener=opened.listener if opened else None,
            tls=opened.tls if opened else False,
            midstream=opened.midstream if opened else True,
            client_ids=tuple(state.client_ids),
            more_client_ids=state.more_client_ids,
            software_name=state.software[0],
            software_version=state.software[1],
            sasl=state.sasl,
            sasl_error=state.sasl_error,
            principal=state.principal,
            client_instance_id=state.client_instance_id,
            opened_at=state.first_at if opened else None,
            first_at=state.first_at,
            last_at=state.last_at,
            closed_at=state.closed_at,
            closed_by=closed.by if closed else None,
            closed_how=closed.how if closed else None,
            versions=versions,
            requests=state.frames.requests,
            responses=state.frames.responses,
            request_bytes=state.frames.request_bytes,
            response_bytes=state.frames.response_bytes,
            in_flight=len(state.waiting),
            oldest=WaitingRequest(*oldest) if oldest else None,
            unanswered=closed.unanswered if closed else 0,
            p50_us=p50,
            p99_us=p99,
            max_us=state.frames.latencies.max if state.frames.latencies.count else None,
            refusals=state.frames.errors.responses,
            errors=state.frames.errors.row(),
            throttled=state.throttled,
            throttled_ms=state.throttled_ms,
            last_throttle=state.last_throttle,
            findings=state.findings.row(),
            repeated=state.repeated,
            gaps=state.gaps,
            gap_bytes=state.gap_bytes,
            first_row=state.first_row,
            last_row=state.last_row,
        )
        return state.summary


def _record_client(state: _State, line: RequestLine) -> None:
    """Record the client id, software name and version."""
    state.client, state.server = line.client, line.server
    client_id = line.client_id and line.client_id[:MAX_NAME_LENGTH]
    state.last_client_id = client_id
    if line.software_name is not None:
        state.software = line.software_name[:MAX_NAME_LENGTH], (line.software_version or "")[:MAX_NAME_LENGTH]
    if client_id is not None and client_id not in state.client_ids:
        state.more_client_ids = len(state.client_ids) == MAX_CLIENT_IDS
        if not state.more_client_ids:
            state.client_ids[client_id] = None


def _update_login(state: _State, line: ResponseLine) -> None:
    """Update the login state from a response."""
    if line.api in _SASL and line.errors:
        state.sasl, state.sasl_error = "failed", line.errors[0].name[:MAX_NAME_LENGTH]
    elif line.api == "SaslHandshake":
        state.sasl, state.sasl_error = "asked", None
    elif line.api is not None and line.api != "ApiVersions":  # after a v0 handshake, tokens have no API
        state.sasl, state.sasl_error = "done", None
