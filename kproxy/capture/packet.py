"""Packets of a capture, notes about the file, and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kproxy.errors import UserError


class CaptureError(UserError):
    """A capture that cannot be read. The message is one sentence with what to do."""


class Packet(NamedTuple):
    """A packet of a capture file.

    `at` is nanoseconds since the epoch, `link_type` a LINKTYPE number of libpcap, `data` the captured part of the
    `wire_length` bytes that were sent.
    """

    at: int
    link_type: int
    data: bytes
    wire_length: int


@dataclass(slots=True)
class CaptureNotes:
    """Filled while packets are read: the reason if reading stopped early, and the TLS key logs of a pcapng file."""

    damage: str | None = None
    tls_keys: str = ""
