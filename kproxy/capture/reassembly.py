"""One direction of a TCP connection: segments in any order become bytes in order."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TypeAlias

from kproxy.capture.flows import BytesCaptured, BytesLost, Event, Flow
from kproxy.capture.links import FIN, SYN, Segment

#: Position, bytes, and how many after them were not captured.
Piece: TypeAlias = tuple[int, bytes, int]

WRAP = 0xFFFF_FFFF
_HALF_WRAP = 0x8000_0000
_PIECE_COST = 200  # bytes of memory that a waiting piece takes beside its payload
_position = itemgetter(0)


class Half:
    """What one side has sent.

    Positions are sequence numbers that do not wrap. `start` is the position of the first byte, None before any is
    known; `next` that of the next byte to hand on; `fin` that of the end. `acked` is the last sequence number that
    the other side is known to expect. `waiting` holds pieces after a gap, sorted, without overlap.
    """

    __slots__ = ("acked", "direction", "fin", "flow", "next", "start", "waiting", "waiting_bytes")

    def __init__(self, flow: Flow, direction: int) -> None:
        self.flow = flow
        self.direction = direction
        self.start: int | None = None
        self.next = 0
        self.fin: int | None = None
        self.acked: int | None = None
        self.waiting: list[Piece] = []
        self.waiting_bytes = 0

    def position(self, sequence: int) -> int:
        """Unwrap a sequence number: the position nearest to the next byte."""
        return self.next + ((sequence - self.next + _HALF_WRAP) & WRAP) - _HALF_WRAP

    @property
    def in_step(self) -> bool:
        """Whether the next byte is known, and nothing waits and nothing ends."""
        return self.start is not None and not self.waiting and self.fin is None

    @property
    def finished(self) -> bool:
        """Whether all bytes up to the FIN were handed on."""
        return self.fin is not None and self.next >= self.fin

    def take(self, segment: Segment, at: int, events: list[Event]) -> None:
        """Take what this side sent, in any order; a segment that is no reset."""
        _, sequence, _, flags, payload, missing = segment
        if flags & SYN:
            sequence = (sequence + 1) & WRAP
            if self.start is None:
                self._begin(sequence)
        ends = flags & FIN
        if not (payload or missing or ends):
            return
        if self.start is None:  # met midstream, perhaps by a probe or a retransmission, behind what is expected
            behind = 0 if self.acked is None else (self.acked - sequence) & WRAP
            self._begin(sequence + behind if behind < _HALF_WRAP else sequence)
        position = self.position(sequence)
        if self.fin is None or position < self.fin:
            self._add((position, payload, missing), at, events)
        if ends and self.fin is None:
            self.fin = position + len(payload) + missing
        self._skip_received(at, events)

    def acknowledge(self, acked: int, at: int, events: list[Event]) -> None:
        """Take the sequence number that the other side expects next."""
        self.acked = acked
        if self.start is not None:
            self._skip_received(at, events)
        elif not self.flow.midstream:  # the SYN was not captured: this is the first byte after it
            self._begin(acked)

    def skip_gap(self, at: int, events: list[Event]) -> None:
        """Give up the bytes before the first waiting piece."""
        self._lose_up_to(self.waiting[0][0], at, events)
        self._hand_on_waiting(at, events)

    def finish(self, at: int, events: list[Event]) -> None:
        """No byte can come any more: hand on all that waits, and count what must have followed."""
        while self.waiting:
            self.skip_gap(at, events)
        if self.fin is not None:
            self._lose_up_to(self.fin, at, events)
        elif self.start is not None and self.acked is not None:
            self._lose_up_to(self.position(self.acked), at, events)

    def _begin(self, position: int) -> None:
        self.start = self.next = position

    def _skip_received(self, at: int, events: list[Event]) -> None:
        """Give up what the other side has acknowledged: it arrived there, so the capture dropped it.

        Only where something after the gap shows that it is one; until then the packets may come late.
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
            events.append(BytesLost(self.flow, self.direction, at, position - self.next))
            self.next = position

    def _add(self, piece: Piece, at: int, events: list[Event]) -> None:
        if piece[0] < self.next:
            piece = _cut(piece, self.next, None)
        position, payload, missing = piece
        if position == self.next and not self.waiting:
            self._hand_on(payload, missing, at, events)
        elif payload or missing:
            self._keep(piece)
            self._hand_on_waiting(at, events)

    def _keep(self, new: Piece) -> None:
        waiting = self.waiting
        position, end = new[0], _end(new)
        index = bisect_right(waiting, position, key=_position)
        if index:
            position = max(position, _end(waiting[index - 1]))
        while position < end:
            limit = min(end, waiting[index][0]) if index < len(waiting) else end
            if position < limit:
                piece = _cut(new, position, limit)
                waiting.insert(index, piece)
                self.waiting_bytes += len(piece[1]) + _PIECE_COST
                index += 1
            if index == len(waiting):
                break
            position = max(position, _end(waiting[index]))
            index += 1

    def _hand_on_waiting(self, at: int, events: list[Event]) -> None:
        done = 0
        for position, payload, missing in self.waiting:
            if position != self.next:
                break
            self._hand_on(payload, missing, at, events)
            self.waiting_bytes -= len(payload) + _PIECE_COST
            done += 1
        del self.waiting[:done]

    def _hand_on(self, payload: bytes, missing: int, at: int, events: list[Event]) -> None:
        if payload:
            events.append(BytesCaptured(self.flow, self.direction, at, payload))
        if missing:
            events.append(BytesLost(self.flow, self.direction, at, missing))
        self.next += len(payload) + missing


def _end(piece: Piece) -> int:
    position, payload, missing = piece
    return position + len(payload) + missing


def _cut(piece: Piece, start: int, end: int | None) -> Piece:
    """What of a piece lies from `start` up to `end`."""
    position, payload, _ = piece
    stop = _end(piece) if end is None else end
    if stop <= start:
        return start, b"", 0
    part = payload[start - position : stop - position]
    return start, part, stop - start - len(part)
