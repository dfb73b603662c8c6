"""Detects which TCP flows of a capture carry Kafka and which side is the client; turns them into trace lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from dissectors.connections import addresses, events
from dissectors.connections.connection import is_plausible_request
from dissectors.connections.events import ConnectFailed, ConnectFailure, Direction
from dissectors.connections.protocol_detection import PROXY_V1, PROXY_V2, detect_protocol
from kproxy.capture import BytesCaptured, BytesLost, Event, Flow, FlowEnded, FlowOpened, NameNotFound, SegmentDiffers
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Line

if TYPE_CHECKING:
    from kproxy.capture.tls import TlsDecryptor

#: At most about this many bytes of a flow are buffered until its protocol is known.
MAX_UNDECIDED = 256 << 10

_GAP_REASON = "not in the capture"
_SIDE_NAMES = ("client", "server")
_DIRECTIONS = ((Direction.RESPONSE, Direction.REQUEST), (Direction.REQUEST, Direction.RESPONSE))  # by the server's side
_CONNECT_FAILURES = {"refused": ConnectFailure.REFUSED, "no answer": ConnectFailure.NO_ANSWER}
_MAX_SERVERS = 1000  # servers whose failed connections are counted


_Bytes: TypeAlias = BytesCaptured | BytesLost | SegmentDiffers


@dataclass(slots=True)
class _Flow:
    flow: Flow
    opened_at: int
    server_side: int | None  # index of the server's endpoint, None while unknown
    directions: tuple[Direction, Direction] | None = None  # of the endpoints' data, while it is inspected as it is
    buffered: list[_Bytes] = field(default_factory=list)
    buffered_bytes: int = 0
    inspected: bool = False
    ignored: bool = False
    tls: TlsDecryptor | None = None
    is_tls: bool = False


class Dissector:
    """Turns the events of a `Reassembler` into the lines that a live proxy would have written.

    Args:
        inspector: Makes the lines.
        ports: Kafka's ports. If given, flows on these ports are Kafka, whatever their content, and no other flows are.
            If not, a flow is Kafka if it begins with a plausible request.
        decryptor: Makes a decryptor for a flow that begins with TLS; returns None if there are no keys.

    `other` counts the flows that are not Kafka, by protocol, and `failed` the flows that were never established, by
    server and outcome. `undecrypted` has a sentence for each TLS flow that could not be decrypted.
    """

    def __init__(
        self,
        inspector: Inspector,
        *,
        ports: frozenset[int] = frozenset(),
        decryptor: Callable[[], TlsDecryptor | None] = lambda: None,
    ) -> None:
        self.other: Counter[str] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.undecrypted: list[str] = []
        self.flows = 0
        self._inspector = inspector
        self._ports = ports
        self._decryptor = decryptor
        self._flows: dict[int, _Flow] = {}

    def process(self, event: Event) -> list[Line]:
        """Process one event and return lines that it completes. `flush` returns the remaining lines of all events."""
        if type(event) is BytesCaptured:
            flow_id = event.flow.id
            state = self._flows.get(flow_id)
            if state is None or state.ignored:
                return []
            if (directions := state.directions) is None:
                return self._receive(state, event)
            return self._inspector.receive(flow_id, directions[event.direction], event.data, at=event.at)
        if isinstance(event, FlowOpened):
            self._open(event)
            return []
        if isinstance(event, NameNotFound):
            failure = ConnectFailed(event.at, _address(event.client), event.name, ConnectFailure.NAME_NOT_FOUND)
            return self._inspector.connect_failed(0, failure, since=event.at)
        state = self._flows.get(event.flow.id)
        if state is None:
            return []
        if isinstance(event, FlowEnded):
            return self._end(state, event)
        if state.ignored:
            return []
        if state.inspected and state.tls is None:
            return self._inspect(state, event)
        return self._receive(state, event)

    def flush(self) -> list[Line]:
        """Return the remaining lines of the events so far. One call for several events is faster than one for each."""
        return self._inspector.flush()

    def drop(self, event: Event) -> list[Line]:
        """Ignore the rest of the flow of this event."""
        if isinstance(event, NameNotFound):
            return []
        state = self._flows.pop(event.flow.id, None)
        if state is None or not state.inspected:
            return []
        return self._inspector.close(state.flow.id, at=event.at, how="internal error")

    def _open(self, event: FlowOpened) -> None:
        flow = event.flow
        sides = [side for side, endpoint in enumerate(flow.endpoints) if endpoint[1] in self._ports]
        server: int | None = None
        if sides:
            # If both ends use a Kafka port, rely on the handshake, or on the guess.
            server = 1 if 1 in sides else 0
        elif self._ports:
            return
        elif not flow.midstream:
            server = 1
        self._flows[flow.id] = _Flow(flow, event.at, server)

    def _receive(self, state: _Flow, event: _Bytes) -> list[Line]:
        """Process data of an encrypted flow, or of a flow whose protocol is unknown."""
        if isinstance(event, SegmentDiffers):  # with TLS, the encrypted bytes differ
            if not state.inspected:
                if state.buffered_bytes > MAX_UNDECIDED:
                    return []
                state.buffered_bytes += event.size
            return self._classify(state, event)
        if isinstance(event, BytesCaptured) and not state.is_tls and not _has_data(state.buffered):
            detected = detect_protocol(event.data[:16])
            if detected and detected.protocol == "TLS":
                state.is_tls = True
                state.tls = self._decryptor()
        if state.tls is not None:
            return self._decrypt(state, event)
        return self._classify(state, event)

    def _decrypt(self, state: _Flow, event: BytesCaptured | BytesLost) -> list[Line]:
        assert state.tls is not None
        if isinstance(event, BytesLost):
            state.tls = None  # the cipher cannot continue without these bytes
            return self._classify(state, event)
        lines: list[Line] = []
        for direction, plaintext in state.tls.receive_data(event.direction, event.data):
            decrypted = BytesCaptured(event.flow, direction, event.at, plaintext)
            lines += self._inspect(state, decrypted) if state.inspected else self._classify(state, decrypted)
        return lines

    def _classify(self, state: _Flow, event: _Bytes) -> list[Line]:
        """Buffer data until it is known whether the flow is Kafka."""
        if state.inspected:
            return self._inspect(state, event)
        state.buffered.append(event)
        if not isinstance(event, BytesCaptured):
            return []
        state.buffered_bytes += len(event.data)
        is_kafka = self._detect_kafka(state, event)
        if is_kafka is None and state.buffered_bytes > MAX_UNDECIDED:
            is_kafka = False
        if is_kafka is None:
            return []
        if not is_kafka:
            self._ignore(state)
            return []
        return self._start_inspection(state)

    def _detect_kafka(self, state: _Flow, event: BytesCaptured) -> bool | None:
        """Return whether the flow is Kafka, None while unknown; set the server's side."""
        if self._ports:
            return True
        start = event.data[:64]
        if not state.flow.midstream:
            if event.direction != 0:
                return None if detect_protocol(start) is None else False
            client_data = b"".join(
                buffered.data
                for buffered in state.buffered
                if isinstance(buffered, BytesCaptured) and buffered.direction == 0
            )
            if len(client_data) < 14:
                return None
            return client_data.startswith((PROXY_V1, PROXY_V2)) or is_plausible_request(client_data, 0)
        # In the middle of a stream, most segments begin with a frame.
        if len(start) >= 14 and is_plausible_request(start, 0):
            state.server_side = 1 - event.direction
            return True
        return None

    def _start_inspection(self, state: _Flow) -> list[Line]:
        """Start inspecting a flow, beginning with the buffered data."""
        if state.server_side is None:
            state.server_side = 1
        client, server = state.flow.endpoints[1 - state.server_side], state.flow.endpoints[state.server_side]
        state.inspected = True
        self.flows += 1
        lines = self._inspector.open(
            state.flow.id,
            _address(client),
            _address(server),
            at=state.opened_at,
            tls=state.tls is not None,
            midstream=state.flow.midstream and state.tls is None,
        )
        for buffered in state.buffered:
            lines += self._inspect(state, buffered)
        state.buffered.clear()
        if state.tls is None:
            state.directions = _DIRECTIONS[state.server_side]
        return lines

    def _inspect(self, state: _Flow, event: _Bytes) -> list[Line]:
        assert state.server_side is not None
        direction = _DIRECTIONS[state.server_side][event.direction]
        if isinstance(event, BytesCaptured):
            return self._inspector.receive_data(state.flow.id, direction, event.data, at=event.at)
        if isinstance(event, SegmentDiffers):
            difference = events.BytesDiffer(direction, event.offset, event.at, event.size, event.differing)
            return self._inspector.bytes_differ(state.flow.id, difference)
        return self._inspector.lose(state.flow.id, direction, event.size, at=event.at, reason=_GAP_REASON)

    def _ignore(self, state: _Flow) -> None:
        data = next((buffered.data for buffered in state.buffered if isinstance(buffered, BytesCaptured)), b"")
        detected = detect_protocol(data[:64])
        name = "TLS" if state.is_tls else detected.protocol if detected else "unknown"
        self.other[name] += 1
        state.ignored = True
        state.buffered.clear()

    def _end(self, state: _Flow, event: FlowEnded) -> list[Line]:
        del self._flows[state.flow.id]
        if state.tls is not None and state.tls.problem and len(self.undecrypted) < 1000:
            self.undecrypted.append(state.tls.problem)
        lines: list[Line] = []
        if event.how in _CONNECT_FAILURES:
            return self._report_failure(state, event)
        if not state.inspected and not state.ignored:
            if not state.buffered:
                return lines  # without data, the protocol is unknown
            if not self._ports:
                self._ignore(state)
                return lines
            lines += self._start_inspection(state)
        if state.inspected:
            by = None if event.by is None else _SIDE_NAMES[event.by if state.server_side == 1 else 1 - event.by]
            unacknowledged = None
            if event.unacknowledged is not None:
                direction, times = event.unacknowledged
                is_request = direction != state.server_side
                unacknowledged = Direction.REQUEST if is_request else Direction.RESPONSE, times
            lines += self._inspector.close(
                state.flow.id, at=event.at, by=by, how=event.how, unacknowledged=unacknowledged
            )
        return lines

    def _report_failure(self, state: _Flow, event: FlowEnded) -> list[Line]:
        """Count a connection that was never established, and return its lines."""
        client, server = map(_address, state.flow.endpoints)
        if len(self.failed) < _MAX_SERVERS:
            self.failed[server, event.how] += 1
        failure = ConnectFailed(event.at, client, server, _CONNECT_FAILURES[event.how], event.attempts)
        return self._inspector.connect_failed(
            state.flow.id, failure, since=state.opened_at, is_kafka_address=bool(self._ports)
        )


def _has_data(buffered: list[_Bytes]) -> bool:
    """Whether the first bytes of a flow were captured or lost."""
    return any(not isinstance(event, SegmentDiffers) for event in buffered)


def _address(endpoint: tuple[str, int]) -> str:
    host, port = endpoint
    return addresses.join(host, port)
