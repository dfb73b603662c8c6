"""The two directions of an intercepted connection: which bytes pass immediately, and which wait for their frame."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dissectors.connections.events import Direction
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
from dissectors.interception.pending_requests import Handling, PendingRequests
from dissectors.interception.produce_acks import ACKS_PREFIX_BYTES, expects_response
from dissectors.schemas.codes import ApiKey
from dissectors.wire.limits import MAX_FRAME_BYTES

_PRODUCE = int(ApiKey.PRODUCE)
_FEW_REQUESTS = 100  # requests in flight: clients usually have fewer
_MAX_SIZE = 4 + MAX_FRAME_BYTES
_UNFRAMED_SIZE = sys.maxsize  # bytes that are not frames pass like one frame that never ends


class Delivery(NamedTuple):
    """The next bytes of one direction, as received and as they should be sent after `delay` seconds.

    Both are the same object unless an interceptor changed them. If `close` is set, they are the connection's last.
    """

    direction: Direction
    received: bytes
    sent: bytes
    delay: float = 0.0
    close: bool = False


class TooLarge(NamedTuple):
    """A frame that an interceptor wants was forwarded unseen, because it is too large."""

    direction: Direction
    header: RequestHeader
    size: int


class Limits(NamedTuple):
    """Frames larger than `max_held_bytes` pass unseen; `report` is called if an interceptor wants such a frame."""

    max_held_bytes: int
    report: Callable[[TooLarge], None]


class _Stream(ABC):
    """One direction of a connection.

    The 4 bytes after the size of a frame decide whether an interceptor can want it: the key and version of a request,
    the correlation id of a response. Most frames are unwanted, and a chunk of such frames passes whole, without a copy.

    Args:
        find_handling: Returns the handling of frames with these 4 bytes, None if they are unwanted.
    """

    direction: Direction
    header_bytes: int  # with the size in front, and the correlation id at the end

    def __init__(
        self, pending: PendingRequests, limits: Limits, find_handling: Callable[[bytes], Handling | None]
    ) -> None:
        self._pending = pending
        self._limits = limits
        self._find_handling = find_handling
        self._bytes_left = 0  # remaining bytes of a frame that passes
        self._held: list[bytes] = []  # an incomplete frame, in pieces
        self._bytes_missing = 0  # bytes needed before the incomplete frame can be handled

    def push(self, data: bytes) -> list[Delivery]:
        """Process the next bytes, in chunks of any size; return what to send now, in both directions."""
        if self._held:
            self._held.append(data)
            self._bytes_missing -= len(data)
            if self._bytes_missing > 0:
                return []
            data = b"".join(self._held)
            self._held.clear()
        deliveries: list[Delivery] = []
        end = len(data)
        start, position = 0, self._bytes_left  # the bytes between these pass
        while position <= end:
            if answers := self._take_due_answers():
                self._pass_bytes(data, start, position, deliveries)
                start = position
                deliveries += [Delivery(Direction.RESPONSE, b"", answer) for answer in answers]
            position, size, handling = self._find_next_frame(data, position)
            if position >= end:
                break
            needed = size if handling is None else self._needed_bytes(handling, size)
            if handling is None or position + needed > end:
                self._held.append(data[position:])
                self._bytes_missing = position + needed - end
                end = position
                break
            frame_start, position = position, position + size
            sent, answer = data[frame_start : frame_start + needed], None
            correlation_id = data[frame_start + self.header_bytes - 4 : frame_start + self.header_bytes]
            if interceptors := handling.interceptors[self.direction]:
                header = RequestHeader(handling.api_key, handling.api_version, _parse_correlation_id(correlation_id))
                if size > self._limits.max_held_bytes:
                    self._limits.report(TooLarge(self.direction, header, size))
                else:
                    delivery, answer = self._decide(interceptors, header, sent)
                    if delivery is not None:
                        self._pass_bytes(data, start, frame_start, deliveries)
                        start = position
                        deliveries.append(delivery)
                        sent = delivery.sent
                        if delivery.close:
                            return deliveries
            self._on_frame_sent(handling, correlation_id, sent, answer)
        self._bytes_left = position - end
        self._pass_bytes(data, start, end, deliveries)
        return deliveries

    def end(self) -> list[Delivery]:
        """End the direction; return the held bytes of an incomplete frame."""
        incomplete = b"".join(self._held)
        self._held.clear()
        self._bytes_left = _UNFRAMED_SIZE
        return [Delivery(self.direction, incomplete, incomplete)] if incomplete else []

    def _find_next_frame(self, data: bytes, position: int) -> tuple[int, int, Handling | None]:
        """Find the next frame that does not simply pass.

        Returns:
            The frame's position, at or beyond the end of `data` if there is none; then its size and its handling. While
            these are unknown: how many of its bytes are needed to know them, and None.
        """
        find_handling, header_bytes, last = self._find_handling, self.header_bytes, len(data) - 4
        while position <= last:
            size = 4 + int.from_bytes(data[position : position + 4], "big")
            if size > _MAX_SIZE:
                return _UNFRAMED_SIZE, 0, None
            if size >= header_bytes:  # else no interceptor can want it
                if position + 8 > len(data):
                    return position, header_bytes, None
                handling = find_handling(data[position + 4 : position + 8])
                if handling is not None and not self._try_skip(handling, data, position):
                    return position, size, handling
            position += size
        return position, 4, None

    def _needed_bytes(self, handling: Handling, size: int) -> int:
        """Return how many bytes of a frame are needed before it passes or is shown to interceptors."""
        if handling.interceptors[self.direction] and size <= self._limits.max_held_bytes:
            return size
        return self.header_bytes

    def _decide(
        self, interceptors: Sequence[Interceptor], header: RequestHeader, frame: bytes
    ) -> tuple[Delivery | None, bytes | None]:
        """Show a whole frame to interceptors.

        Returns:
            The delivery, None to send the frame unchanged now; and the response if an interceptor answers the request.
        """
        is_request = self.direction is Direction.REQUEST
        sent, delay = frame, 0.0
        for interceptor in interceptors:
            action: Action = (interceptor.on_request if is_request else interceptor.on_response)(sent, header)
            match action:
                case Forward():
                    pass
                case Replace(replacement):
                    sent = replacement
                case Delay(seconds):
                    delay += seconds
                case Drop():
                    sent = b""
                    break
                case CloseConnection():
                    return Delivery(self.direction, frame, b"", delay, close=True), None
                case Answer(response):
                    return Delivery(self.direction, frame, b"", delay), response
        return (None if sent is frame and not delay else Delivery(self.direction, frame, sent, delay)), None

    def _pass_bytes(self, data: bytes, start: int, stop: int, deliveries: list[Delivery]) -> None:
        if stop > start:
            chunk = data[start:stop]  # the same object if it is all of `data`
            deliveries.append(Delivery(self.direction, chunk, chunk))

    @abstractmethod
    def _try_skip(self, handling: Handling, data: bytes, position: int) -> bool:
        """Return whether the frame at `position` can pass without being examined further."""

    @abstractmethod
    def _on_frame_sent(self, handling: Handling, correlation_id: bytes, sent: bytes, answer: bytes | None) -> None:
        """Record that a frame is being sent; `sent` is at least its beginning, or empty if nothing is sent."""

    @abstractmethod
    def _take_due_answers(self) -> Sequence[bytes]:
        """Remove and return the answers to send after the frame that has just ended."""


class RequestStream(_Stream):
    """The direction from the client; it adds pending requests."""

    direction = Direction.REQUEST
    header_bytes = 12  # size, key, version, correlation id
    _answers: Sequence[bytes] = ()

    def _needed_bytes(self, handling: Handling, size: int) -> int:
        return max(super()._needed_bytes(handling, size), min(size, ACKS_PREFIX_BYTES) if handling.reads_acks else 0)

    def _try_skip(self, handling: Handling, data: bytes, position: int) -> bool:
        if handling.interceptors[Direction.REQUEST] or handling.reads_acks or position + self.header_bytes > len(data):
            return False
        # Reading acks takes as long as everything else. A few requests that never get a response do no harm here.
        if len(self._pending) < _FEW_REQUESTS or _expects_response(
            handling, data[position : position + ACKS_PREFIX_BYTES]
        ):
            self._pending.add(data[position + 8 : position + 12], handling)
        return True

    def _on_frame_sent(self, handling: Handling, correlation_id: bytes, sent: bytes, answer: bytes | None) -> None:
        if answer is not None:
            self._answers = self._pending.add(correlation_id, handling, answer)
        elif sent and handling.tracked and _expects_response(handling, sent):
            self._pending.add(correlation_id, handling)

    def _take_due_answers(self) -> Sequence[bytes]:
        answers, self._answers = self._answers, ()
        return answers


class ResponseStream(_Stream):
    """The direction from the server; it completes pending requests."""

    direction = Direction.RESPONSE
    header_bytes = 8  # size, correlation id
    _passing: bytes | None = None  # the correlation id of the frame that passes, if its request is pending

    def _try_skip(self, handling: Handling, data: bytes, position: int) -> bool:
        return False

    def _on_frame_sent(self, handling: Handling, correlation_id: bytes, sent: bytes, answer: bytes | None) -> None:
        self._passing = correlation_id

    def _take_due_answers(self) -> Sequence[bytes]:
        if self._passing is None:
            return ()
        correlation_id, self._passing = self._passing, None
        return self._pending.complete(correlation_id)


def _expects_response(handling: Handling, start: bytes) -> bool:
    return handling.api_key != _PRODUCE or expects_response(start, handling.api_version)


def _parse_correlation_id(correlation_id: bytes) -> int:
    return int.from_bytes(correlation_id, "big", signed=True)
