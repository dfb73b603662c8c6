"""Turn the bytes of both directions of a TCP connection into paired requests and responses."""

# Rule 1: nothing that peers send makes this code raise. Bytes that cannot be read become an event.
#
# Rule 2: a request is in flight from its event until the event of its response, or until `MAX_IN_FLIGHT` newer requests
# are in flight. A response belongs to the oldest request with the same correlation id.
#
# Rule 3: nothing is reported as missing, late or out of order if it may be among bytes that the capture has lost. Three
# offsets in the stream of requests record what may have been lost.
#
# Rule 4: bytes that may be a password are never decoded as a request. If in doubt (a lost response to SaslHandshake
# v0), they are treated as tokens.

from __future__ import annotations

import struct
from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionEnded,
    Direction,
    Event,
    FrameIncomplete,
    FramingLost,
    ProxyHeaderReceived,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)
from dissectors.connections.framing import (
    MAX_DECODED_BYTES,
    Frame,
    Framer,
    Item,
    NotKafka,
    SkippedBytes,
)
from dissectors.connections.in_flight_requests import InFlightRequests
from dissectors.connections.resync import FrameFinder
from dissectors.messages.message import Message, read_head, read_request, read_response
from dissectors.sasl import gssapi
from dissectors.schemas.codes import ApiKey
from dissectors.wire.limits import MAX_FRAME_BYTES
from dissectors.wire.primitives import RESERVED_UUIDS

PRODUCE = ApiKey.PRODUCE
SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE

_REQUEST_HEAD = struct.Struct(">ihhih").unpack_from
_RESPONSE_HEAD = struct.Struct(">ii").unpack_from
_USUAL_HEADER_FIELDS = 4  # API key and version, correlation id, client id

#: The smallest length prefixes: a request header without a client id; a correlation id alone.
MIN_REQUEST = 8
MIN_RESPONSE = 4


class Connection:
    """Splits both directions into frames and pairs each response with its request.

    Feed bytes in the order they arrived, in chunks of any size; the events do not depend on the chunks. Never raises on
    peer data: an invalid length prefix (too short for a header, or over `max_frame_bytes`) yields one `FramingLost`,
    and no more events for that direction.

    Args:
        midstream: Whether the stream may begin inside a frame, so that a plausible header must be found first.
        max_frame_bytes: The largest valid length prefix.
        max_decoded_bytes: Longer frames are paired by their head but not decoded.
        bodies_of: The keys of the APIs whose frames are decoded, None for all. Only the head of other frames is read
            (`dissectors.messages.message.read_head`), unless pairing needs more.
    """

    def __init__(
        self,
        *,
        midstream: bool = False,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_decoded_bytes: int = MAX_DECODED_BYTES,
        bodies_of: frozenset[int] | None = None,
    ) -> None:
        self._bodies_of = bodies_of
        requests = FrameFinder(14, is_plausible_request, _is_request, max_frame_bytes)
        responses = FrameFinder(8, self._is_plausible_response, self._is_response, max_frame_bytes)
        limits = (max_frame_bytes, max_decoded_bytes)
        self._framers = (
            Framer(MIN_REQUEST, requests, *limits, seeking=midstream),
            Framer(MIN_RESPONSE, responses, *limits, seeking=midstream),
        )
        self._in_flight = InFlightRequests()
        self._replacements: dict[Direction, tuple[int, bytes]] = {}  # offset of the frame, and what was sent instead
        # From the first request that has them, because later requests leave them out (KIP-1313).
        self._client_id: str | None = None
        self._client_instance_id: str | None = None
        self._is_raw_sasl = False
        self._has_begun = midstream  # whether a request was received
        self._pending_tokens = 0  # raw SASL tokens that await the server's token
        # The following three are offsets in the stream of requests.
        self._requests_lost_before = 0 if midstream else -1  # requests before this offset may be missing
        self._responses_lost_before = 0  # responses to requests before this offset may be missing
        self._last_answered_offset = -1  # the latest request that was answered

    def resume(self, direction: Direction, offset: int, *, at_frame: bool) -> None:
        """Continue at `offset` of one direction, after bytes that an earlier inspector has seen. Needs `midstream`.

        `at_frame` tells whether a frame begins there.
        """
        self._framers[direction].resume(offset, at_frame=at_frame)
        if direction is Direction.REQUEST:
            self._requests_lost_before = offset
        if offset:
            # A raw SASL exchange may be under way, and bytes that do not decode as a request may be a password.
            self._set_raw_sasl(True)

    def receive_data(self, direction: Direction, data: bytes, *, at: int) -> list[Event]:
        """Process the next bytes of one direction and return the events that they complete. `at` is in ns."""
        events: list[Event] = []
        receive_frame = self._receive_request if direction == Direction.REQUEST else self._receive_response
        for item in self._framers[direction].push(data):
            if type(item) is Frame:
                receive_frame(item, at, events)
            else:
                self._add_event(direction, item, at, events)
        return events

    def replace_next(self, direction: Direction, frame: bytes) -> None:
        """Record that `frame`, including its length prefix, is sent on in place of the next frame of a direction."""
        self._replacements[direction] = self._framers[direction].received, frame

    def lose_data(
        self, direction: Direction, size: int, *, at: int, reason: str, frames: int | None = None
    ) -> list[Event]:
        """Report that the next `size` bytes of one direction were not captured.

        `frames` is set if the bytes are known to be that many whole frames, so that another frame begins after them.
        """
        framer, requests_received = self._framers[direction], self._framers[Direction.REQUEST].received
        if direction is Direction.REQUEST:
            self._requests_lost_before = requests_received
        else:
            self._responses_lost_before = requests_received
        events: list[Event] = [BytesSkipped(direction, framer.received, at, size, frames or 0, reason)]
        for item in framer.lose(size, at_frame=frames is not None):
            self._add_event(direction, item, at, events)
        return events

    def skip_frame(self, direction: Direction, head: bytes, size: int, *, at: int, reason: str) -> list[Event]:
        """Report a frame of which only the first bytes, `head`, were captured; `size` is its length prefix."""
        events: list[Event] = []
        for item in self._framers[direction].skip(head, size, reason):
            self._add_event(direction, item, at, events)
        return events

    def close(self, *, at: int) -> list[Event]:
        """End the connection: report unanswered requests and incomplete frames."""
        events: list[Event] = []
        for direction, framer in zip(Direction, self._framers, strict=True):
            for item in framer.end():
                self._add_event(direction, item, at, events)
        unanswered, self._in_flight = list(self._in_flight), InFlightRequests()
        return [*events, ConnectionEnded(at, unanswered, (self._framers[0].pending, self._framers[1].pending))]

    def limit(self, max_decoded_bytes: int) -> None:
        """Change `max_decoded_bytes` for later frames."""
        for framer in self._framers:
            framer.limit(max_decoded_bytes)

    @property
    def in_flight(self) -> int:
        """The number of requests that await their response."""
        return len(self._in_flight)

    @property
    def waiting(self) -> Iterator[RequestReceived]:
        """The requests that await their response, oldest first."""
        return iter(self._in_flight)

    @property
    def buffered(self) -> int:
        """The number of buffered bytes of incomplete frames."""
        return self._framers[0].pending + self._framers[1].pending

    def reported(self, direction: Direction) -> int:
        """Return how many bytes of one direction were reported in events: whole frames, and skipped bytes."""
        return self._framers[direction].reported

    def is_within_frame(self, direction: Direction) -> bool:
        """Whether the bytes received in a direction end inside a frame."""
        return self._framers[direction].is_within_frame

    def partial_frame(self, direction: Direction) -> tuple[int, int]:
        """Return the incomplete frame of a direction: (bytes received, total size); (0, 0) between frames."""
        framer = self._framers[direction]
        return framer.pending, framer.pending_size

    def incomplete_frame(self, direction: Direction, *, at: int) -> FrameIncomplete:
        """Return an event that describes the incomplete frame of a direction."""
        return FrameIncomplete(at, direction, *self.partial_frame(direction), self._nearly_whole_message(direction))

    def _nearly_whole_message(self, direction: Direction) -> Message | None:
        """Return the message in an incomplete frame; None if many bytes are missing, or SASL tokens are expected."""
        frame = self._framers[direction].nearly_whole
        if frame is None or self._is_raw_sasl or self._pending_tokens:
            return None
        if direction is Direction.REQUEST:
            return read_request(frame)
        entry = self._in_flight.find(_RESPONSE_HEAD(frame, 0)[1])
        if entry is None:
            return None
        request = entry[1].message
        return read_response(frame, request.api_key, request.version)

    def _add_event(self, direction: Direction, item: Item, at: int, events: list[Event]) -> None:
        if isinstance(item, Frame):
            if direction is Direction.REQUEST:
                self._receive_request(item, at, events)
            else:
                self._receive_response(item, at, events)
        elif isinstance(item, NotKafka):
            protocol, hint = item.other_protocol or (None, None)
            events.append(FramingLost(direction, item.offset, at, item.reason, protocol, hint, item.size, item.start))
        elif isinstance(item, SkippedBytes):
            events.append(BytesSkipped(direction, item.offset, at, item.size, 0, item.reason))
        else:
            events.append(ProxyHeaderReceived(at, item.size, item.version))

    def _receive_request(self, frame: Frame, at: int, events: list[Event]) -> None:
        if not self._has_begun:
            self._has_begun = True
            if gssapi.is_first_token(frame.data[4:]):  # clients of 0.9 log in before they send requests
                self._set_raw_sasl(True)
        if self._is_raw_sasl:
            if not _is_request(frame.data):
                self._pending_tokens += 1
                events.append(_token_event(frame, at, Direction.REQUEST))
                return
            self._set_raw_sasl(False)
        message = read_request(frame.data) if self._bodies_of is None else self._read_request(frame.data)
        if message.layout is None and gssapi.is_first_token(frame.data[4:]):  # a login without SaslHandshake
            self._set_raw_sasl(True)
            self._pending_tokens += 1
            events.append(_token_event(frame, at, Direction.REQUEST))
            return
        if self._replacements and (sent_frame := self._take_replacement(Direction.REQUEST, frame)) is not None:
            message.replaced_by = read_request(sent_frame)
        header = message.header
        if len(header) != _USUAL_HEADER_FIELDS or header.get("client_id") is None or self._client_id is None:
            self._identify_client(message)
        elif self._client_instance_id is not None:
            message.client_instance_id = self._client_instance_id
        expects_response = message.api_key != PRODUCE or message.body.get("acks") != 0
        request = RequestReceived(at, frame.offset, frame.size, message, expects_response, frame.damaged)
        events.append(request)
        if expects_response and (dropped := self._in_flight.add(request)) is not None:
            self._requests_lost_before = max(self._requests_lost_before, dropped.offset + 1)
        if message.api_key == SASL_HANDSHAKE and message.version == 0 and message.error is None:
            # Switch before the response arrives: even if it is lost, the password must not be read as a request.
            self._set_raw_sasl(True)

    def _identify_client(self, message: Message) -> None:
        """Take the client's id and instance id from the first header that has them, and add them to later requests."""
        header = message.header
        if header.get("client_id") is None:
            message.connection_client_id = self._client_id
        elif self._client_id is None and _is_fully_decoded(message):
            self._client_id = header["client_id"]
        if "client_instance_id" in header:
            instance_id: str = header["client_instance_id"]
            if self._client_instance_id is None and instance_id not in RESERVED_UUIDS and _is_fully_decoded(message):
                self._client_instance_id = instance_id
        message.client_instance_id = self._client_instance_id

    def _receive_response(self, frame: Frame, at: int, events: list[Event]) -> None:
        correlation_id = int.from_bytes(frame.data[4:8], "big", signed=True)
        match = self._in_flight.find(correlation_id) if len(frame.data) >= 8 else None
        if match is not None:
            older_count, request = match
            self._in_flight.remove(older_count)
            if request.offset > self._last_answered_offset:
                self._last_answered_offset = request.offset
            if older_count:
                older_count = self._forget_lost_requests(older_count)
            request_message = request.message
            if self._bodies_of is None:
                message = read_response(frame.data, request_message.api_key, request_message.version)
            else:
                message = self._read_response(frame.data, request_message)
            if self._replacements and (sent_frame := self._take_replacement(Direction.RESPONSE, frame)) is not None:
                message.replaced_by = read_response(sent_frame, request_message.api_key, request_message.version)
            events.append(
                ResponseReceived(
                    at, frame.offset, frame.size, correlation_id, message, request, older_count, frame.damaged
                )
            )
            if (
                request_message.api_key == SASL_HANDSHAKE
                and request_message.version == 0
                and message.body.get("error_code")
            ):
                self._set_raw_sasl(False)
            elif self._pending_tokens and not self._is_raw_sasl:
                self._pending_tokens = 0  # the server's tokens were lost, because Kafka responds in order
                self._update_min_sizes()
        elif self._pending_tokens:
            self._pending_tokens -= 1
            self._update_min_sizes()
            events.append(_token_event(frame, at, Direction.RESPONSE))
        else:
            damaged = frame.damaged
            if self._last_answered_offset < self._requests_lost_before:
                damaged = damaged or "its request was not captured"
            events.append(ResponseReceived(at, frame.offset, frame.size, correlation_id, None, None, 0, damaged))

    def _read_request(self, data: bytes) -> Message:
        """Read the head of a request, or all of it if it may have acks=0 or end framing (SaslHandshake v0)."""
        assert self._bodies_of is not None
        api_key = int.from_bytes(data[4:6], "big", signed=True)
        if len(data) < 12 or api_key in self._bodies_of or api_key in (PRODUCE, SASL_HANDSHAKE):
            return read_request(data)
        return read_head(data) or read_request(data)

    def _read_response(self, data: bytes, request: Message) -> Message:
        """Read the head of a response, or all of it if that is needed."""
        assert self._bodies_of is not None
        if request.api_key in self._bodies_of or request.api_key == SASL_HANDSHAKE:
            return read_response(data, request.api_key, request.version)
        return read_head(data, request) or read_response(data, request.api_key, request.version)

    def _take_replacement(self, direction: Direction, frame: Frame) -> bytes | None:
        """Return and forget the frame that was sent in place of this one, if any."""
        offset, sent_frame = self._replacements.pop(direction, (-1, b""))
        return sent_frame if offset == frame.offset else None

    def _forget_lost_requests(self, older_count: int) -> int:
        """Stop tracking older requests whose responses may be lost; return how many of `older_count` remain."""
        while older_count and next(iter(self._in_flight)).offset < self._responses_lost_before:
            self._in_flight.remove(0)  # its response is not late: it may be among the lost bytes
            older_count -= 1
        return older_count

    def _set_raw_sasl(self, active: bool) -> None:
        self._is_raw_sasl = active
        self._update_min_sizes()

    def _update_min_sizes(self) -> None:
        """Set the smallest valid length prefix in both directions; tokens may be empty."""
        self._framers[Direction.REQUEST].min_size = 0 if self._is_raw_sasl else MIN_REQUEST
        self._framers[Direction.RESPONSE].min_size = 0 if self._is_raw_sasl or self._pending_tokens else MIN_RESPONSE

    def _is_plausible_response(self, buffer: bytearray | bytes, pos: int) -> bool:
        """Whether a response to a request in flight may begin at `pos`."""
        return self._in_flight.find(_RESPONSE_HEAD(buffer, pos)[1]) is not None

    def _is_response(self, frame: bytes) -> bool:
        entry = self._in_flight.find(_RESPONSE_HEAD(frame, 0)[1])
        if entry is None:
            return False
        request = entry[1].message
        return _is_fully_decoded(read_response(frame, request.api_key, request.version))


def _token_event(frame: Frame, at: int, direction: Direction) -> TokenReceived:
    return TokenReceived(at, frame.offset, frame.size, direction, bytes(frame.data[4:]), frame.damaged)


def is_plausible_request(buffer: bytearray | bytes, pos: int) -> bool:
    """Whether a request may begin at `pos`: a known API, a plausible version, a printable client id.

    Needs 14 bytes from `pos` on, and checks the part of the client id that is in the buffer.
    """
    size, api_key, version, correlation_id, client_id_size = _REQUEST_HEAD(buffer, pos)
    if not 8 <= size <= MAX_FRAME_BYTES or correlation_id < 0:  # clients count correlation ids up from 0
        return False
    api = schemas.api(api_key)
    if api is None or not api.min_version <= version <= api.max_version + 8:
        return False
    if not -1 <= client_id_size <= min(size - 10, 1024):
        return False
    return all(0x20 <= byte < 0x7F for byte in buffer[pos + 14 : pos + 14 + client_id_size])


def _is_request(frame: bytes) -> bool:
    return len(frame) >= 14 and is_plausible_request(frame, 0) and _is_fully_decoded(read_request(frame))


def _is_fully_decoded(message: Message) -> bool:
    return message.error is None and message.trailing == 0
