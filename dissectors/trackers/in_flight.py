"""What waits on a connection for its response, and what else the rules of correlation know of it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TypeAlias

from dissectors.connections.connection import MAX_IN_FLIGHT, PRODUCE
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionEnded,
    Direction,
    FramingLost,
    RequestReceived,
    ResponseReceived,
)
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.allowed_waits import HELD, allowed_ms
from dissectors.trackers.answered_apis import AnsweredApis
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000
_UNPAIRED, _THROTTLED = FrameFlags.UNPAIRED.value, FrameFlags.THROTTLED.value

#: A request is overdue so long after the time that it allows: clients give up after 30 s (request.timeout.ms).
PATIENCE = 30 * SECOND

#: A frame that departs from its layout explains what goes wrong on its connection for so long.
CONSEQUENCES = 60 * SECOND

#: A connection on which nothing was said for so long is idle: the shortest idle timeouts of middleboxes are twice that.
IDLE = 30 * SECOND

#: Requests in flight that are nothing unusual: a broker remembers as many batches of an idempotent producer.
MOST_IDEMPOTENT = 5

#: Ids that are remembered after their answer, and of Produce requests that have none.
_REMEMBERED = 64

#: The deadlines of requests: of Produce, of what follows a Produce without acks, of the others.
OF_PRODUCE, OF_BLOCKED, OF_OTHERS = "overdue Produce", "overdue after a Produce with acks=0", "overdue request"

#: Responses that answer no request in flight: to a Produce with acks=0, a second one, one with an unknown id.
ANSWERS_ACKS_0, ANSWERS_AGAIN, ANSWERS_NOTHING = "to acks=0", "again", "unknown id"

_Heard: TypeAlias = RequestReceived | ResponseReceived | BytesSkipped | FramingLost | ConnectionEnded


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost, ConnectionEnded),
    broken=True,
    needs=(RebalanceTimeouts,),
    keeps=(AnsweredApis,),
    flags=FrameFlags.UNPAIRED | FrameFlags.THROTTLED,
    per="connection",
)
class InFlight:
    """The requests of a connection that wait, oldest first.

    `waiting` holds them by correlation id. A response with an id that does not wait is taken for the answer to the
    oldest, so that this is not also said to be missing; `stray` then says which kind of stray response it is, and the
    request that it is about. `reused` is the request that the newest one took the id of, `id_before` the id of the one
    before that.

    Of the request that was just answered, `awaited` is whether it was still in flight and not taken for answered or
    given up, and `began` when the server could begin with it: it works on one at a time. `woken` is the offset of the
    latest request after an idle time, and `slept` that time. `served` are the APIs and versions that were answered.
    """

    def __init__(self) -> None:
        self.waiting: OrderedDict[int, RequestReceived] = OrderedDict()
        self.stray: tuple[str, RequestReceived | None] | None = None
        self.reused: RequestReceived | None = None
        self.id_before = 0
        self.awaited = False
        self.began = 0
        self.woken = -1
        self.slept = 0
        self.served: set[tuple[int, int]] = set()
        self._given_up: list[RequestReceived] = []
        self._unacknowledged = False
        self._blocked: set[int] = set()
        self._silent: deque[int] = deque(maxlen=_REMEMBERED)
        self._done: deque[int] = deque(maxlen=_REMEMBERED)
        self._suspect_at: int | None = None
        self._suspect_request = -1
        self._free_at = 0
        self._heard_at = 0
        self._lost = False
        self._expected: set[str] = set()
        self._latest_id = 0

    def observe(self, event: _Heard, connection: ConnectionState) -> None:
        """Take in a frame, a loss or the end."""
        if isinstance(event, ResponseReceived):
            self._response(event, connection)
        elif isinstance(event, RequestReceived):
            self._request(event, connection)
        elif isinstance(event, ConnectionEnded):
            for code in self._expected:
                connection.met(code, connection.connection_id)
        else:
            self._lost = self._lost or isinstance(event, FramingLost)
            if self._lost or event.direction is Direction.RESPONSE:
                self.waiting.clear()  # their responses may have gone by unseen
                self._given_up.clear()
                self._blocked.clear()

    def explains(self, at: int) -> bool:
        """Whether something that is told elsewhere went wrong shortly before, so that the rest follows from it."""
        return self._suspect_at is not None and at - self._suspect_at <= CONSEQUENCES

    def oldest(self, connection: ConnectionState) -> tuple[RequestReceived, int] | None:
        """The oldest request without a response, reported or not, and from when on (ns) its response is late.

        That is when the server could begin with it, plus what a long poll or a rebalance may take.
        """
        request = self._given_up[0] if self._given_up else next(iter(self.waiting.values()), None)
        if request is None:
            return None
        timeouts = connection.run.state(RebalanceTimeouts)
        held = allowed_ms(request.message, timeouts) if request.message.api in HELD else 0
        return request, max(self._free_at, request.at) + held * _MS

    def overdue(self, code: str, at: int, connection: ConnectionState) -> list[RequestReceived]:
        """Take out what should have been answered by now and belongs to that deadline; wait for the next of them."""
        self._expected.discard(code)
        late: list[RequestReceived] = []
        free_at, timeouts = self._free_at, connection.run.state(RebalanceTimeouts)
        for request in list(self.waiting.values()):
            free_at = max(free_at, request.at) + allowed_ms(request.message, timeouts) * _MS
            due, judge = free_at + PATIENCE, self._judge(request)
            if due <= at and judge == code:
                late.append(self._take(request.message.correlation_id))
                if len(self._given_up) < MAX_IN_FLIGHT:
                    self._given_up.append(request)
            elif judge not in self._expected:
                self._expect(judge, max(due, at), connection)
        unproven = connection.midstream and not self._done  # only one direction may have been captured
        return [] if unproven or self.explains(at) else late

    def _request(self, event: RequestReceived, connection: ConnectionState) -> None:
        message, at = event.message, event.at
        correlation_id = message.correlation_id
        if event.damaged:
            pass
        elif message.well_formed:
            self.id_before, self._latest_id = self._latest_id, correlation_id
            if correlation_id < self.id_before:
                connection.flags |= _UNPAIRED
        else:
            self._suspect_at, self._suspect_request = at, event.offset
        idle = at - (self._heard_at or connection.opened_at)
        if idle >= IDLE:
            self.woken, self.slept = event.offset, idle
        self._heard_at = at
        self.reused = None
        if not event.expects_response:
            self._silent.append(correlation_id)
            self._unacknowledged = True
            return
        if self._lost:
            return
        waiting = self.waiting
        if correlation_id in waiting:
            self.reused = self._take(correlation_id)
            connection.flags |= _UNPAIRED
        elif len(waiting) >= MOST_IDEMPOTENT:
            connection.flags |= _UNPAIRED
            if len(waiting) >= MAX_IN_FLIGHT:
                self._take(next(iter(waiting)))
        waiting[correlation_id] = event
        if self._unacknowledged:
            self._blocked.add(correlation_id)
        code = OF_PRODUCE if message.api_key == PRODUCE else OF_BLOCKED if self._unacknowledged else OF_OTHERS
        if code not in self._expected:
            self._expect(code, at + PATIENCE, connection)

    def _response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        request, message = event.request, event.message
        if request is None or message is None:
            self.stray = None if event.damaged or self._lost else self._explain(event)
        else:
            self.awaited = self.waiting.get(event.correlation_id) is request
            if self.awaited:
                self._take(event.correlation_id)
            elif request in self._given_up:
                self._given_up.remove(request)
            self.began = max(self._free_at, request.at)
            if not event.damaged:
                self._answer(event.at, request, message, connection)
        self._heard_at = self._free_at = event.at
        throttled = None if message is None else message.body.get("throttle_time_ms")
        if throttled and isinstance(throttled, int):
            self._free_at += throttled * _MS
            connection.flags |= _THROTTLED
        self._unacknowledged = False
        self._blocked.clear()

    def _answer(self, at: int, request: RequestReceived, message: Message, connection: ConnectionState) -> None:
        if not message.well_formed and not message.opaque:
            self._suspect_at, self._suspect_request = at, -1
        elif self._suspect_request == request.offset:
            self._suspect_at = None  # the server could read it
        self._done.append(request.message.correlation_id)
        kind = message.api_key, message.version
        if message.layout is not None and kind not in self.served:  # keys off the wire are many
            self.served.add(kind)
            connection.run.state(AnsweredApis).note(kind, at, connection)

    def _explain(self, event: ResponseReceived) -> tuple[str, RequestReceived | None]:
        self._suspect_at, self._suspect_request = event.at, -1
        if event.correlation_id in self._silent:
            return ANSWERS_ACKS_0, None
        oldest = self._take(next(iter(self.waiting))) if self.waiting else None
        return ANSWERS_AGAIN if event.correlation_id in self._done else ANSWERS_NOTHING, oldest

    def _take(self, correlation_id: int) -> RequestReceived:
        self._blocked.discard(correlation_id)
        return self.waiting.pop(correlation_id)

    def _judge(self, request: RequestReceived) -> str:
        message = request.message
        if message.api_key == PRODUCE:
            return OF_PRODUCE
        return OF_BLOCKED if message.correlation_id in self._blocked else OF_OTHERS

    def _expect(self, code: str, by: int, connection: ConnectionState) -> None:
        self._expected.add(code)
        connection.expect(code, connection.connection_id, by=by)


def named(request: RequestReceived) -> str:
    """A request as findings call it."""
    message = request.message
    return f"{message.api} v{message.version} (correlation id {message.correlation_id})"


def listed(requests: Sequence[RequestReceived]) -> str:
    """Some requests, oldest first, as findings call them."""
    more = f" and {len(requests) - 1} more" if len(requests) > 1 else ""
    return named(requests[0]) + more
