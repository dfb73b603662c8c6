"""Pasted packets: the TCP streams in dumps that begin with Ethernet, IP and TCP headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dissectors.connections import addresses
from dissectors.messages.message import read_request
from kproxy.capture.flows import BytesCaptured, Event, Flow
from kproxy.capture.links import LINK_TYPES, Segment, tcp_segment
from kproxy.capture.packet import Packet
from kproxy.capture.tcp import Reassembler


class TcpStreams(NamedTuple):
    """The bytes of each direction in which a connection has any, the client's first.

    `lone_server` has the two addresses if only the server (judging by its port) sent bytes, and they are not a request.
    """

    streams: list[bytes]
    lone_server: tuple[str, str] | None = None


def tcp_connections(pieces: Sequence[bytes]) -> list[TcpStreams] | None:
    """Return the bytes of each connection; None if the pieces are not packets.

    Packets without payload, retransmissions, and packets that are not TCP add nothing. Lost bytes are left out.
    """
    packets = [packet for piece in pieces if (packet := _find_packet(piece)) is not None]
    if not packets:
        return None
    reassembler = Reassembler()
    events: list[Event] = []
    for packet in packets:
        events += reassembler.receive(packet)
    events += reassembler.close()
    connections: dict[Flow, dict[int, bytearray]] = {}
    for event in events:
        if isinstance(event, BytesCaptured):
            streams = connections.setdefault(event.flow, {})
            streams.setdefault(event.direction, bytearray()).extend(event.data)
    return [_streams(flow, streams) for flow, streams in connections.items()]


def _streams(flow: Flow, streams: dict[int, bytearray]) -> TcpStreams:
    payloads = [bytes(streams[direction]) for direction in sorted(streams)]
    if set(streams) != {1} or flow.server[1] >= flow.client[1] or _is_request(payloads[0]):
        return TcpStreams(payloads)
    return TcpStreams(payloads, (addresses.join(*flow.server), addresses.join(*flow.client)))


def _is_request(data: bytes) -> bool:
    return read_request(data[: 4 + int.from_bytes(data[:4], "big")]).well_formed


def _find_packet(data: bytes) -> Packet | None:
    """Return the bytes as a packet of the link type whose headers they begin with; None if there is none.

    A length in the IP header that agrees with the number of bytes distinguishes a packet from a frame.
    """
    for link_type in LINK_TYPES:
        segment = tcp_segment(link_type, data, len(data))
        if isinstance(segment, Segment) and not segment.missing:
            return Packet(0, link_type, data, len(data))
    return None
