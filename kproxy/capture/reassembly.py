"""Reassembles one direction of a TCP connection from segments in any order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from kproxy.capture.flows import BytesCaptured, BytesLost, Event, Flow, SegmentDiffers, Unacknowledged
from kproxy.capture.links import FIN, SYN, Segment
from kproxy.capture.recent_bytes import RecentBytes, delivered_since, difference

#: Position, bytes, and the number of bytes after them that were not captured.
Piece: TypeAlias = tuple[int, bytes, int]

WRAP = 0xFFFF_FFFF
_HALF_WRAP = 0x8000_0000
_PIECE_COST = 200  # memory in bytes that a waiting piece needs besides its payload
_position = itemgetter(0)


class TcpStream:
    """The bytes that one side has sent.

    Positions are sequence numbers that do not wrap. `start` is the position of the first byte, None while unknown;
    `next` is the position of the next byte to deliver, `fin` the position of the end. `acked` is the last sequence
    number that the other side acknowledged. `resent` is the position of the bytes that were retransmitted last, and
    `times` how often that happened since the other side was last seen. `waiting` has the pieces after a gap, sorted and
    without overlap. `recent` and `older` have the payloads before `next` that `RecentBytes` still keeps, and the
    numbers of lost bytes between them.
    """

    __slots__ = (
        "acked",
        "direction",
        "fin",
        "flow",
        "kept",
        "next",
        "older",
        "recent",
        "resent",
        "start",
        "times",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, flow: Flow, direction: int, recent_bytes: RecentBytes) -> None:
        self.flow = flow
        self.kept = recent_bytes
        self.recent: list[bytes | int] | None = None
        self.older: list[bytes | int] | None = None
        self.direction = direction
        self.start: int | None = None
        self.next = 0
        self.fin: int | None = None
        self.acked: int | None = None
        self.resent = -1
        self.times = 0
        self.waiting: list[Piece] = []
        self.waiting_bytes = 0

    def position(self, sequence: int) -> int:
        """Return the position of a sequence number: the one nearest to the next byte."""
        return self.next + ((sequence - self.next + _HALF_WRAP) & WRAP) - _HALF_WRAP

    @property
    def in_order(self) -> bool:
        """Whether the next byte is known, and there was no gap, no FIN and no needless retransmission."""
        return self.start is not None and not self.waiting and self.fin is None and not self.times

    @property
    def finished(self) -> bool:
        """Whether all bytes up to the FIN were delivered."""
        return self.fin is not None and self.next >= self.fin

    @property
    def unacknowledged(self) -> Unacknowledged | None:
        """The bytes that were retransmitted until the end; None if there are none, or if one packet is missing."""
        if self.acked is None or not self.times or self.position(self.acked) > self.resent:
            return None
        return Unacknowledged(self.direction, self.times + 1)

    def receive(self, segment: Segment, at: int, events: list[Event]) -> None:
        """Process a segment from this side, in any order. It must not be a reset."""
        _, sequence, _, flags, payload, missing = segment
        if flags & SYN:
            sequence = (sequence + 1) & WRAP
            if self.start is None:
                self._begin(sequence)
        has_fin = flags & FIN
        if not (payload or missing or has_fin):
            return
        if self.start is None:  # midstream: the first segment may be a keep-alive or retransmission of earlier bytes
            bytes_behind = 0 if self.acked is None else (self.acked - sequence) & WRAP
            self._begin(sequence + bytes_behind if bytes_behind < _HALF_WRAP else sequence)
        position = self.position(sequence)
        if self.fin is None or position < self.fin:
            self._add((position, payload, missing), at, events)
        if has_fin and self.fin is None:
            self.fin = position + len(payload) + missing
        self._skip_received(at, events)

    def acknowledge(self, acked: int, at: int, events: list[Event]) -> None:
        """Process an acknowledgement from the other side: the sequence number that it expects next."""
        self.acked = acked
        self.times = 0  # even if it acknowledges nothing new: the other side is alive, perhaps with a full buffer
        if self.start is not None:
            self._skip_received(at, events)
        elif not self.flow.midstream:  # the SYN was not captured: this is the first byte after it
            self._begin(acked)

    def skip_gap(self, at: int, events: list[Event]) -> None:
        """Report the bytes before the first waiting piece as lost."""
        self._lose_up_to(self.waiting[0][0], at, events)
        self._deliver_waiting(at, events)

    def finish(self, at: int, events: list[Event]) -> None:
        """End this direction: deliver all waiting pieces, and report missing bytes as lost."""
        while self.waiting:
            self.skip_gap(at, events)
        if self.fin is not None:
            self._lose_up_to(self.fin, at, events)
        elif self.start is not None and self.acked is not None:
            self._lose_up_to(self.position(self.acked), at, events)

    def _begin(self, position: int) -> None:
        self.start = self.next = position

    def _skip_received(self, at: int, events: list[Event]) -> None:
        """Report gaps that the other side has acknowledged: these bytes arrived there, so the capture lacks them.

        Only gaps that are followed by captured data are reported: otherwise the packets may still arrive.
        """
        if self.acked is None:
            return
        acked = self.position(self.acked)
        while self.waiting and acked >= self.waiting[0][0]:
            self.skip_gap(at, events)
        if not self.waiting and self.fin is not None and acked > self.fin:
            self._lose_up_to(self.fin, at, events)

    def _lose_up_to(self, position: int, at: int, events: list[Event]) -> None:
        if position > self.next:
            self._lose(position - self.next, at, events)

    def _lose(self, size: int, at: int, events: list[Event]) -> None:
        events.append(BytesLost(self.flow, self.direction, at, size))
        self.kept.keep(self, size)
        self.next += size

    def _add(self, piece: Piece, at: int, events: list[Event]) -> None:
        if piece[0] < self.next or self.waiting:
            self._report_differences(piece, at, events)
        if piece[0] < self.next:
            self.times = self.times + 1 if piece[0] == self.resent else 1
            self.resent = piece[0]
            piece = _cut(piece, self.next, None)
        position, payload, missing = piece
        if position == self.next and not self.waiting:
            self._deliver(payload, missing, at, events)
        elif payload or missing:
            self._store(piece)
            self._deliver_waiting(at, events)

    def _report_differences(self, piece: Piece, at: int, events: list[Event]) -> None:
        """Report bytes that differ from an earlier copy."""
        position, payload, _ = piece
        if len(payload) <= 1:  # probably a keep-alive probe, whose byte is arbitrary (RFC 1122, 4.2.3.6)
            return
        waiting = self.waiting
        index = max(bisect_right(waiting, position, key=_position) - 1, 0)
        stop = bisect_left(waiting, position + len(payload), key=_position)
        earlier = chain(delivered_since(self, position), (waiting[index][:2] for index in range(index, stop)))
        conflicts = [conflict for copy in earlier if (conflict := difference(*copy, position, payload))]
        if conflicts:
            assert self.start is not None
            offset, differing = min(conflicts)[0] - self.start, sum(count for _, count in conflicts)
            events.append(SegmentDiffers(self.flow, self.direction, at, offset, len(payload), differing))

    def _store(self, new_piece: Piece) -> None:
        waiting = self.waiting
        position, end = new_piece[0], _end_position(new_piece)
        index = bisect_right(waiting, position, key=_position)
        if index:
            position = max(position, _end_position(waiting[index - 1]))
        while position < end:
            limit = min(end, waiting[index][0]) if index < len(waiting) else end
            if position < limit:
                piece = _cut(new_piece, position, limit)
                waiting.insert(index, piece)
                self.waiting_bytes += len(piece[1]) + _PIECE_COST
                index += 1
            if index == len(waiting):
                break
            position = max(position, _end_position(waiting[index]))
            index += 1

    def _deliver_waiting(self, at: int, events: list[Event]) -> None:
        delivered = 0
        for position, payload, missing in self.waiting:
            if position != self.next:
                break
            self._deliver(payload, missing, at, events)
            self.waiting_bytes -= len(payload) + _PIECE_COST
            delivered += 1
        del self.waiting[:delivered]

    def _deliver(self, payload: bytes, missing: int, at: int, events: list[Event]) -> None:
        if payload:
            events.append(BytesCaptured(self.flow, self.direction, at, payload))
            self.kept.keep(self, payload)
            self.next += len(payload)
            self.times = 0
        if missing:
            self._lose(missing, at, events)


def _end_position(piece: Piece) -> int:
    position, payload, missing = piece
    return position + len(payload) + missing


def _cut(piece: Piece, start: int, end: int | None) -> Piece:
    """Return the part of a piece from position `start` up to `end`."""
    position, payload, _ = piece
    stop = _end_position(piece) if end is None else end
    if stop <= start:
        return start, b"", 0
    cut_payload = payload[start - position : stop - position]
    return start, cut_payload, stop - start - len(cut_payload)
