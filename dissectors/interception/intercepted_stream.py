"""The two directions of an intercepted connection: which bytes pass at once, and which wait for their whole frame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dissectors.connections.events import Direction
from dissectors.connections.framing import MAX_FRAME_BYTES
from dissectors.interception.in_flight import Handling, InFlight
from dissectors.interception.interceptor import (
    Action,
    Answer,
    CloseConnection,
    Delay,
    Drop,
    Forward,
    Interceptor,
    Replace,
    RequestHeader,
)
from dissectors.interception.produce_acks import ACKS_WITHIN, expects_response
from dissectors.schemas.codes import ApiKey

_PRODUCE = int(ApiKey.PRODUCE)
_UNFRAMED = sys.maxsize  # what is not made of frames passes like one frame that never ends


class Delivery(NamedTuple):
    """The next bytes of one direction: as received, and as to be sent after `delay` seconds.

    The two are the same object unless an interceptor changed them. If `close` is set, they are the connection's last.
    """

    direction: Direction
    received: bytes
    sent: bytes
    delay: float = 0.0
    close: bool = False


class TooLarge(NamedTuple):
    """A frame that an interceptor wants was forwarded unseen."""

    direction: Direction
    header: RequestHeader
    size: int


class Limits(NamedTuple):
    """Larger frames than `max_held_bytes` pass unseen; `report` is called if an interceptor wants such a frame."""

    max_held_bytes: int
    report: Callable[[TooLarge], None]


class _Stream:
    """One direction of a connection.

    The 4 bytes behind the size of a frame decide whether an interceptor can want it: the key and version of a request,
    the correlation id of a response. Most frames are unwanted, and a chunk of such frames passes whole, without a copy.

    Args:
        find: Returns the handling of frames with these 4 bytes, None if they are unwanted.
    """

    direction: Direction
    header_bytes: int  # with the size in front, and the correlation id at the end

    def __init__(self, in_flight: InFlight, limits: Limits, find: Callable[[bytes], Handling | None]) -> None:
        self._in_flight = in_flight
        self._limits = limits
        self._find = find
        self._left = 0  # bytes to come of a frame that passes
        self._held: list[bytes] = []  # an incomplete frame, in pieces
        self._missing = 0  # bytes to come before it can be handled

    def push(self, data: bytes) -> list[Delivery]:
        """Take the next bytes, in chunks of any size; return what to send now, in both directions."""
        if self._held:
            self._held.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = b"".join(self._held)
            self._held.clear()
        made: list[Delivery] = []
        end = len(data)
        start, position = 0, self._left  # the bytes between them pass
        while position <= end:
            if answers := self._answers_due():
                self._pass(data, start, position, made)
                start = position
                made += [Delivery(Direction.RESPONSE, b"", answer) for answer in answers]
            position = self._skip_unwanted(data, position)
            if position >= end:
                break
            need, size, handling, interceptors = self._examine(data, position)
            if end - position < need or handling is None:
                self._held.append(data[position:])
                self._missing = position + need - end
                end = position
                break
            begin, position = position, position + size
            correlation_id = data[begin + self.header_bytes - 4 : begin + self.header_bytes]
            if not interceptors:
                self._passed(handling, correlation_id, data[begin : begin + need])
                continue
            header = RequestHeader(handling.api_key, handling.api_version, _number(correlation_id))
            delivery, answer = self._decide(interceptors, header, data[begin:position])
            if delivery.sent is not delivery.received or delivery.delay or delivery.close:
                self._pass(data, start, begin, made)
                start = position
                made.append(delivery)
            if delivery.close:
                return made
            self._passed(handling, correlation_id, delivery.sent, answer)
        self._left = position - end
        self._pass(data, start, end, made)
        return made

    def end(self) -> list[Delivery]:
        """The direction has ended: return what was held of an incomplete frame."""
        rest = b"".join(self._held)
        self._held.clear()
        self._left = _UNFRAMED
        return [Delivery(self.direction, rest, rest)] if rest else []

    def _skip_unwanted(self, data: bytes, position: int) -> int:
        """Where the next frame begins that is not known to be unwanted; at or beyond the end of `data` if none does."""
        find, least, last = self._find, self.header_bytes - 4, len(data) - 4
        while position <= last:
            size = int.from_bytes(data[position : position + 4], "big")
            if size > MAX_FRAME_BYTES:
                return _UNFRAMED
            # A shorter frame has no header: nobody can want it.
            if size >= least and (position > last - 4 or find(data[position + 4 : position + 8]) is not None):
                return position
            position += 4 + size
        return position

    def _examine(self, data: bytes, position: int) -> tuple[int, int, Handling | None, Sequence[Interceptor]]:
        """A frame that `_skip_unwanted` found.

        Returns:
            The bytes of it that must be there before it can be handled; its size; its handling, None if there are
            too few bytes to know it; the interceptors to show it to.
        """
        available = len(data) - position
        if available < self.header_bytes:
            return 4 if available < 4 else self.header_bytes, 0, None, ()
        size = 4 + int.from_bytes(data[position : position + 4], "big")
        handling = self._find(data[position + 4 : position + 8])
        assert handling is not None
        need, interceptors = self._needs(handling, size)
        if interceptors and available >= need:
            if size <= self._limits.max_held_bytes:
                return size, size, handling, interceptors
            number = _number(data[position + self.header_bytes - 4 : position + self.header_bytes])
            header = RequestHeader(handling.api_key, handling.api_version, number)
            self._limits.report(TooLarge(self.direction, header, size))
        return need, size, handling, ()

    def _decide(
        self, interceptors: Sequence[Interceptor], header: RequestHeader, frame: bytes
    ) -> tuple[Delivery, bytes | None]:
        """Show a whole frame to interceptors; return what is sent, and the response if one of them answers it."""
        is_request = self.direction is Direction.REQUEST
        sent, delay = frame, 0.0
        for each in interceptors:
            action: Action = (each.on_request if is_request else each.on_response)(sent, header)
            match action:
                case Forward():
                    pass
                case Replace(other):
                    sent = other
                case Delay(seconds):
                    delay += seconds
                case Drop():
                    sent = b""
                    break
                case CloseConnection():
                    return Delivery(self.direction, frame, b"", delay, close=True), None
                case Answer(response):
                    return Delivery(self.direction, frame, b"", delay), response
        return Delivery(self.direction, frame, sent, delay), None

    def _pass(self, data: bytes, start: int, stop: int, made: list[Delivery]) -> None:
        if stop > start:
            part = data if stop - start == len(data) else data[start:stop]
            made.append(Delivery(self.direction, part, part))

    def _needs(self, handling: Handling, size: int) -> tuple[int, Sequence[Interceptor]]:
        """The bytes that a frame of this size needs to pass unseen, and the interceptors that want it."""
        raise NotImplementedError

    def _passed(self, handling: Handling, correlation_id: bytes, sent: bytes, answer: bytes | None = None) -> None:
        """A frame is sent, or begins to be; `sent` is at least its beginning, empty if nothing is sent."""
        raise NotImplementedError

    def _answers_due(self) -> Sequence[bytes]:
        """The answers to send behind the frame that has just ended."""
        raise NotImplementedError


class RequestStream(_Stream):
    """From the client. It adds requests to those in flight."""

    direction = Direction.REQUEST
    header_bytes = 12  # size, key, version, correlation id
    _answers: Sequence[bytes] = ()

    def _needs(self, handling: Handling, size: int) -> tuple[int, Sequence[Interceptor]]:
        return min(size, ACKS_WITHIN) if handling.api_key == _PRODUCE else self.header_bytes, handling.requests

    def _passed(self, handling: Handling, correlation_id: bytes, sent: bytes, answer: bytes | None = None) -> None:
        if answer is not None:
            self._answers = self._in_flight.add(correlation_id, handling, answer)
        elif sent and handling.tracked:
            if handling.api_key != _PRODUCE or expects_response(sent[:ACKS_WITHIN], handling.api_version):
                self._in_flight.add(correlation_id, handling)

    def _answers_due(self) -> Sequence[bytes]:
        answers, self._answers = self._answers, ()
        return answers


class ResponseStream(_Stream):
    """From the server. It removes from those in flight the requests that have their response."""

    direction = Direction.RESPONSE
    header_bytes = 8  # size, correlation id
    _passing: bytes | None = None  # the correlation id of the response that passes, if its request is in flight

    def _needs(self, handling: Handling, size: int) -> tuple[int, Sequence[Interceptor]]:
        return self.header_bytes, handling.responses

    def _passed(self, handling: Handling, correlation_id: bytes, sent: bytes, answer: bytes | None = None) -> None:
        self._passing = correlation_id

    def _answers_due(self) -> Sequence[bytes]:
        if self._passing is None:
            return ()
        correlation_id, self._passing = self._passing, None
        return self._in_flight.complete(correlation_id)


def _number(correlation_id: bytes) -> int:
    return int.from_bytes(correlation_id, "big", signed=True)
