"""The most recently delivered bytes, to compare retransmissions with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.capture.reassembly import TcpStream

PAYLOAD_COST = 100  # memory in bytes that a kept payload needs besides its bytes
_MAX_COMPARED = 256  # payloads of one direction, so that a retransmission never takes long


class RecentBytes:
    """Keeps the most recently delivered payloads of all connections within `limit` bytes of memory.

    They are kept without a copy in two generations: when the newer one is full, the older one is dropped, so
    that a packet costs next to nothing. Retransmissions of dropped payloads cannot be compared.
    """

    __slots__ = ("_left", "_limit", "_newer", "_older")

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit // 2
        self._newer: list[TcpStream] = []  # with payloads in this generation
        self._older: list[TcpStream] = []

    def keep(self, stream: TcpStream, payload: bytes | int) -> None:
        """Keep a payload that was delivered, or the number of bytes that were lost instead."""
        (stream.recent or self.begin(stream)).append(payload)
        self.count(PAYLOAD_COST if isinstance(payload, int) else PAYLOAD_COST + len(payload))

    def begin(self, stream: TcpStream) -> list[bytes | int]:
        """Begin `stream.recent`, and return it. Payloads added without `keep` must be counted afterwards."""
        recent: list[bytes | int] = []
        stream.recent = recent
        self._newer.append(stream)
        return recent

    def count(self, size: int) -> None:
        """Count the memory of added payloads, and drop the older generation if the newer one is full."""
        self._left -= size
        if self._left >= 0:
            return
        for stream in self._older:
            stream.older = None
        for stream in self._newer:
            stream.older, stream.recent = stream.recent, None
        self._older, self._newer = self._newer, []
        self._left = self._limit


def delivered_since(stream: TcpStream, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield the kept payloads of one direction that have bytes at or after `position`, the latest first."""
    start = stream.next
    for payload in islice(chain(reversed(stream.recent or ()), reversed(stream.older or ())), _MAX_COMPARED):
        if start <= position:
            return
        if isinstance(payload, int):
            start -= payload
        else:
            start -= len(payload)
            yield start, payload


def difference(
    earlier_start: int, earlier_bytes: bytes, repeated_start: int, repeated_bytes: bytes
) -> tuple[int, int] | None:
    """Return where two payloads at these positions first differ, and in how many bytes; None if they agree."""
    overlap_start, end = (
        max(earlier_start, repeated_start),
        min(earlier_start + len(earlier_bytes), repeated_start + len(repeated_bytes)),
    )
    if overlap_start >= end:
        return None
    old_bytes, new_bytes = (
        earlier_bytes[overlap_start - earlier_start : end - earlier_start],
        repeated_bytes[overlap_start - repeated_start : end - repeated_start],
    )
    if old_bytes == new_bytes:
        return None
    differing = (int.from_bytes(old_bytes) ^ int.from_bytes(new_bytes)).to_bytes(end - overlap_start)
    equal_bytes = len(differing) - len(differing.lstrip(b"\0"))
    return overlap_start + equal_bytes, len(differing) - differing.count(0)
