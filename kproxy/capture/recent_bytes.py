"""The bytes that were delivered last, to compare retransmissions with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.capture.reassembly import Half

_PAYLOAD_COST = 200  # memory in bytes that a kept payload needs besides its bytes
_MAX_LOOKED_AT = 256  # payloads of one direction, so that a retransmission never takes long


class RecentBytes:
    """Keeps the payloads that were delivered last, of all connections together, within `limit` bytes of memory.

    Older ones are dropped: retransmissions of these cannot be compared. Payloads are kept as they are, not copied.
    """

    __slots__ = ("_left", "_senders")

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._senders: deque[Half] = deque()  # of the kept payloads, in their order

    def keep(self, half: Half, position: int, payload: bytes) -> None:
        """Keep a payload that was delivered."""
        if half.recent is None:
            half.recent = deque()
        half.recent.append((position, payload))
        self._senders.append(half)
        self._left -= len(payload) + _PAYLOAD_COST
        while self._left < 0:
            oldest = self._senders.popleft().recent
            assert oldest is not None
            self._left += len(oldest.popleft()[1]) + _PAYLOAD_COST


def delivered_since(half: Half, position: int) -> Iterator[tuple[int, bytes]]:
    """The kept payloads of one direction that have bytes at or after `position`, the last one first."""
    for start, payload in islice(reversed(half.recent or ()), _MAX_LOOKED_AT):
        if start + len(payload) <= position:
            return
        yield start, payload


def difference(start: int, first: bytes, position: int, again: bytes) -> tuple[int, int] | None:
    """Where two payloads at these positions first differ, and in how many bytes; None if they agree."""
    begin, end = max(start, position), min(start + len(first), position + len(again))
    if begin >= end:
        return None
    one, other = first[begin - start : end - start], again[begin - position : end - position]
    if one == other:
        return None
    differing = (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(end - begin)
    same = len(differing) - len(differing.lstrip(b"\0"))
    return begin + same, len(differing) - differing.count(0)
