"""InFlight: the requests in flight on a connection, and other state for the correlation rules."""

# Rule 1: a request is in `waiting` from its event until a response is paired with it, is assumed to answer it, or its
# connection ends. Each is reported as missing, late or skipped at most once.
#
# Rule 2: a response with an unknown id answers the oldest request. One fault (a wrong id) is then one finding, not two.
#
# Rule 3: after lost bytes nothing is known about the earlier requests, so they are dropped without a finding.

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from dissectors.connections.connection import PRODUCE
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionEnded,
    Direction,
    FramingLost,
    RequestReceived,
    ResponseReceived,
)
from dissectors.connections.in_flight_requests import MAX_IN_FLIGHT
from dissectors.limits import Limit
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.allowed_waits import LONG_POLLS, allowed_ms
from dissectors.trackers.answered_apis import DISCOVERY_APIS, AnsweredApis
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.request_shapes import RequestShapes
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000
_UNPAIRED, _THROTTLED = FrameFlags.UNPAIRED.value, FrameFlags.THROTTLED.value

#: A request is overdue this long (ns) after the time that it allows: clients give up after 30 s (request.timeout.ms).
OVERDUE_AFTER = 30 * SECOND

#: A frame that deviates from its layout explains later problems on its connection for this long (ns).
SUSPECT_FOR = 60 * SECOND

#: A connection without frames for this long (ns) is idle: the shortest idle timeouts of middleboxes are twice that.
IDLE_AFTER = 30 * SECOND

#: The usual limit of requests in flight: a broker remembers this many batches of an idempotent producer.
USUAL_IN_FLIGHT = 5

#: A request is skipped if it still has no response this long (ns) after the response to a newer one, plus the time of a
#: long poll up to `MAX_HOLD`: a server that answers out of order does so within moments.
SKIPPED_AFTER = 1 * SECOND
MAX_HOLD = 5 * SECOND

#: The number of correlation ids to remember: of answered requests, and of Produce requests with acks=0.
_MAX_REMEMBERED_IDS = 64

#: Deadlines: for Produce, for requests after a Produce with acks=0, and for others; for requests that were overtaken.
OVERDUE_PRODUCE, OVERDUE_BLOCKED, OVERDUE_OTHER = (
    "overdue Produce",
    "overdue after a Produce with acks=0",
    "overdue request",
)
OVERTAKEN_DEADLINE = "overtaken request"
#: The deadline after which the oldest request is late.
LATE_DEADLINE = "late request"

#: A request is late this long after the time that it allows.
LATE_AFTER = Limit("wait", 5, "s", "a request waits this much longer than it allows", least=0.1)

#: Kinds of stray responses: to a Produce with acks=0, a second response, an unknown correlation id.
ANSWERS_ACKS_0, ANSWERS_AGAIN, ANSWERS_NOTHING = "to acks=0", "again", "unknown id"


class Overtaking(NamedTuple):
    """A response to a newer request that came before the response to an older request.

    `newer` is the newer request, `at` when its response came, and `due` when the older one counts as skipped (ns).
    """

    newer: RequestReceived
    at: int
    due: int


class LastResponse(NamedTuple):
    """A response, without its bytes."""

    at: int
    api: str
    version: int
    throttle_ms: int


_Event: TypeAlias = RequestReceived | ResponseReceived | BytesSkipped | FramingLost | ConnectionEnded


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost, ConnectionEnded),
    broken=True,
    needs=(RebalanceTimeouts,),
    keeps=(AnsweredApis, RequestShapes),
    flags=FrameFlags.UNPAIRED | FrameFlags.THROTTLED,
    per="connection",
)
class InFlight:
    """The requests in flight on a connection, oldest first.

    `waiting` holds them by correlation id. A response with an id that is not in flight is assumed to answer the oldest
    request, so that it is not also reported as missing; `stray` is then the kind of response and that request.
    `reused` is the request whose id the newest request reuses; `previous_id` is the previous request's id.

    For the request that was just answered, `awaited` tells whether it was still in flight (neither assumed answered nor
    overdue), and `started_at` is when the server could start on it: a server processes one request at a time.
    `first_after_idle` is the offset of the latest request after an idle time, and `idle_ns` is that time. `served` are
    the answered APIs and versions, and `answered` is the last response. `overtaken_by` is how the request that was just
    answered was overtaken, if it was; `overtaken` has the requests in flight that were overtaken, by correlation id.
    `work_requests` counts the requests of APIs outside `DISCOVERY_APIS`.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, RequestReceived] = {}
        self.stray: tuple[str, RequestReceived | None] | None = None
        self.reused: RequestReceived | None = None
        self.previous_id = 0
        self.work_requests = 0
        self.awaited = False
        self.started_at = 0
        self.first_after_idle = -1
        self.idle_ns = 0
        self.served: set[tuple[int, int]] = set()
        self.answered: LastResponse | None = None
        self.overtaken_by: Overtaking | None = None
        self.overtaken: dict[int, Overtaking] = {}
        self._given_up: list[RequestReceived] = []
        self._unacknowledged = False
        self._blocked: set[int] = set()
        self._acks0_ids: deque[int] = deque(maxlen=_MAX_REMEMBERED_IDS)
        self._answered_ids: deque[int] = deque(maxlen=_MAX_REMEMBERED_IDS)
        self._suspect_at: int | None = None
        self._suspect_request = -1
        self._server_free_at = 0
        self._last_frame_at = 0
        self._framing_lost = False
        self._pending_deadlines: set[str] = set()
        self._latest_id = 0
        self._late_offset = -1

    def observe(self, event: _Event, connection: ConnectionState) -> None:
        """Update the requests in flight."""
        if isinstance(event, ResponseReceived):
            self._observe_response(event, connection)
        elif isinstance(event, RequestReceived):
            self._observe_request(event, connection)
        elif isinstance(event, ConnectionEnded):
            for code in self._pending_deadlines:
                connection.meet_deadline(code, connection.connection_id)
        else:
            self._framing_lost = self._framing_lost or isinstance(event, FramingLost)
            if self._framing_lost or event.direction is Direction.RESPONSE:
                self.waiting.clear()  # their responses may be among the lost bytes
                self.overtaken.clear()
                self._given_up.clear()
                self._blocked.clear()

    def explains_problems(self, at: int) -> bool:
        """Whether a recent problem, which another rule reports, explains later ones."""
        return self._suspect_at is not None and at - self._suspect_at <= SUSPECT_FOR

    def oldest(self, connection: ConnectionState) -> tuple[RequestReceived, int] | None:
        """Return the oldest unanswered request, overdue or not, and the time (ns) from which its response is late.

        That is when the server could start on it, plus the time of a long poll or rebalance.
        """
        request = self._given_up[0] if self._given_up else next(iter(self.waiting.values()), None)
        if request is None:
            return None
        timeouts = connection.run.state(RebalanceTimeouts)
        hold_ms = allowed_ms(request.message, timeouts) if request.message.api in LONG_POLLS else 0
        return request, max(self._server_free_at, request.at) + hold_ms * _MS

    def take_late_request(self, at: int, connection: ConnectionState) -> RequestReceived | None:
        """Return the oldest request if it is late at a deadline and not yet reported; set the next deadline."""
        self._pending_deadlines.discard(LATE_DEADLINE)
        oldest = self.oldest(connection)
        if oldest is None:
            return None
        request, allowed_until = oldest
        late_after = int(connection.run.limit(LATE_AFTER) * SECOND)
        due = max(allowed_until, self._server_free_at) + late_after
        is_late, is_reported = due <= at, request.offset == self._late_offset
        self._set_deadline(LATE_DEADLINE, at + late_after if is_late else due, connection)
        if is_late:
            self._late_offset = request.offset
        is_unproven = connection.midstream and not self._answered_ids  # perhaps only one direction was captured
        return None if not is_late or is_reported or is_unproven or self.explains_problems(at) else request

    def take_overdue(self, code: str, at: int, connection: ConnectionState) -> list[RequestReceived]:
        """Remove and return the requests that are overdue at a deadline; set the deadline for the next ones."""
        self._pending_deadlines.discard(code)
        overdue: list[RequestReceived] = []
        free_at, timeouts = self._server_free_at, connection.run.state(RebalanceTimeouts)
        for request in list(self.waiting.values()):
            free_at = max(free_at, request.at) + allowed_ms(request.message, timeouts) * _MS
            due, deadline = free_at + OVERDUE_AFTER, self._deadline_code(request)
            if due <= at and deadline == code:
                overdue.append(self._remove(request.message.correlation_id))
                if len(self._given_up) < MAX_IN_FLIGHT:
                    self._given_up.append(request)
            elif deadline not in self._pending_deadlines:
                self._set_deadline(deadline, max(due, at), connection)
        is_unproven = connection.midstream and not self._answered_ids  # perhaps only one direction was captured
        return [] if is_unproven or self.explains_problems(at) else overdue

    def take_skipped(self, at: int, connection: ConnectionState) -> list[tuple[RequestReceived, Overtaking]]:
        """Remove and return the requests that count as skipped at a deadline; set the deadline for the next ones.

        They have no response, although the server answered newer ones.
        """
        skipped_requests: list[tuple[RequestReceived, Overtaking]] = []
        for correlation_id, overtaking in list(self.overtaken.items()):
            if overtaking.due <= at:
                request = self._remove(correlation_id)
                skipped_requests.append((request, overtaking))
                if len(self._given_up) < MAX_IN_FLIGHT:
                    self._given_up.append(request)
        if self.overtaken:
            due = min(overtaking.due for overtaking in self.overtaken.values())
            self._set_deadline(OVERTAKEN_DEADLINE, due, connection)
        else:
            self._pending_deadlines.discard(OVERTAKEN_DEADLINE)
        return [] if self.explains_problems(at) else skipped_requests

    def _observe_request(self, event: RequestReceived, connection: ConnectionState) -> None:
        message, at = event.message, event.at
        correlation_id = message.correlation_id
        if message.api_key not in DISCOVERY_APIS:
            self.work_requests += 1
        if event.damaged:
            pass
        elif message.well_formed:
            self.previous_id, self._latest_id = self._latest_id, correlation_id
            if correlation_id < self.previous_id:
                connection.flags |= _UNPAIRED
        else:
            self._suspect_at, self._suspect_request = at, event.offset
        idle_ns = at - (self._last_frame_at or connection.opened_at)
        if idle_ns >= IDLE_AFTER:
            self.first_after_idle, self.idle_ns = event.offset, idle_ns
        self._last_frame_at = at
        self.reused = None
        if not event.expects_response:
            self._acks0_ids.append(correlation_id)
            self._unacknowledged = True
            return
        if self._framing_lost:
            return
        waiting = self.waiting
        if correlation_id in waiting:
            self.reused = self._remove(correlation_id)
            connection.flags |= _UNPAIRED
        elif len(waiting) >= USUAL_IN_FLIGHT:
            connection.flags |= _UNPAIRED
            if len(waiting) >= MAX_IN_FLIGHT:
                self._remove(next(iter(waiting)))
        waiting[correlation_id] = event
        if self._unacknowledged:
            self._blocked.add(correlation_id)
        code = (
            OVERDUE_PRODUCE
            if message.api_key == PRODUCE
            else OVERDUE_BLOCKED
            if self._unacknowledged
            else OVERDUE_OTHER
        )
        if code not in self._pending_deadlines:
            self._set_deadline(code, at + OVERDUE_AFTER, connection)
        if LATE_DEADLINE not in self._pending_deadlines:
            self._set_deadline(LATE_DEADLINE, at + int(connection.run.limit(LATE_AFTER) * SECOND), connection)

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        request, message = event.request, event.message
        if request is None or message is None:
            self.stray = None if event.damaged or self._framing_lost else self._classify_stray(event)
        else:
            self.awaited = self.waiting.get(event.correlation_id) is request
            if self.overtaken or self.overtaken_by:
                self.overtaken_by = self.overtaken.get(event.correlation_id) if self.awaited else None
                if self.overtaken_by:
                    connection.flags |= _UNPAIRED
            if self.awaited:
                self._remove(event.correlation_id)
            elif request in self._given_up:
                self._given_up.remove(request)
            self.started_at = max(self._server_free_at, request.at)
            if event.overtaken:
                self._note_overtaken(event.at, request, connection)
            if not event.damaged:
                self._note_answered(event.at, request, message, connection)
        self._last_frame_at = self._server_free_at = event.at
        throttle_time = None if message is None else message.body.get("throttle_time_ms")
        throttle_ms = throttle_time if isinstance(throttle_time, int) else 0
        if throttle_ms:
            self._server_free_at += throttle_ms * _MS
            connection.flags |= _THROTTLED
        if message is not None:
            self.answered = LastResponse(event.at, message.api, message.version, throttle_ms)
        self._unacknowledged = False
        self._blocked.clear()

    def _note_answered(self, at: int, request: RequestReceived, message: Message, connection: ConnectionState) -> None:
        if not message.well_formed and not message.opaque:
            self._suspect_at, self._suspect_request = at, -1
        elif self._suspect_request == request.offset:
            self._suspect_at = None  # the server could decode it
        self._answered_ids.append(request.message.correlation_id)
        api_version = message.api_key, message.version
        if message.layout is not None and api_version not in self.served:  # keeps the set small
            self.served.add(api_version)
            connection.run.state(AnsweredApis).note(api_version, at, connection)
            connection.run.state(RequestShapes).note_served(connection.server, request.message)

    def _note_overtaken(self, at: int, newer: RequestReceived, connection: ConnectionState) -> None:
        timeouts = connection.run.state(RebalanceTimeouts)
        for correlation_id, older in self.waiting.items():
            if older.offset >= newer.offset:
                break
            if correlation_id not in self.overtaken:
                hold_ns = allowed_ms(older.message, timeouts) * _MS if older.message.api in LONG_POLLS else 0
                due = at + SKIPPED_AFTER + min(hold_ns, MAX_HOLD)
                self.overtaken[correlation_id] = Overtaking(newer, at, due)
                if OVERTAKEN_DEADLINE not in self._pending_deadlines:
                    self._set_deadline(OVERTAKEN_DEADLINE, due, connection)

    def _classify_stray(self, event: ResponseReceived) -> tuple[str, RequestReceived | None]:
        self._suspect_at, self._suspect_request = event.at, -1
        if event.correlation_id in self._acks0_ids:
            return ANSWERS_ACKS_0, None
        oldest = self._remove(next(iter(self.waiting))) if self.waiting else None
        return ANSWERS_AGAIN if event.correlation_id in self._answered_ids else ANSWERS_NOTHING, oldest

    def _remove(self, correlation_id: int) -> RequestReceived:
        self._blocked.discard(correlation_id)
        if self.overtaken:
            self.overtaken.pop(correlation_id, None)
        return self.waiting.pop(correlation_id)

    def _deadline_code(self, request: RequestReceived) -> str:
        message = request.message
        if message.api_key == PRODUCE:
            return OVERDUE_PRODUCE
        return OVERDUE_BLOCKED if message.correlation_id in self._blocked else OVERDUE_OTHER

    def _set_deadline(self, code: str, due: int, connection: ConnectionState) -> None:
        self._pending_deadlines.add(code)
        connection.set_deadline(code, connection.connection_id, by=due)


def request_text(request: RequestReceived) -> str:
    """Describe a request for use in findings."""
    message = request.message
    return f"{message.api} v{message.version} (correlation id {message.correlation_id})"


def requests_text(requests: Sequence[RequestReceived]) -> str:
    """Describe several requests for use in findings: the oldest one and a count of the others."""
    more_text = f" and {len(requests) - 1} more" if len(requests) > 1 else ""
    return request_text(requests[0]) + more_text
