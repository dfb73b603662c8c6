"""Puts the packets of a capture together into TCP byte streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kproxy.capture.flows import Data, Ended, Event, Flow, How, Opened
from kproxy.capture.halves import WRAP, Half
from kproxy.capture.links import ACK, FIN, RST, SYN, Segment, endpoints, reverse, tcp_segment
from kproxy.capture.packet import Packet

#: A sequence number further off belongs to another connection: no window that Kafka or a system sets is this large.
_FAR = 1 << 26


class _Connection:
    """The state of one flow; `in_step` while nothing is out of order, begun, or ending."""

    __slots__ = ("closed_by", "ended", "flow", "halves", "in_step", "keys", "last_at")

    def __init__(self, flow: Flow, keys: tuple[bytes, bytes]) -> None:
        self.flow = flow
        self.keys = keys
        self.halves = (Half(flow, 0), Half(flow, 1))
        self.last_at = 0
        self.in_step = False
        self.ended = False
        self.closed_by: int | None = None


class Reassembler:
    """Feed it packets in the order of the capture; it returns what they completed.

    Both directions keep the order of the capture, except that data after a gap waits: until the gap fills, until the
    other side acknowledges beyond it (then the capture lacks it, and it is `Lost`), until too much waits, or until
    the flow ends. Retransmissions, and packets captured twice, are dropped; of two versions of a byte the first wins.

    Args:
        max_flows: When more are known, those unheard of for longest end, first of all those that have ended anyway.
        max_waiting: Bytes that one direction may keep behind gaps.
        max_waiting_total: Bytes that all may keep; the oldest gap is given up first.

    `skipped` counts packets that led to no flow, by reason.
    """

    def __init__(
        self, *, max_flows: int = 16_384, max_waiting: int = 4 << 20, max_waiting_total: int = 32 << 20
    ) -> None:
        self.skipped: Counter[str] = Counter()
        self._max_flows = max_flows
        self._max_waiting = max_waiting
        self._max_waiting_total = max_waiting_total
        self._senders: dict[bytes, tuple[_Connection, Half, Half]] = {}
        self._gaps: dict[Half, int] = {}  # waiting bytes by half, the oldest gap first
        self._waiting_total = 0
        self._flows_seen = 0

    def receive(self, packet: Packet) -> Sequence[Event]:
        """Take the next packet; never raises on what is in it."""
        at, link_type, data, wire_length = packet
        segment = tcp_segment(link_type, data, wire_length)
        if segment.__class__ is str:
            self.skipped[segment] += 1
            return ()
        key, sequence, ack, flags, payload, missing = segment
        sender = self._senders.get(key)
        if sender is None: ...
