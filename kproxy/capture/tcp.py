"""Reassembles the packets of a capture into TCP byte streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import TypeAlias

from kproxy.capture.flows import BytesCaptured, Event, Flow, FlowEnded, FlowOpened, How
from kproxy.capture.links import (
    ACK,
    ETHERNET,
    FIN,
    IPV4,
    NOT_TCP,
    RST,
    SYN,
    TCP,
    USUAL,
    Segment,
    endpoints,
    reverse,
    tcp_segment,
)
from kproxy.capture.names import name_not_found
from kproxy.capture.packet import MAX_PACKET_BYTES, Packet
from kproxy.capture.reassembly import WRAP, TcpStream
from kproxy.capture.recent_bytes import PAYLOAD_COST, RecentBytes

#: A sequence number farther away than this belongs to another connection: no TCP window is this large.
_MAX_DISTANCE = 1 << 26

#: The first three bytes of a usual packet's first number; the fourth is the type of service.
_IPV4_WITHOUT_OPTIONS = IPV4 << 8 | 0x45
#: Selects the fragment and the protocol of IPv4, which has 0 and `TCP` there if the packet is whole.
_FRAGMENT_AND_PROTOCOL = 0x3FFF_00FF
#: Selects the size of the TCP header, and flags of which a data segment on an open connection has only ACK.
_SIZE_AND_FLAGS = 0xF000 | ACK | FIN | RST | SYN
#: By the selected bits of a segment with ACK: where its data begins, in the packet.
_DATA_STARTS = {words << 12 | ACK: 34 + 4 * words for words in range(5, 16)}


class _Connection:
    """The state of a flow. `in_order` is set while both directions have started and have no gap or FIN.

    `attempts` counts the client's SYNs until the connection is established, then it is 0.
    """

    __slots__ = ("attempts", "closed_by", "ended", "flow", "in_order", "keys", "last_at", "streams")

    def __init__(self, flow: Flow, keys: tuple[bytes, bytes], recent_bytes: RecentBytes) -> None:
        self.flow = flow
        self.keys = keys
        self.streams = (TcpStream(flow, 0, recent_bytes), TcpStream(flow, 1, recent_bytes))
        self.last_at = 0
        self.attempts = 0
        self.in_order = False
        self.ended = False
        self.closed_by: int | None = None


#: A connection, the stream that sends the segments with a certain key, and the other stream.
_Sender: TypeAlias = tuple[_Connection, TcpStream, TcpStream]


class Reassembler:
    """Turns packets, in the order of the capture, into events of TCP flows.

    Data after a gap waits until the gap is filled, until the other side acknowledges data after it (then the capture
    lacks it: `BytesLost`), until a limit is reached, or until the flow ends. Retransmissions and packets captured twice
    are dropped; if two versions of a byte differ, the first one counts, and the conflict is reported (`SegmentDiffers`)
    if the first one is still kept.

    Args:
        max_flows: Above this number, an eighth of the flows is evicted: ended ones first, then the least recent.
        max_waiting: Limit for bytes after gaps in one direction.
        max_waiting_total: Limit for bytes after gaps in all flows. The oldest gap is reported as lost first.
        max_recent: Limit for delivered bytes of all flows that are kept to compare retransmissions with.
        flow_ids: Ids of the flows in the order of their start; by default from 0.

    `skipped` counts packets that could not be used, by reason.
    """

    def __init__(
        self,
        *,
        max_flows: int = 16_384,
        max_waiting: int = 4 << 20,
        max_waiting_total: int = 32 << 20,
        max_recent: int = 8 << 20,
        flow_ids: Iterator[int] | None = None,
    ) -> None:
        self.skipped: Counter[str] = Counter()
        self._max_flows = max_flows
        self._max_waiting = max_waiting
        self._max_waiting_total = max_waiting_total
        self._connections: dict[_Connection, None] = {}
        self._senders: dict[bytes, _Sender] = {}
        self._gaps: dict[TcpStream, int] = {}  # stream -> its waiting bytes, the oldest gap first
        self._waiting_total = 0
        self._recent = RecentBytes(max_recent)
        self._flow_ids = count() if flow_ids is None else flow_ids

    def receive(self, packet: Packet) -> list[Event]:
        """Process the next packet. Never raises, whatever its content."""
        events: list[Event] = []
        at, link_type, data, wire_length = packet
        self.receive_all(link_type, data, iter([(at, 0, len(data), wire_length)]), events)
        return events

    def receive_all(
        self, link_type: int, data: bytes, packets: Iterator[tuple[int, int, int, int]], events: list[Event]
    ) -> None:
        """Process the next packets of a `PacketBlock`, and add their events to `events`.

        The usual packet, which continues its direction, is handled in the loop itself: a call or a copy of the packet
        would double the time.
        """
        unpack, find_start, find_sender = USUAL.unpack_from, _DATA_STARTS.get, self._senders.get
        recent, add_event, kept_bytes = self._recent, events.append, 0
        usual_bytes = USUAL.size if link_type == ETHERNET else MAX_PACKET_BYTES + 1
        try:
            for at, start, end, wire_length in packets:
                if end - start >= usual_bytes:
                    kind, length, protocol, key, sequence, ack, size_and_flags = unpack(data, start)
                    if (
                        kind >> 8 == _IPV4_WITHOUT_OPTIONS
                        and protocol & _FRAGMENT_AND_PROTOCOL == TCP
                        and (data_start := find_start(size_and_flags & _SIZE_AND_FLAGS)) is not None
                        and (payload_start := start + data_start) <= (payload_end := start + 14 + length) <= end
                        and (sender := find_sender(key)) is not None
                    ):
                        connection, stream, peer = sender
                        position = stream.next
                        if connection.in_order and sequence == position & WRAP:
                            connection.last_at = at
                            peer.acked = ack
                            if payload_start < payload_end:
                                payload = data[payload_start:payload_end]
                                add_event(BytesCaptured(stream.flow, stream.direction, at, payload))
                                (stream.recent or recent.begin(stream)).append(payload)
                                stream.next = position + payload_end - payload_start
                                kept_bytes += payload_end - payload_start + PAYLOAD_COST
                            continue
                events += self._receive_unusual(Packet(at, link_type, data[start:end], wire_length))
        finally:
            recent.count(kept_bytes)

    def close(self) -> Iterator[Event]:
        """End the capture: deliver waiting data and end all flows."""
        at = max((connection.last_at for connection in self._connections), default=0)
        while self._connections:
            events: list[Event] = []
            self._forget(next(iter(self._connections)), at, "end of capture", events)
            yield from events

    def _receive_unusual(self, packet: Packet) -> list[Event]:
        segment = tcp_segment(packet.link_type, packet.data, packet.wire_length)
        if not isinstance(segment, str):
            return self._receive_segment(segment, packet.at)
        self.skipped[segment] += 1
        not_found = name_not_found(packet) if segment == NOT_TCP else None
        return [] if not_found is None else [not_found]

    def _receive_segment(self, segment: Segment, at: int) -> list[Event]:
        events: list[Event] = []
        sender = self._senders.get(segment.key)
        if sender is not None and _is_new_connection(segment, sender):
            self._forget(sender[0], at, "replaced", events)
            sender = None
        flags, has_payload = segment.flags, bool(segment.payload or segment.missing)
        if sender is None:
            if flags & RST or not (flags & SYN or has_payload):
                return events
            sender = self._open(segment, at, events)
        connection, stream, peer = sender
        if connection.ended:
            if has_payload:
                self.skipped["data after the end of its connection"] += 1
            return events
        connection.last_at = at
        if flags & (SYN | ACK | RST) == SYN:
            connection.attempts += 1
        elif not flags & RST:
            connection.attempts = 0
        if flags & ACK:
            peer.acknowledge(segment.ack, at, events)
        if flags & RST:
            if connection.attempts and stream is connection.streams[1]:
                self._end(connection, at, "refused", stream.direction, events)
            elif stream.start is None or abs(stream.position(segment.seq) - stream.next) <= _MAX_DISTANCE:
                self._end(connection, at, "reset", stream.direction, events)
            return events
        stream.receive(segment, at, events)
        if stream.fin is not None and connection.closed_by is None:
            connection.closed_by = stream.direction
        self._enforce_limits(stream, peer, at, events)
        if stream.finished and peer.finished:
            self._end(connection, at, "fin", connection.closed_by, events)
        connection.in_order = not connection.ended and stream.in_order and peer.in_order
        return events

    def _open(self, segment: Segment, at: int, events: list[Event]) -> _Sender:
        if len(self._connections) >= self._max_flows:
            oldest_first = sorted(self._connections, key=lambda candidate: (not candidate.ended, candidate.last_at))
            for connection in oldest_first[: self._max_flows // 8 + 1]:
                self._forget(connection, at, "timeout", events)
        key = segment.key
        has_syn = bool(segment.flags & SYN)
        if has_syn:
            is_from_client = not segment.flags & ACK
        else:
            (_, source_port), (_, destination_port) = endpoints(key)
            is_from_client = source_port >= destination_port  # clients usually have the higher port
        keys = (key, reverse(key)) if is_from_client else (reverse(key), key)
        flow = Flow(next(self._flow_ids), endpoints(keys[0]), midstream=not has_syn)
        connection = _Connection(flow, keys, self._recent)
        client, server = connection.streams
        self._connections[connection] = None
        self._senders[keys[0]] = (connection, client, server)
        self._senders[keys[1]] = (connection, server, client)
        events.append(FlowOpened(flow, at))
        return self._senders[key]

    def _enforce_limits(self, stream: TcpStream, peer: TcpStream, at: int, events: list[Event]) -> None:
        """Enforce the limits for waiting bytes."""
        while stream.waiting_bytes > self._max_waiting:
            stream.skip_gap(at, events)
        self._count_waiting(stream)
        self._count_waiting(peer)
        while self._waiting_total > self._max_waiting_total:
            oldest = next(iter(self._gaps))
            oldest.skip_gap(at, events)
            self._count_waiting(oldest)

    def _count_waiting(self, stream: TcpStream) -> None:
        self._waiting_total += stream.waiting_bytes - self._gaps.get(stream, 0)
        if stream.waiting_bytes:
            self._gaps[stream] = stream.waiting_bytes
        else:
            self._gaps.pop(stream, None)

    def _end(self, connection: _Connection, at: int, how: How, by: int | None, events: list[Event]) -> None:
        """End a flow. It is still remembered, so that late packets do not open a new one."""
        if connection.ended:
            return
        for stream in connection.streams:
            stream.finish(at, events)
            self._count_waiting(stream)
        connection.ended = True
        connection.in_order = False
        if connection.attempts > 1 and how != "refused":
            how = "no answer"
        unacknowledged = next(
            (resent_bytes for stream in connection.streams if (resent_bytes := stream.unacknowledged)), None
        )
        events.append(FlowEnded(connection.flow, at, how, by, connection.attempts, unacknowledged))

    def _forget(self, connection: _Connection, at: int, how: How, events: list[Event]) -> None:
        self._end(connection, at, how, None, events)
        del self._connections[connection]
        for key in connection.keys:
            self._senders.pop(key, None)  # both keys are equal if a socket is connected to itself


def _is_new_connection(segment: Segment, sender: _Sender) -> bool:
    """Whether a segment starts a new connection with the same addresses and ports."""
    connection, stream, _ = sender
    if segment.flags & SYN:
        if stream.start is None:
            return not segment.flags & ACK
        return stream.start & WRAP != (segment.seq + 1) & WRAP
    if segment.flags & RST or stream.start is None or not (segment.payload or segment.missing):
        return False
    distance = stream.position(segment.seq) - stream.next
    return distance < -_MAX_DISTANCE or (connection.ended and distance > _MAX_DISTANCE)
