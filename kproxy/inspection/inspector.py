"""Inspector: turns the bytes of connections into trace lines, for a live relay and for captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from dissectors import schemas
from dissectors.connections.connection import Connection
from dissectors.connections.events import (
    BytesDiffer,
    BytesSkipped,
    ConnectFailed,
    ConnectFailure,
    ConnectionEnded,
    ConnectionOpened,
    Direction,
    Event,
    TlsFailed,
)
from dissectors.connections.framing import MAX_DECODED_BYTES
from dissectors.failures import Failure
from dissectors.limits import NO_VALUES, Values
from dissectors.trackers.state import ConnectionState
from kproxy.inspection.event_inspection import EventInspection
from kproxy.inspection.event_lines import close_line, gap_line, not_connected_lines
from kproxy.inspection.inspected_connection import InspectedConnection, OpenConnection, Progress
from kproxy.inspection.late_responses import WaitingResponse, late_responses
from kproxy.inspection.needs import EVERYTHING, Needs
from kproxy.trace.lines import FORMAT, Detail, GapLine, Line, OpenLine
from kproxy.trace.timestamps import timestamp

if TYPE_CHECKING:
    from kproxy.inspection.record_budget import RecordBudget
    from kproxy.inspection.record_values import RecordValues

#: Events that are not yet judged, each with its connection.
Received: TypeAlias = list[tuple[InspectedConnection, Event]]


class Inspector:
    """Inspects any number of connections. Each method returns the trace lines that it completes, in order.

    Times `at` are in ns since the epoch. No method raises on any bytes.

    A caller that has several pieces of data at once gives them to `receive` and then calls `flush`. All frames are
    then decoded before the first is judged, which is faster: each stage finds its code and data in the processor's
    caches. Any other method flushes first, so lines are in the order of the calls.

    Args:
        name: Prefix of connection ids, unique among traces that are analyzed together.
        detail: How much of each frame its line has.
        excerpts: Whether findings have excerpts even at `Detail.SUMMARY`.
        frames: The initial value of the attribute `frames`.
        needs: The parts of the inspection that are needed. Lines lack the data that the other parts would add.
        record_values: Decodes the records in bodies. Its source of schemas may do I/O: a live proxy needs one that
            does not wait for it.
        withholds_records: Whether lines have no part of keys, values and headers, except in `frame`.
        partial: Whether it inspects only some of the connections. It then makes no lines of stalls, which need the
            lines of all connections, and `take_new_causes` returns the root causes of its findings.
        limits: The limits of rules that the user has set.
        record_budget: How much work goes into records; by default, as much as a running proxy may spend.
    """

    def __init__(
        self,
        name: str,
        detail: Detail = Detail.SUMMARY,
        *,
        excerpts: bool = False,
        frames: bool = False,
        needs: Needs = EVERYTHING,
        record_values: RecordValues | None = None,
        withholds_records: bool = False,
        partial: bool = False,
        record_budget: RecordBudget | None = None,
        limits: Values = NO_VALUES,
    ) -> None:
        self._name = name
        self._detail = detail
        self._inspection = EventInspection(
            detail,
            excerpts=excerpts,
            needs=needs,
            record_values=record_values,
            withholds_records=withholds_records,
            record_budget=record_budget,
            partial=partial,
            limits=limits,
        )
        self._bodies_of = None if needs.decoding else _api_keys(self._inspection.run_state.trackers.apis)
        self._connections: dict[int, InspectedConnection] = {}
        self._received: Received = []  # not yet judged
        self.frames = frames

    @property
    def is_behind(self) -> bool:
        """Whether frames are passing of which it will only learn later that they were lost: nothing is late then."""
        return self._inspection.is_behind

    @is_behind.setter
    def is_behind(self, is_behind: bool) -> None:
        self._inspection.is_behind = is_behind

    @property
    def frames(self) -> bool:
        """Whether lines have their `frame` at any detail. It may change at any time, for later lines."""
        return self._frames

    @frames.setter
    def frames(self, enabled: bool) -> None:
        self._frames = enabled
        with_frame = self._inspection.frame_lines.with_frame = enabled or self._detail is Detail.RAW
        # A body and a base64 frame need a multiple of the frame's memory.
        divisor = 4 if with_frame else 2 if self._detail is Detail.FULL else 1
        self._max_decoded_bytes = MAX_DECODED_BYTES // divisor
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
        plaintext_upstream: bool = False,
        midstream: bool = False,
        resumed: tuple[Progress, Progress] | None = None,
        sample: float | None = None,
    ) -> list[Line]:
        """Add a connection.

        Args:
            number: Identifies the connection; part of its id.
            client: The client's address.
            server: The server's address.
            at: The time (ns).
            listener: The relay's address that accepted it.
            tls: Whether it is encrypted.
            plaintext_upstream: Whether a relay terminates its TLS and continues in plaintext.
            midstream: Whether its first bytes may be in the middle of a frame.
            resumed: How far another inspector has seen it, by direction.
            sample: The fraction of connections that is inspected.
        """
        midstream = midstream or resumed is not None
        if sample is not None and sample < 1:
            self._inspection.observe_sample()
        opened = OpenLine(
            v=FORMAT,
            ts=timestamp(at),
            connection_id=f"{self._name}-{number}",
            client=client,
            server=server,
            listener=listener,
            tls=tls,
            midstream=midstream,
            sample=sample,
        )
        state = InspectedConnection(
            opened,
            self._new_connection(midstream=midstream),
            ConnectionState(self._inspection.run_state, opened.connection_id),
            number,
        )
        for direction, progress in zip(Direction, resumed or (), strict=False):
            state.bytes[direction], state.frames[direction] = progress.bytes, progress.frames
            state.connection.resume(direction, progress.bytes, at_frame=progress.at_frame)
        lines = self.tick(at=at)
        self._connections[number] = state
        lines.append(opened)
        event = ConnectionOpened(at, client, server, listener, tls, midstream, resumed is not None, plaintext_upstream)
        return lines + self._inspection.lines([(state, event)])

    def _new_connection(self, *, midstream: bool) -> Connection:
        return Connection(midstream=midstream, max_decoded_bytes=self._max_decoded_bytes, bodies_of=self._bodies_of)

    def progress(self, number: int) -> tuple[Progress, Progress] | None:
        """Return how far each direction of a connection was inspected; None if it is not open."""
        if (state := self._connections.get(number)) is None:
            return None
        reported = state.connection.reported
        return (
            Progress(reported(Direction.REQUEST), state.frames[0]),
            Progress(reported(Direction.RESPONSE), state.frames[1]),
        )

    def on_frame(self, callback: Callable[[int, int], None]) -> None:
        """Call `callback` with the number of the connection and the API key of each frame before it is judged."""
        self._inspection.on_frame = callback

    def tick(self, *, at: int) -> list[Line]:
        """Advance the time to `at`: report missed deadlines and stalls."""
        return self.flush() + self._inspection.tick(at=at)

    def receive_data(self, number: int, direction: Direction, data: bytes, *, at: int) -> list[Line]:
        """Inspect the next bytes of one direction."""
        return self.receive(number, direction, data, at=at) + self.flush()

    def receive(self, number: int, direction: Direction, data: bytes, *, at: int) -> list[Line]:
        """Cut the next bytes of one direction into frames and decode them; `flush` does the rest.

        Returns the few lines that are due before these bytes.
        """
        state = self._connections[number]
        lines = self.tick(at=at) if self._inspection.is_due(at) else []
        state.bytes[direction] += len(data)
        connection, received = state.connection, self._received
        try:
            for event in connection.receive_data(direction, data, at=at):
                received.append((state, event))
        except Exception as error:  # noqa: BLE001
            return lines + self.flush() + self._start_over(state, direction, len(data), error, at=at)
        if connection.is_within_frame(direction):
            self._inspection.await_rest(state, direction, at=at)
        return lines

    def flush(self) -> list[Line]:
        """Judge the events that `receive` has collected."""
        if not (received := self._received):
            return []
        self._received = []
        return self._inspection.lines(received)

    def take_received(self) -> Received:
        """Take the events that `receive` has collected, for `judge`.

        A caller takes them after each piece of data to know the lines of each.
        """
        received, self._received = self._received, []
        return received

    def judge(self, received: Received) -> list[Line]:
        """Judge events that were taken; all events received before them must have been judged."""
        return self._inspection.lines(received) if received else []

    def is_due(self, at: int) -> bool:
        """Whether `receive` may return lines that are due before its data; if so, judge all taken events first."""
        return self._inspection.is_due(at)

    def replace_next(self, number: int, direction: Direction, frame: bytes) -> None:
        """Note that the relay sent `frame` in place of the next frame of one direction."""
        self._connections[number].connection.replace_next(direction, frame)

    def tls_failed(self, number: int, failure: TlsFailed) -> list[Line]:
        """Report that TLS with one of the two peers failed."""
        return self._judge(self._connections[number], [failure])

    def connect_failed(
        self, number: int, failure: ConnectFailed, *, since: int, is_kafka_address: bool = False
    ) -> list[Line]:
        """Report that a client could not connect to an address from a response.

        An attempt that leads elsewhere gets no lines, unless `is_kafka_address` is set. A connection attempt gets
        lines of its own; an unknown host name gets only a finding.

        Args:
            number: Identifies the attempt, as in `open`.
            failure: What happened.
            since: The time of the first attempt (ns).
            is_kafka_address: Whether the address is known to be Kafka's.
        """
        lines = self.flush()
        findings = self._inspection.connect_failed(failure)
        lines += findings or []
        if (findings is not None or is_kafka_address) and failure.reason is not ConnectFailure.NAME_NOT_FOUND:
            ends = (f"{self._name}-{number}", failure.client, failure.server)
            lines += not_connected_lines(*ends, since=since, at=failure.at, how=failure.reason)
        return lines

    def lose(
        self, number: int, direction: Direction, size: int, *, at: int, reason: str, frames: int | None = None
    ) -> list[Line]:
        """Skip missing bytes. `frames`: the number of complete frames in them, if they end at a frame boundary."""
        state = self._connections[number]
        state.bytes[direction] += size
        state.frames[direction] += frames or 0
        try:
            events = state.connection.lose_data(direction, size, at=at, reason=reason, frames=frames)
        except Exception as error:  # noqa: BLE001
            return self.flush() + self._start_over(state, direction, size, error, at=at)
        return self._judge(state, events)

    def lose_connections(self, gap: GapLine, *, at: int) -> list[Line]:
        """Report that connections were opened and closed without being inspected, as `gap` describes."""
        lines = self.flush()
        self._inspection.lose_connections(at=at)
        return [*lines, gap, *self._inspection.observe_stalls(gap, at=at)]

    def bytes_differ(self, number: int, difference: BytesDiffer) -> list[Line]:
        """Report that TCP has retransmitted bytes with different content."""
        return self._judge(self._connections[number], [difference])

    def skip(self, number: int, direction: Direction, head: bytes, size: int, *, at: int, reason: str) -> list[Line]:
        """Skip the body of a frame whose first bytes, `head`, are all that is available."""
        state = self._connections[number]
        state.bytes[direction] += size + 4
        try:
            events = state.connection.skip_frame(direction, head, size, at=at, reason=reason)
        except Exception as error:  # noqa: BLE001
            return self.flush() + self._start_over(state, direction, size + 4, error, at=at)
        return self._judge(state, events)

    def close(
        self,
        number: int,
        *,
        at: int,
        by: str | None = None,
        how: str | None = None,
        unacknowledged: tuple[Direction, int] | None = None,
    ) -> list[Line]:
        """End a connection, closed `by` client, server or proxy, and `how` (fin, reset, ...).

        `unacknowledged`: the direction whose last bytes TCP has sent without an acknowledgement, and how many times.
        """
        lines = self.tick(at=at)
        state = self._connections.pop(number)
        try:
            events = state.connection.close(at=at)
        except Exception as error:  # noqa: BLE001
            lines += self._inspection.failed(state, Failure.of("closing a connection", error), at=at)
            events = [ConnectionEnded(at)]
        ended = events[-1]
        assert isinstance(ended, ConnectionEnded)
        ended.by, ended.how, ended.unacknowledged = by, how, unacknowledged
        lines += self._judge(state, events)
        closed = close_line(state, ended)
        return [*lines, closed, *self._inspection.observe_stalls(closed, at=at)]

    def _judge(self, state: InspectedConnection, events: Iterable[Event]) -> list[Line]:
        """Judge events of a connection after the events that `receive` has collected."""
        self._received += ((state, event) for event in events)
        return self.flush()

    def take_new_causes(self) -> list[str]:
        """Return the root causes of the findings since the last call, in their order; empty unless `partial`."""
        run_state = self._inspection.run_state
        causes = run_state.new_causes or []
        if causes:
            run_state.new_causes = []
        return [repr(cause) for cause in causes]

    @property
    def in_flight(self) -> int:
        """The number of unanswered requests on all connections."""
        return sum(state.connection.in_flight for state in self._connections.values())

    def open_connections(self) -> Iterator[OpenConnection]:
        """Yield the open connections. Lines of their unanswered requests, oldest first, are made on iteration."""
        for state in self._connections.values():
            connection = state.connection
            judged_requests = (request for request in connection.waiting if request.line is not None)
            waiting = map(self._inspection.frame_lines.repeat_request, judged_requests)
            counts = (state.bytes[0], state.bytes[1]), (state.frames[0], state.frames[1])
            yield OpenConnection(state.opened, *counts, connection.in_flight, waiting)

    def late_responses(self, *, at: int, repeat_reported: bool = False) -> Iterator[WaitingResponse]:
        """Return the oldest unanswered request of each connection whose response has become late by another step.

        With `repeat_reported`, return the requests that were returned before and are still waiting.
        """
        return late_responses(
            () if self.is_behind else self._connections.values(), self._inspection.frame_lines, at=at,
            repeat_reported=repeat_reported,
        )  # fmt: skip

    def close_all(self, *, at: int, how: str) -> Iterable[Line]:
        """Close all open connections, e.g. at the end of a capture."""
        yield from self.flush()
        yield from self._inspection.tick_stalls(at=at)
        for number in list(self._connections):
            yield from self.close(number, at=at, how=how)
        yield from self._inspection.end_stalls(at=at)

    def fail(self, step: str, error: Exception, *, at: int) -> list[Line]:
        """Report a bug in kproxy outside any connection, e.g. in reading a packet; once per run."""
        return self.flush() + self._inspection.failed(None, Failure.of(step, error), at=at)

    def _start_over(
        self, state: InspectedConnection, direction: Direction, size: int, error: Exception, *, at: int
    ) -> list[Line]:
        """Skip bytes on which framing failed because of a bug, and resynchronize on the next bytes."""
        failure = Failure.of("cutting bytes into frames", error)
        state.connection = self._new_connection(midstream=True)
        for side in Direction:
            state.connection.lose_data(side, state.bytes[side], at=at, reason=failure.title)  # so that offsets continue
        lines = self._inspection.failed(state, failure, at=at)
        offset = state.bytes[direction] - size
        gap = gap_line(state.connection_id, BytesSkipped(direction, offset, at, size, 0, failure.title))
        return [*lines, gap, *self._inspection.observe_stalls(gap, at=at)]


def _api_keys(apis: Iterable[str] | None) -> frozenset[int] | None:
    return None if apis is None else frozenset(api.key for name in apis if (api := schemas.api_by_name(name)))
