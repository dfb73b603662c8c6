"""Pasted packets: the TCP streams in dumps that begin with Ethernet, IP and TCP headers."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.capture.flows import BytesCaptured, Event
from kproxy.capture.links import LINK_TYPES, Segment, tcp_segment
from kproxy.capture.packet import Packet
from kproxy.capture.tcp import Reassembler


def tcp_connections(pieces: Sequence[bytes]) -> list[list[bytes]] | None:
    """For each connection the bytes of its directions, the client's first if known; None if the pieces are no packets.

    Packets without payload, retransmissions, and packets that are not TCP add nothing. Lost bytes are left out.
    """
    packets = [packet for piece in pieces if (packet := _packet(piece)) is not None]
    if not packets:
        return None
    reassembler = Reassembler()
    events: list[Event] = []
    for packet in packets:
        events += reassembler.receive(packet)
    events += reassembler.close()
    connections: dict[int, dict[int, bytearray]] = {}
    for event in events:
        if isinstance(event, BytesCaptured):
            streams = connections.setdefault(event.flow.id, {})
            streams.setdefault(event.direction, bytearray()).extend(event.data)
    return [[bytes(streams[direction]) for direction in sorted(streams)] for streams in connections.values()]


def _packet(data: bytes) -> Packet | None:
    """The packet, with the link layer whose headers the bytes have; None if they have none.

    A length in the IP header that agrees with the number of bytes tells a packet from a frame.
    """
    for link_type in LINK_TYPES:
        segment = tcp_segment(link_type, data, len(data))
        if isinstance(segment, Segment) and not segment.missing:
            return Packet(0, link_type, data, len(data))
    return None
