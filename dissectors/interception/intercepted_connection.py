"""InterceptedConnection: applies interceptors to both directions of a connection, without I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from dissectors.connections.events import Direction
from dissectors.connections.framing import MAX_FRAME_BYTES
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

#: Larger frames are forwarded without being shown to interceptors. Kafka's clients fetch 50 MiB at once by default.
MAX_HELD_BYTES: Final = 64 * 1024 * 1024
#: Requests without a response that are remembered; the oldest are forgotten, and their responses pass unseen.
MAX_IN_FLIGHT: Final = 10_000

_REQUEST_HEAD = struct.Struct(">ihhi")
_RESPONSE_HEAD = struct.Struct(">ii")
_PRODUCE = int(ApiKey.PRODUCE)


class Delivery(NamedTuple):
    """The next bytes of one direction: as they were received, and as they are to be sent after `delay` seconds.

    The two differ only where an interceptor decided so. Where `close` is set, they are the connection's last.
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


class InterceptedConnection:
    """Cuts both directions into frames and shows interceptors those that they want.

    Feed bytes in the order they arrived, in chunks of any size. Bytes leave in the same order. Frames that no
    interceptor wants are not held back. A direction that is not made of Kafka frames passes unchanged from there on.
    Responses are paired with requests by correlation id; Kafka answers in order.

    Args:
        interceptors: Each is shown what those before it let pass.
        max_held_bytes: A larger frame passes unseen.
        report: Called with such frames.
    """

    def __init__(
        self,
        interceptors: Sequence[Interceptor],
        *,
        max_held_bytes: int = MAX_HELD_BYTES,
        report: Callable[[TooLarge], None] = lambda event: None,
    ) -> None:
        self._interceptors = interceptors
        self._answers = any(each.answers for each in interceptors)
        self._max_held = max_held_bytes
        self._report = report
        # Requests that wait for a response, oldest first; those with `Answer` have their response here.
        self._in_flight: dict[int, tuple[RequestHeader, bytes | None]] = {}
        self._cutters = (_Cutter(Direction.REQUEST, self), _Cutter(Direction.RESPONSE, self))

    def receive_data(self, direction: Direction, data: bytes) -> list[Delivery]:
        """Take the next bytes of one direction; return what is to be sent now, in both directions.

        After a delivery with `close`, feed nothing more.
        """
        return self._cutters[direction].push(data)

    def end(self, direction: Direction) -> list[Delivery]:
        """The direction has ended: what is held of a frame that never became whole is to be sent as it is."""
        return self._cutters[direction].end()

    def wanting(self, direction: Direction, header: RequestHeader, size: int) -> list[Interceptor]:
        """Those that want to see this frame of `size` bytes."""
        wanting = [each for each in self._interceptors if each.wants(direction, header.api_key, header.api_version)]
        if wanting and size > self._max_held:
            self._report(TooLarge(direction, header, size))
            return []
        return wanting

    def is_tracked(self, header: RequestHeader, start: bytes) -> bool:
        """Whether the response to a request must be recognized; `start` is the beginning of the request's frame."""
        key, version = header.api_key, header.api_version
        if not self._answers and not any(each.wants(Direction.RESPONSE, key, version) for each in self._interceptors):
            return False
        return key != _PRODUCE or expects_response(start, version)

    def asked(self, correlation_id: int) -> RequestHeader | None:
        """The header of the request that waits for this response."""
        waiting = self._in_flight.get(correlation_id)
        return None if waiting is None else waiting[0]

    def requested(self, header: RequestHeader, answer: bytes | None = None) -> list[Delivery]:
        """A request passes that expects a response, or it has its answer here; return answers that are due."""
        self._in_flight.pop(header.correlation_id, None)  # the id of one that was never answered: the newer counts
        self._in_flight[header.correlation_id] = header, answer
        if len(self._in_flight) > MAX_IN_FLIGHT:
            del self._in_flight[next(iter(self._in_flight))]
        return self._answers_due() if answer is not None else []

    def responded(self, correlation_id: int) -> list[Delivery]:
        """A response has passed, to its last byte; return answers that are due behind it."""
        made: list[Delivery] = []
        while self._in_flight:
            oldest = next(iter(self._in_flight))
            _, answer = self._in_flight.pop(oldest)
            if answer is not None:
                made.append(Delivery(Direction.RESPONSE, b"", answer))
            if oldest == correlation_id:
                break
        return made + self._answers_due()

    def _answers_due(self) -> list[Delivery]:
        made: list[Delivery] = []
        while self._in_flight:
            oldest, (_, answer) = next(iter(self._in_flight.items()))
            if answer is None:
                break
            del self._in_flight[oldest]
            made.append(Delivery(Direction.RESPONSE, b"", answer))
        return made


class _Cutter:
    """One direction: which of its bytes pass at once, and which wait for the rest of their frame."""

    def __init__(self, direction: Direction, connection: InterceptedConnection) -> None:
        self._direction = direction
        self._connection = connection
        self._head_bytes = (_REQUEST_HEAD if direction is Direction.REQUEST else _RESPONSE_HEAD).size
        self._left = 0  # bytes to come of a frame that passes
        self._passing: RequestHeader | None = None  # of a response that passes
        self._held: list[bytes] = []  # the frame that is not whole, in pieces
        self._missing = 0  # bytes to come before what is held is worth another look
        self._framed = True

    def push(self, data: bytes) -> list[Delivery]:
        if not self._framed or len(data) < self._left:
            self._left -= len(data) if self._framed else 0
            return [Delivery(self._direction, data, data)]
        if self._held:
            self._held.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = b"".join(self._held)
            self._held.clear()
        made: list[Delivery] = []
        self._cut(data, made)
        return made

    def end(self) -> list[Delivery]:
        rest = b"".join(self._held)
        self._held.clear()
        self._framed = False
        return [Delivery(self._direction, rest, rest)] if rest else []

    def _cut(self, data: bytes, made: list[Delivery]) -> None:
        """Pass, hold or decide about the frames in `data`, which begins with what is left of one that passes."""
        end = len(data)
        start, position = 0, self._left  # what stands between them passes
        if position:
            start = self._finish(data, start, position, made)
            self._left = 0
        while position < end:
            need = self._needed(data, position, end)
            if need < 0:
                self._framed, position = False, end
                break
            if end - position < need:
                self._hold(data, position, need)
                break
            size = 4 + int.from_bytes(data[position : position + 4], "big")
            header = self._header(data, position, size)
            wanting = self._connection.wanting(self._direction, header, size) if header is not None else ()
            if not wanting:
                self._begin(header, data[position : position + ACKS_WITHIN])
                if end - position < size:
                    self._left = size - (end - position)
                    position = end
                    break
                position += size
                start = self._finish(data, start, position, made)
                continue
            if end - position < size:
                self._hold(data, position, size)
                break
            self._pass(data, start, position, made)
            assert header is not None
            frame = data[position : position + size]
            start = position = position + size
            if not self._decide(header, frame, wanting, made):
                return
        self._pass(data, start, position, made)

    def _begin(self, header: RequestHeader | None, start: bytes) -> None:
        """A frame begins to pass; `header` is None if it has none, or answers no request that is known."""
        if self._direction is Direction.RESPONSE:
            self._passing = header
        elif header is not None and self._connection.is_tracked(header, start):
            self._connection.requested(header)

    def _finish(self, data: bytes, start: int, stop: int, made: list[Delivery]) -> int:
        """A frame that passes ends at `stop`; return where what is still to pass starts."""
        if self._passing is None:
            return start
        answers = self._connection.responded(self._passing.correlation_id)
        self._passing = None
        if not answers:
            return start
        self._pass(data, start, stop, made)
        made += answers
        return stop

    def _needed(self, data: bytes, position: int, end: int) -> int:
        """How many bytes of a frame must be here before it is known what becomes of it; -1: it is no frame."""
        if end - position < 4:
            return 4
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        if not 0 <= size <= MAX_FRAME_BYTES:
            return -1
        need = min(4 + size, self._head_bytes)
        if self._direction is Direction.REQUEST and data[position + 4 : position + 6] == b"\0\0":  # Produce
            need = min(4 + size, ACKS_WITHIN)
        return need

    def _header(self, data: bytes, position: int, size: int) -> RequestHeader | None:
        """The header of a request; that of the request which a response answers."""
        if size < self._head_bytes:
            return None
        if self._direction is Direction.REQUEST:
            return RequestHeader(*_REQUEST_HEAD.unpack_from(data, position)[1:])
        return self._connection.asked(_RESPONSE_HEAD.unpack_from(data, position)[1])

    def _decide(
        self, header: RequestHeader, frame: bytes, wanting: Sequence[Interceptor], made: list[Delivery]
    ) -> bool:
        """Show a whole frame to interceptors and do what they say; False if the connection is to be closed."""
        is_request = self._direction is Direction.REQUEST
        sent, delay = frame, 0.0
        for each in wanting:
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
                    made.append(Delivery(self._direction, frame, b"", delay, close=True))
                    return False
                case Answer(response):
                    made.append(Delivery(self._direction, frame, b"", delay))
                    made += self._connection.requested(header, response)
                    return True
        made.append(Delivery(self._direction, frame, sent, delay))
        if not is_request:
            made += self._connection.responded(header.correlation_id)
        elif sent:
            self._begin(header, sent[:ACKS_WITHIN])
        return True

    def _pass(self, data: bytes, start: int, stop: int, made: list[Delivery]) -> None:
        if stop > start:
            part = data if stop - start == len(data) else data[start:stop]
            made.append(Delivery(self._direction, part, part))

    def _hold(self, data: bytes, position: int, need: int) -> None:
        self._held.append(data[position:])
        self._missing = position + need - len(data)
