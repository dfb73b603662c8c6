"""Connection: both directions of one TCP connection, from bytes to paired requests and responses."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import (
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
from dissectors.connections.framing import (
    MAX_DECODED_BYTES,
    MAX_FRAME_BYTES,
    Frame,
    Framer,
    Item,
    NoFrame,
    SkippedBytes,
)
from dissectors.connections.resync import FrameFinder
from dissectors.messages.message import Message, read_request, read_response
from dissectors.schemas.codes import ApiKey

PRODUCE = ApiKey.PRODUCE
SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE

_REQUEST_HEAD = struct.Struct(">ihhih").unpack_from
_RESPONSE_HEAD = struct.Struct(">ii").unpack_from

#: The shortest length prefix: a header without a client id, and one of a correlation id alone.
LEAST_REQUEST = 8
LEAST_RESPONSE = 4

#: Requests that are remembered while they wait; more than this and the oldest are forgotten.
MAX_IN_FLIGHT = 10_000


class _InFlight:
    """Requests that wait for their response, oldest first."""

    def __init__(self) -> None:
        self._order: deque[tuple[int, RequestReceived]] = deque()
        self._ids: dict[int, int] = {}  # how often each waits, so that one for which nobody does costs no search

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[RequestReceived]:
        return (request for _, request in self._order)

    def add(self, request: RequestReceived) -> None:
        correlation_id = request.message.correlation_id
        self._order.append((correlation_id, request))
        self._ids[correlation_id] = self._ids.get(correlation_id, 0) + 1

    def find(self, correlation_id: int) -> tuple[int, RequestReceived] | None:
        """The oldest request with that id, and how many are older."""
        if correlation_id not in self._ids:
            return None
        for older, (waits_for, request) in enumerate(self._order):
            if waits_for == correlation_id:
                return older, request
        return None

    def remove(self, index: int) -> RequestReceived:
        """Take out the request that `index` others are older than."""
        correlation_id, request = self._order[index]
        del self._order[index]
        if others := self._ids.pop(correlation_id) - 1:
            self._ids[correlation_id] = others
        return request


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
        requests = FrameFinder(14, plausible_request, _reads_as_request, max_frame_bytes)
        responses = FrameFinder(8, self._plausible_response, self._reads_as_response, max_frame_bytes)
        limits = (max_frame_bytes, max_decoded_bytes)
        self._framers = (
            Framer(LEAST_REQUEST, requests, *limits, seeking=midstream),
            Framer(LEAST_RESPONSE, responses, *limits, seeking=midstream),
        )
        self._in_flight = _InFlight()
        self._replacements: dict[Direction, tuple[int, bytes]] = {}  # offset of the frame, and what was sent instead
        self._raw_sasl = False
        self._tokens = 0  # raw SASL tokens that wait for the server's
        # All three are offsets in the stream of requests.
        self._requests_lost_at = 0 if midstream else -1  # here requests may be missing
        self._responses_lost_at = 0  # responses to what was asked before may be missing
        self._answered_at = -1  # the latest request that was answered

    def resume(self, direction: Direction, offset: int, *, in_step: bool) -> None:
        """The next byte of one direction is at `offset`; earlier ones were inspected elsewhere. Only of `midstream`.

        `in_step`: a frame is known to begin there.
        """
        self._framers[direction].resume(offset, in_step=in_step)
        if direction is Direction.REQUEST:
            self._requests_lost_at = offset
        if offset:
            # A raw SASL exchange may be under way: what does not read as a request may be a password.
            self._speak_raw_sasl(True)

    def receive_data(self, direction: Direction, data: bytes, *, at: int) -> list[Event]:
        """Take the next bytes of one direction; return what they completed. `at` is in nanoseconds."""
        events: list[Event] = []
        for item in self._framers[direction].push(data):
            self._take(direction, item, at, events)
        return events

    def replace_next(self, direction: Direction, frame: bytes) -> None:
        """The next frame of one direction was not sent on: `frame` was, with its length prefix."""
        self._replacements[direction] = self._framers[direction].received, frame

    def lose_data(
        self, direction: Direction, size: int, *, at: int, reason: str, frames: int | None = None
    ) -> list[Event]:
        """The next `size` bytes of one direction went by unseen.

        `frames`, if that is known, says how many whole frames they held, and that a frame begins behind them.
        """
        framer, asked = self._framers[direction], self._framers[Direction.REQUEST].received
        if direction is Direction.REQUEST:
            self._requests_lost_at = asked
        else:
            self._responses_lost_at = asked
        events: list[Event] = [BytesSkipped(direction, framer.received, at, size, frames or 0, reason)]
        for item in framer.lose(size, in_step=frames is not None):
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
        unanswered, self._in_flight = list(self._in_flight), _InFlight()
        return [*events, ConnectionEnded(at, unanswered, (self._framers[0].pending, self._framers[1].pending))]

    def limit(self, max_decoded_bytes: int) -> None:
        """From now on, longer frames are paired by their head and not decoded."""
        for framer in self._framers:
            framer.limit(max_decoded_bytes)

    @property
    def in_flight(self) -> int:
        """Requests that wait for their response."""
        return len(self._in_flight)

    @property
    def waiting(self) -> Iterator[RequestReceived]:
        """Requests that wait for their response, oldest first."""
        return iter(self._in_flight)

    @property
    def buffered(self) -> int:
        """Bytes held for frames that are not whole."""
        return self._framers[0].pending + self._framers[1].pending

    def reported(self, direction: Direction) -> int:
        """Bytes of one direction about which events were returned: whole frames, and what was skipped."""
        return self._framers[direction].reported

    def in_part(self, direction: Direction) -> tuple[int, int]:
        """Of a frame that is under way: the bytes that are here, and those it says to have."""
        framer = self._framers[direction]
        return (0, 0) if framer.is_between_frames else (framer.pending, framer.pending_size)

    def _take(self, direction: Direction, item: Item, at: int, events: list[Event]) -> None:
        if isinstance(item, Frame):
            if direction is Direction.REQUEST:
                self._request(item, at, events)
            else:
                self._response(item, at, events)
        elif isinstance(item, NoFrame):
            protocol, hint = item.named or (None, None)
            events.append(FramingLost(direction, item.offset, at, item.reason, protocol, hint, item.size))
        elif isinstance(item, SkippedBytes):
            events.append(BytesSkipped(direction, item.offset, at, item.size, 0, item.reason))
        else:
            events.append(ProxyHeaderReceived(at, item.size, item.version))

    def _request(self, frame: Frame, at: int, events: list[Event]) -> None:
        if self._raw_sasl:
            if not _reads_as_request(frame.data):
                self._tokens += 1
                events.append(TokenReceived(at, frame.offset, frame.size, Direction.REQUEST))
                return
            self._speak_raw_sasl(False)
        message = read_request(frame.data)
        if self._replacements and (sent := self._replacement(Direction.REQUEST, frame)) is not None:
            message.replaced_by = read_request(sent)
        answered = not (message.api_key == PRODUCE and message.body.get("acks") == 0)
        request = RequestReceived(at, frame.offset, frame.size, message, answered, frame.damaged)
        events.append(request)
        if answered:
            if len(self._in_flight) >= MAX_IN_FLIGHT:
                forgotten = self._in_flight.remove(0)
                self._requests_lost_at = max(self._requests_lost_at, forgotten.offset + 1)
            self._in_flight.add(request)
        if message.api_key == SASL_HANDSHAKE and message.version == 0 and message.error is None:
            # Already now: if the response is lost, the password must still not be read as a request.
            self._speak_raw_sasl(True)

    def _response(self, frame: Frame, at: int, events: list[Event]) -> None:
        correlation_id = int.from_bytes(frame.data[4:8], "big", signed=True)
        found = self._in_flight.find(correlation_id) if len(frame.data) >= 8 else None
        if found is not None:
            request, passed_over = self._answered(*found)
            asked = request.message
            message = read_response(frame.data, asked.api_key, asked.version)
            if self._replacements and (sent := self._replacement(Direction.RESPONSE, frame)) is not None:
                message.replaced_by = read_response(sent, asked.api_key, asked.version)
            events.append(
                ResponseReceived(
                    at, frame.offset, frame.size, correlation_id, message, request, passed_over, frame.damaged
                )
            )
            if asked.api_key == SASL_HANDSHAKE and asked.version == 0 and message.body.get("error_code"):
                self._speak_raw_sasl(False)
            elif self._tokens and not self._raw_sasl:
                self._tokens = 0  # their answers were lost: Kafka answers in order
                self._set_least()
        elif self._tokens:
            self._tokens -= 1
            self._set_least()
            events.append(TokenReceived(at, frame.offset, frame.size, Direction.RESPONSE))
        else:
            damaged = frame.damaged
            if self._answered_at < self._requests_lost_at:
                damaged = damaged or "its request was not captured"
            events.append(ResponseReceived(at, frame.offset, frame.size, correlation_id, None, None, 0, damaged))

    def _replacement(self, direction: Direction, frame: Frame) -> bytes | None:
        """What was sent in place of a frame, if that is known."""
        offset, sent = self._replacements.pop(direction, (-1, b""))
        return sent if offset == frame.offset else None

    def _answered(self, older: int, request: RequestReceived) -> tuple[RequestReceived, int]:
        """Take a request, of which `older` are older, out of those in flight; with how many of these still wait."""
        self._in_flight.remove(older)
        if request.offset > self._answered_at:
            self._answered_at = request.offset
        while older and next(iter(self._in_flight)).offset < self._responses_lost_at:
            self._in_flight.remove(0)  # its response may be among the bytes that were lost: it is not late
            older -= 1
        return request, older

    def _speak_raw_sasl(self, raw: bool) -> None:
        self._raw_sasl = raw
        self._set_least()

    def _set_least(self) -> None:
        """Tokens may be empty."""
        self._framers[Direction.REQUEST].least = 0 if self._raw_sasl else LEAST_REQUEST
        self._framers[Direction.RESPONSE].least = 0 if self._raw_sasl or self._tokens else LEAST_RESPONSE

    def _plausible_response(self, buffer: bytearray | bytes, pos: int) -> bool:
        """Whether a response to a request in flight may begin there."""
        return self._in_flight.find(_RESPONSE_HEAD(buffer, pos)[1]) is not None

    def _reads_as_response(self, frame: bytes) -> bool:
        found = self._in_flight.find(_RESPONSE_HEAD(frame, 0)[1])
        if found is None:
            return False
        asked = found[1].message
        return _reads_well(read_response(frame, asked.api_key, asked.version))


def plausible_request(buffer: bytearray | bytes, pos: int) -> bool:
    """Whether a request may begin there: a known API at a known version, and a client id that is text.

    Needs 14 bytes from there, and looks at the client id as far as the buffer holds it.
    """
    size, api_key, version, correlation_id, client_id = _REQUEST_HEAD(buffer, pos)
    if not 8 <= size <= MAX_FRAME_BYTES or correlation_id < 0:  # they count up from 0
        return False
    api = schemas.api(api_key)
    if api is None or not api.min_version <= version <= api.max_version + 8:
        return False
    if not -1 <= client_id <= min(size - 10, 1024):
        return False
    return all(0x20 <= byte < 0x7F for byte in buffer[pos + 14 : pos + 14 + client_id])


def _reads_as_request(frame: bytes) -> bool:
    return len(frame) >= 14 and plausible_request(frame, 0) and _reads_well(read_request(frame))


def _reads_well(message: Message) -> bool:
    return message.error is None and message.trailing == 0
