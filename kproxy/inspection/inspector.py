"""Inspector: the bytes of connections in, trace lines out. The same for a live relay, a capture and a replay."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dissectors import rules
from dissectors.connections.connection import Connection
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionEnded,
    ConnectionOpened,
    Direction,
    Event,
    FrameInPart,
    InspectionFailed,
    ProxyHeaderReceived,
    RequestReceived,
    ResponseReceived,
    TlsFailed,
    TokenReceived,
)
from dissectors.connections.framing import MAX_DECODED_BYTES
from dissectors.failures import Failure
from dissectors.findings import Finding
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState, RunState
from kproxy.inspection.event_lines import finding_line, gap_line, token_line
from kproxy.inspection.frame_lines import FrameLines
from kproxy.inspection.stall_lines import StallLines
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import (
    FORMAT,
    CloseLine,
    Detail,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
    StallLine,
)


class OpenConnection(NamedTuple):
    """A connection that is open now; bytes and whole frames by direction, `waiting` its unanswered requests."""

    opened: OpenLine
    bytes: tuple[int, int]
    frames: tuple[int, int]
    in_flight: int
    waiting: Iterator[RequestLine]


class WaitingResponse(NamedTuple):
    """A request that still has no response: how long it has waited (s), and how many more wait on its connection."""

    request: RequestLine
    seconds: int
    others: int


#: A request that waits is mentioned when its response is so late (s); after the last of these once an hour.
STEPS = (5, 15, 60, 300, 900, 3600)


@dataclass(slots=True)
class _State:
    opened: OpenLine
    connection_id: str
    client: str
    server: str
    connection: Connection
    connection_state: ConnectionState
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    frames: list[int] = field(default_factory=lambda: [0, 0])
    in_part: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0), (0, 0)])
    mentioned: tuple[int, int] = (-1, 0)  # offset of the request that was last said to wait, and at how many steps


class Inspector:
    """Watches any number of connections and says what was said, as trace lines.

    Args:
        name: What connection ids begin with; unique among the traces that are read together.
        detail: How much of each frame goes into its line.
        excerpts: Findings have the bytes around their spans, which they have above `Detail.SUMMARY` anyway.
        frames: What `frames` is at first.
    """

    def __init__(
        self, name: str, detail: Detail = Detail.SUMMARY, *, excerpts: bool = False, frames: bool = False
    ) -> None:
        self._name = name
        self._detail = detail
        self._run_state = RunState(rules.trackers(InFlight))
        self._run = ConnectionState(self._run_state)  # of no connection
        self._frame_lines = FrameLines(self._run_state, detail, excerpts=excerpts)
        self._stall_lines = StallLines()
        self._connections: dict[int, _State] = {}
        self.frames = frames

    @property
    def frames(self) -> bool:
        """Whether lines have their `frame` at any detail; it may change at any time, and holds for what comes then."""
        return self._frames

    @frames.setter
    def frames(self, wanted: bool) -> None:
        self._frames = wanted
        with_frame = self._frame_lines.with_frame = wanted or self._detail is Detail.RAW
        # A body, and a frame in base64, take a multiple of the frame's memory.
        share = 4 if with_frame else 2 if self._detail is Detail.FULL else 1
        self._max_decoded_bytes = MAX_DECODED_BYTES // share
        for state in self._connections.values():
            state.connection.limit(self._max_decoded_bytes)

    def open(
        self,
        number: int,
        client: str,
        server: str,
        *,
        at: int,
        listener: str | None = None,
        tls: bool = False,
        midstream: bool = False,
    ) -> list[Line]:
        """A connection begins. `midstream`: what comes first may be the middle of a frame."""
        opened = OpenLine(
            v=FORMAT,
            ts=timestamp(at),
            connection_id=f"{self._name}-{number}",
            client=client,
            server=server,
            listener=listener,
            tls=tls,
            midstream=midstream,
        )
        state = _State(
            opened,
            opened.connection_id,
            client,
            server,
            Connection(midstream=midstream, max_decoded_bytes=self._max_decoded_bytes),
            ConnectionState(self._run_state, opened.connection_id),
        )
        lines = self.tick(at=at)
        self._connections[number] = state
        lines.append(opened)
        return lines + self._lines(state, [ConnectionOpened(at, client, server, listener, tls, midstream)])

    def tick(self, *, at: int) -> list[Line]:
        """Time has come to `at`: what should have happened before and has not."""
        lines: list[Line] = [
            finding_line(connection_state.connection_id, event, finding)
            for connection_state, event in self._run_state.deadlines.passed(at)
            for finding in rules.check(event, connection_state)
        ]
        if at >= self._stall_lines.due:
            lines += self._stalls(self._stall_lines.tick, at=at)
        return lines

    def data(self, number: int, direction: Direction, data: bytes, *, at: int) -> list[Line]:
        """The next bytes of one direction."""
        state = self._connections[number]
        state.bytes[direction] += len(data)
        is_due = at >= self._stall_lines.due or self._run_state.deadlines.is_due(at)
        passed = self.tick(at=at) if is_due else None
        connection = state.connection
        try:
            events = connection.receive_data(direction, data, at=at)
        except Exception as error:  # noqa: BLE001
            return (passed or []) + self._start_over(state, direction, len(data), error, at=at)
        if (in_part := connection.in_part(direction)) != state.in_part[direction]:
            state.in_part[direction] = in_part
            events.append(FrameInPart(at, direction, *in_part))
        lines = self._lines(state, events)
        return passed + lines if passed else lines

    def replace_next(self, number: int, direction: Direction, frame: bytes) -> None:
        """The relay sent `frame` in place of the next frame of one direction."""
        self._connections[number].connection.replace_next(direction, frame)

    def tls_failed(self, number: int, failed: TlsFailed) -> list[Line]:
        """TLS with one of the two peers failed."""
        return self._lines(self._connections[number], [failed])

    def lose(
        self, number: int, direction: Direction, size: int, *, at: int, reason: str, frames: int | None = None
    ) -> list[Line]:
        """Bytes that went by unseen; `frames`, if known, says how many whole ones they held before the next begins."""
        state = self._connections[number]
        state.bytes[direction] += size
        state.frames[direction] += frames or 0
        try:
            events = state.connection.lose_data(direction, size, at=at, reason=reason, frames=frames)
        except Exception as error:  # noqa: BLE001
            return self._start_over(state, direction, size, error, at=at)
        return self._lines(state, events)

    def skip(self, number: int, direction: Direction, head: bytes, size: int, *, at: int, reason: str) -> list[Line]:
        """A whole frame that went by; only its first bytes are known."""
        state = self._connections[number]
        state.bytes[direction] += size + 4
        try:
            events = state.connection.skip_frame(direction, head, size, at=at, reason=reason)
        except Exception as error:  # noqa: BLE001
            return self._start_over(state, direction, size + 4, error, at=at)
        return self._lines(state, events)

    def close(self, number: int, *, at: int, by: str | None = None, how: str | None = None) -> list[Line]:
        """A connection is over, `by` whom (client, server, proxy) and `how` (fin, reset, ...)."""
        lines = self.tick(at=at)
        state = self._connections.pop(number)
        try:
            events = state.connection.close(at=at)
        except Exception as error:  # noqa: BLE001
            lines += self._failed(state, Failure.of("closing a connection", error), at=at)
            events = [ConnectionEnded(at)]
        ended = events[-1]
        assert isinstance(ended, ConnectionEnded)
        ended.by, ended.how = by, how
        lines += self._lines(state, events)
        closed = CloseLine(
            v=FORMAT,
            ts=timestamp(at),
            connection_id=state.connection_id,
            client=state.client,
            server=state.server,
            by=by,
            how=how,
            request_bytes=state.bytes[0],
            response_bytes=state.bytes[1],
            requests=state.frames[0],
            responses=state.frames[1],
            unanswered=len(ended.unanswered),
            repeated=[RepeatEntry(*which, count) for which, count in sorted(state.connection_state.repeated.items())],
        )
        return [*lines, closed, *self._stalls(self._stall_lines.take, closed, at=at)]

    def open_now(self) -> Iterator[OpenConnection]:
        """What is open; the requests of a connection, oldest first, are made into lines as they are asked for."""
        for state in self._connections.values():
            connection = state.connection
            waiting = (self._frame_lines.again(state, request) for request in connection.waiting)
            counts = (state.bytes[0], state.bytes[1]), (state.frames[0], state.frames[1])
            yield OpenConnection(state.opened, *counts, connection.in_flight, waiting)

    def still_waiting(self, *, at: int) -> Iterator[WaitingResponse]:
        """The oldest unanswered request of each connection, if its response has become late by another step."""
        for state in self._connections.values():
            oldest = state.connection_state.state(InFlight).oldest(state.connection_state)
            if oldest is None:
                continue
            request, due = oldest
            step = _steps((at - due) // SECOND)
            offset, mentioned = state.mentioned
            if step > (mentioned if offset == request.offset else 0):
                state.mentioned = request.offset, step
                line = self._frame_lines.again(state, request)
                yield WaitingResponse(line, (at - request.at) // SECOND, state.connection.in_flight - 1)

    def close_all(self, *, at: int, how: str) -> Iterable[Line]:
        """Close what is still open, e.g. where a capture ends."""
        yield from self._stalls(self._stall_lines.tick, at=at)
        for number in list(self._connections):
            yield from self.close(number, at=at, how=how)
        yield from self._stalls(self._stall_lines.end, at=at)

    def fail(self, step: str, error: Exception, *, at: int) -> list[Line]:
        """A bug in kproxy ended a step outside any connection, e.g. reading a packet: report it, once in a run."""
        return self._failed(None, Failure.of(step, error), at=at)

    def _failed(self, state: _State | None, failure: Failure, *, at: int) -> list[Line]:
        connection_state = self._run if state is None else state.connection_state
        event = InspectionFailed(at, failure)
        findings = rules.check(event, connection_state)
        return [finding_line(connection_state.connection_id, event, finding) for finding in findings]

    def _stalls(self, step: Callable[..., list[StallLine]], *line: Line, at: int) -> list[Line]:
        try:
            return step(*line, at=at)  # type: ignore[return-value]
        except Exception as error:  # noqa: BLE001
            self._stall_lines = StallLines()
            return self._failed(None, Failure.of("following a group", error), at=at)

    def _start_over(self, state: _State, direction: Direction, size: int, error: Exception, *, at: int) -> list[Line]:
        """Cutting these bytes into frames has failed: leave them out, and look for a frame in those that follow."""
        failure = Failure.of("cutting bytes into frames", error)
        state.connection = Connection(midstream=True, max_decoded_bytes=self._max_decoded_bytes)
        for each in Direction:
            state.connection.lose_data(each, state.bytes[each], at=at, reason=failure.title)  # offsets go on
        lines = self._failed(state, failure, at=at)
        offset = state.bytes[direction] - size
        gap = gap_line(state.connection_id, BytesSkipped(direction, offset, at, size, 0, failure.title))
        return [*lines, gap, *self._stalls(self._stall_lines.take, gap, at=at)]

    def _frame_line(
        self, state: _State, event: RequestReceived | ResponseReceived, findings: list[Finding]
    ) -> RequestLine | ResponseLine:
        make = self._frame_lines.request if isinstance(event, RequestReceived) else self._frame_lines.response
        try:
            return make(state, event, findings)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001
            failure = Failure.of("writing a frame's line", error)
            state.connection_state.failures.append(failure)
            findings += rules.failed(event, state.connection_state)
            if event.message is not None:
                event.message = event.message.unread(failure)
            return make(state, event, findings)  # type: ignore[arg-type]

    def _lines(self, state: _State, events: list[Event]) -> list[Line]:
        lines: list[Line] = []
        connection_state = state.connection_state
        for event in events:
            connection_state.observe(event)
            findings = rules.check(event, connection_state)
            if isinstance(event, RequestReceived | ResponseReceived):
                state.frames[isinstance(event, ResponseReceived)] += 1
                line = self._frame_line(state, event, findings)
                lines.append(line)
                if line.group_id is not None and (stalls := self._stalls(self._stall_lines.take, line, at=event.at)):
                    lines += stalls
                continue
            if isinstance(event, TokenReceived):
                state.frames[event.direction] += 1
                lines.append(token_line(state.connection_id, state.client, state.server, event))
            elif isinstance(event, BytesSkipped | ProxyHeaderReceived):
                gap = gap_line(state.connection_id, event)
                lines.append(gap)
                lines += self._stalls(self._stall_lines.take, gap, at=event.at)
            lines.extend(finding_line(state.connection_id, event, finding) for finding in findings)
        return lines


def _steps(seconds: int) -> int:
    """How many of the steps have passed."""
    return bisect_right(STEPS, seconds) + max(0, seconds // STEPS[-1] - 1)
