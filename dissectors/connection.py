"""Connection: both directions of one TCP connection, from bytes to paired requests and responses."""

from __future__ import annotations

from collections import deque

from dissectors import schemas
from dissectors.events import (
    BytesSkipped,
    ConnectionEnded,
    Direction,
    Event,
    FramingLost,
    ProxyHeaderReceived,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)
from dissectors.foreign import foreign
from dissectors.framing import MAX_DECODED_BYTES, MAX_FRAME_BYTES, Frame, Framer, Lost, Proxied, Skipped
from dissectors.message import Message, read_request, read_response

PRODUCE = 0
SASL_HANDSHAKE = 17

#: Requests that are remembered while they wait; more than this and the oldest are forgotten.
MAX_IN_FLIGHT = 10_000


class Connection:
    """Cuts both directions into frames and pairs each response with its request.

    Feed bytes in the order they arrived, in chunks of any size; the events do not depend on how the stream was cut.
    Never raises on peer data: a length that cannot be one (too short for a header, or over `max_frame_bytes`) yields
    one `FramingLost`, then nothing more is said of that direction.

    Args:
        midstream: The first bytes may stand in the middle of a frame: wait for a plausible header.
        max_frame_bytes: A longer length prefix cannot be one.
        max_decoded_bytes: Longer frames are paired by their head and not decoded.
    """

    def __init__(
        self,
        *,
        midstream: bool = False,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_decoded_bytes: int = MAX_DECODED_BYTES,
    ) -> None:
        limits = (max_frame_bytes, max_decoded_bytes)
        self._framers = (
            Framer(8, 14, plausible_request, *limits, seeking=midstream),
            Framer(4, 8, self._plausible_response, *limits, seeking=midstream),
        )
        self._in_flight: deque[RequestReceived] = deque()
        self._tokens: deque[None] = deque()  # raw SASL tokens that wait for the server's
        self._raw_sasl = False
        self._requests = 0
        self._excused = 0 if midstream else -1  # requests up to this count may be missing here
        self._responses_lost_at = -1  # and responses to requests up to this count

    def receive_data(self, direction: Direction, data: bytes, *, at: int) -> list[Event]:
        """Take the next bytes of one direction; return what they completed. `at` is in nanoseconds."""
        events: list[Event] = []
        for item in self._framers[direction].push(data):
            self._take(direction, item, at, events)
        return events

    def lose_data(self, direction: Direction, size: int, *, at: int, reason: str, frames: int = 0) -> list[Event]:
        """The next `size` bytes of one direction went by unseen, `frames` whole frames of them as far as is known."""
        framer = self._framers[direction]
        start = framer.offset + framer.pending
        self._note_loss(direction)
        events: list[Event] = [BytesSkipped(direction, start, at, size, frames, reason)]
        for item in framer.lose(size):
            self._take(direction, item, at, events)
        return events

    def skip_frame(self, direction: Direction, head: bytes, size: int, *, at: int, reason: str) -> list[Event]:
        """A whole frame went by of which only the first bytes are known; `size` is its length prefix."""
        events: list[Event] = []
        for item in self._framers[direction].skip(head, size, reason):
            self._take(direction, item, at, events)
        return events

    def close(self, *, at: int) -> list[Event]:
        """The connection is over: what was not answered, and frames that never became whole."""
        events: list[Event] = []
        for direction, framer in zip(Direction, self._framers, strict=True):
            for item in framer.end():
                self._take(direction, item, at, events)
        unanswered = list(self._in_flight)
        self._in_flight.clear()
        half = (self._framers[0].pending, self._framers[1].pending)
        return [*events, ConnectionEnded(at, unanswered, half)]

    @property
    def in_flight(self) -> int:
        """Requests that wait for their response."""
        return len(self._in_flight)

    @property
    def buffered(self) -> int:
        """Bytes held for frames that are not whole."""
        return self._framers[0].pending + self._framers[1].pending

    def _note_loss(self, direction: Direction) -> None:
        if direction is Direction.REQUEST:
            self._excused = self._requests
        else:
            self._responses_lost_at = self._requests

    def _take(self, direction: Direction, item: Frame | Skipped | Lost | Proxied, at: int, events: list[Event]) -> None:
        if isinstance(item, Frame):
            if direction is Direction.REQUEST:
                self._request(item, at, events)
            else:
                self._response(item, at, events)
        elif isinstance(item, Lost):
            named = item.named
            events.append(FramingLost(direction, item.offset, at, item.reason, *(named if named else (None, None))))
        elif isinstance(item, Skipped):
            events.append(BytesSkipped(direction, item.offset, at, item.size, 0, item.reason))
        else:
            events.append(ProxyHeaderReceived(at, item.size, item.version))

    def _request(self, frame: Frame, at: int, events: list[Event]) -> None:
        if self._raw_sasl:
            if not _reads_as_request(frame.data):
                self._tokens.append(None)
                events.append(TokenReceived(at, frame.offset, frame.size, Direction.REQUEST))
                return
            self._leave_raw_sasl()
        message = read_request(frame.data)
        if message.opaque and self._requests == 0 and (named := foreign(frame.data)):
            self._framers[Direction.REQUEST].lost = True
            events.append(FramingLost(Direction.REQUEST, frame.offset, at, "the first frame is no request", *named))
            return
        self._requests += 1
        answered = not (message.api_key == PRODUCE and message.body.get("acks") == 0)
        request = RequestReceived(at, frame.offset, frame.size, message, answered, frame.damaged)
        events.append(request)
        if answered:
            if len(self._in_flight) >= MAX_IN_FLIGHT:
                self._in_flight.popleft()
                self._responses_lost_at = self._requests
            self._in_flight.append(request)

    def _response(self, frame: Frame, at: int, events: list[Event]) -> None:
        if self._tokens:
            self._tokens.popleft()
            events.append(TokenReceived(at, frame.offset, frame.size, Direction.RESPONSE))
            return
        correlation_id = int.from_bytes(frame.data[4:8], "big", signed=True)
        request, passed_over = self._answered(correlation_id)
        message: Message | None = None
        if request is not None:
            asked = request.message
            message = read_response(frame.data, asked.api_key, asked.version)
            if asked.api_key == SASL_HANDSHAKE and asked.version == 0 and message.body.get("error_code") == 0:
                self._enter_raw_sasl()
        response = ResponseReceived(
            at, frame.offset, frame.size, correlation_id, message, request, passed_over, frame.damaged
        )
        if request is None and self._excused >= 0:
            response.damaged = response.damaged or "its request was not captured"
        events.append(response)

    def _answered(self, correlation_id: int) -> tuple[RequestReceived | None, int]:
        """The request with that id, taken from those in flight, and how many older ones still wait."""
        waiting = self._in_flight
        if waiting and waiting[0].message.correlation_id == correlation_id:
            found, passed_over = waiting.popleft(), 0
        else:
            for passed_over, found in enumerate(waiting):
                if found.message.correlation_id == correlation_id:
                    del waiting[passed_over]
                    break
            else:
                return None, 0
        if self._excused >= 0 and self._requests > self._excused:
            self._excused = -1
        if passed_over and self._responses_lost_at >= 0:
            # Their responses may be among the bytes that were lost: they are not late.
            for _ in range(passed_over):
                waiting.popleft()
            passed_over = 0
            self._responses_lost_at = -1
        return found, passed_over

    def _enter_raw_sasl(self) -> None:
        self._raw_sasl = True
        for framer in self._framers:
            framer.least = 0  # tokens may be empty

    def _leave_raw_sasl(self) -> None:
        self._raw_sasl = False
        self._tokens.clear()
        self._framers[0].least, self._framers[1].least = 8, 4

    def _plausible_response(self, buffer: bytearray, pos: int) -> bool:
        size = int.from_bytes(buffer[pos : pos + 4], "big")
        correlation_id = int.from_bytes(buffer[pos + 4 : pos + 8], "big", signed=True)
        if not 4 <= size <= MAX_FRAME_BYTES:
            return False
        for request in self._in_flight:
            if request.message.correlation_id == correlation_id:
                frame = bytes(buffer[pos : pos + 4 + size])
                asked = request.message
                return len(frame) < size + 4 or read_response(frame, asked.api_key, asked.version).error is None
        return False


def plausible_request(buffer: bytearray | bytes, pos: int) -> bool:
    """Whether a request may begin there: a known API at a known version, and a client id that is text.

    Looks at 14 bytes, and at the client id if the buffer holds it.
    """
    size = int.from_bytes(buffer[pos : pos + 4], "big")
    api_key = int.from_bytes(buffer[pos + 4 : pos + 6], "big")
    version = int.from_bytes(buffer[pos + 6 : pos + 8], "big")
    api = schemas.api(api_key)
    if not 8 <= size <= MAX_FRAME_BYTES or api is None or not api.min_version <= version <= api.max_version + 8:
        return False
    if buffer[pos + 8] > 0x7F:  # correlation ids count up from 0
        return False
    client_id = int.from_bytes(buffer[pos + 12 : pos + 14], "big", signed=True)
    if not -1 <= client_id <= min(size - 10, 1024):
        return False
    return all(0x20 <= byte < 0x7F for byte in buffer[pos + 14 : pos + 14 + client_id])


def _reads_as_request(frame: bytes) -> bool:
    if len(frame) < 14 or not plausible_request(frame, 0):
        return False
    message = read_request(frame)
    return message.error is None and message.trailing == 0
