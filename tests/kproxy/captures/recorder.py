"""Convert stories to capture files: a recorder receives the inspector's input and builds packets from it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from dissectors.connections.events import ConnectFailed, ConnectFailure, Direction
from kproxy.capture import Packet
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Line
from tests.kproxy.capture.packets import ACK, FIN_ACK, RST_ACK, SYN, SYN_ACK, ethernet, ipv4, packet, pcap, tcp
from tests.kproxy.stories import StoryPlayer


@dataclass
class _Flow:
    """A TCP connection: its endpoints, client first, and the next sequence number of each endpoint."""

    endpoints: tuple[tuple[bytes, int], tuple[bytes, int]]
    next_seqs: list[int] = field(default_factory=lambda: [1000, 2000])
    #: The time and the bytes that each endpoint sent last.
    last_data: list[tuple[int, bytes]] = field(default_factory=lambda: [(0, b""), (0, b"")])


class Recorder(Inspector):
    """A stand-in for the inspector; `packets` holds the packets that a sniffer would have captured."""

    def __init__(self) -> None:
        super().__init__("capture")
        self.packets: list[Packet] = []
        self._flows: dict[int, _Flow] = {}

    def open(
        self,
        number: int,
        client: str,
        server: str,
        *,
        at: int,
        listener: str | None = None,
        tls: bool = False,
        midstream: bool = False,
    ) -> list[Line]:
        """Add the handshake of a connection."""
        self._flows[number] = _Flow((_endpoint(client), _endpoint(server)))
        self._send(number, 0, at, flags=SYN)
        self._send(number, 1, at, flags=SYN_ACK)
        self._send(number, 0, at)
        return []

    def tick(self, *, at: int) -> list[Line]:
        """Do nothing: the time of a capture is that of its packets."""
        return []

    def receive_data(self, number: int, direction: Direction, data: bytes, *, at: int) -> list[Line]:
        """Add the data as one packet, because stories are short."""
        self._send(number, int(direction is Direction.RESPONSE), at, data)
        return []

    def close(
        self,
        number: int,
        *,
        at: int,
        by: str | None = None,
        how: str | None = None,
        unacknowledged: tuple[Direction, int] | None = None,
    ) -> list[Line]:
        """Add the FINs of both sides or the reset of one, preceded by retransmissions of the last bytes."""
        if unacknowledged is not None:
            direction, times = unacknowledged
            self._retransmit(number, int(direction is Direction.RESPONSE), times - 1, until=at)
        side = int(by == "server")
        self._send(number, side, at, flags=RST_ACK if how == "reset" else FIN_ACK)
        if how != "reset":
            self._send(number, 1 - side, at, flags=FIN_ACK)
        return []

    def connect_failed(
        self, number: int, failed: ConnectFailed, *, since: int, is_kafka_address: bool = False
    ) -> list[Line]:
        """Add the SYN, followed by the reset that answers it or by a second SYN."""
        self._flows[number] = _Flow((_endpoint(failed.client), _endpoint(failed.server)))
        self._send(number, 0, since, flags=SYN)
        if failed.reason is ConnectFailure.REFUSED:
            self._send(number, 1, failed.at, flags=RST_ACK)
        else:
            self._flows[number].next_seqs[0] -= 1
            self._send(number, 0, failed.at, flags=SYN)
        return []

    def _send(self, number: int, side: int, at: int, payload: bytes = b"", *, flags: int = ACK) -> None:
        flow = self._flows[number]
        (source, source_port), (destination, destination_port) = flow.endpoints[side], flow.endpoints[1 - side]
        ack = 0 if flags == SYN else flow.next_seqs[1 - side]
        segment = tcp(source_port, destination_port, flow.next_seqs[side], payload, ack=ack, flags=flags)
        flow.next_seqs[side] += len(payload) + (flags in (SYN, SYN_ACK, FIN_ACK))
        if payload:
            flow.last_data[side] = at, payload
        self.packets.append(packet(ethernet(ipv4(segment, source=source, destination=destination)), at=at))

    def _retransmit(self, number: int, side: int, count: int, *, until: int) -> None:
        flow = self._flows[number]
        since, payload = flow.last_data[side]
        for attempt in range(1, count + 1):
            flow.next_seqs[side] -= len(payload)
            self._send(number, side, since + (until - since) * attempt // (count + 1), payload)


def record_story(story: str) -> bytes:
    """Return the capture file of a story; the same story always yields the same bytes."""
    recorder = Recorder()
    StoryPlayer(recorder).play(story)
    return pcap(recorder.packets)


def _endpoint(address: str) -> tuple[bytes, int]:
    host, _, port = address.rpartition(":")
    return ipaddress.ip_address(host).packed, int(port)
