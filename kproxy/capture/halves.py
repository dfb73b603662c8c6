"""One direction of a TCP connection: segments in any order become bytes in order."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TypeAlias

from kproxy.capture.flows import Data, Event, Flow, Lost

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

    def begin(self, position: int) -> None:
        """Fix the first position."""
        self.start = self.next = position

    def position(self, sequence: int) -> int:
        """Unwrap a sequence number: the position nearest to the next byte."""
        return self.next + ((sequence - self.next + _HALF_WRAP) & WRAP) - _HALF_WRAP

    @property
    def finished(self) -> bool:
        """Whether all bytes up to the FIN were handed on."""
        return self.fin is not None and self.next >= self.fin

    def add(self, position: int, payload: bytes, missing: int, at: int, events: list[Event]) -> None:
        """Take a segment. Bytes that are already there win over later ones at the same position."""
        if position < self.next:
            position, payload, missing = _cut((position, payload, missing), self.next, None)
        if position == self.next and not self.waiting:
            self._hand_on(payload, missing, at, events)
        elif payload or missing:
            self._keep((position, payload, missing))
            self._hand_on_waiting(at, events)

    def skip_gap(self, at: int, events: list[Event]) -> None:
        """Give up the bytes before the first waiting piece, or before the FIN."""
        end = self.waiting[0][0] if self.waiting else self.fin
        if end is not None and end > self.next:
            events.append(Lost(self.flow, self.direction, at, end - self.next))
            self.next = end
            self._hand_on_waiting(at, events)

    def skip_gaps(self, at: int, events: list[Event]) -> None:
        """Hand on all that waits: no missing byte can come any more."""
        while self.waiting:
            self.skip_gap(at, events)

    def skip_received(self, at: int, events: list[Event]) -> None:
        """Give up what the other side has acknowledged: it arrived there, so the capture dropped it.

        Only where something after the gap shows that it is one; until then the packets may come late.
        """
        if self.acked is None:
            return
        acked = self.position(self.acked)
        while self.waiting and acked >= self.waiting[0][0]:
            self.skip_gap(at, events)
        if not self.waiting and self.fin is not None and acked > self.fin:
            self.skip_gap(at, events)

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
            events.append(Data(self.flow, self.direction, at, payload))
        if missing:
            events.append(Lost(self.flow, self.direction, at, missing))
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
