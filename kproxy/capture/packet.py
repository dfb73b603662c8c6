"""A captured packet, what a file says beside its packets, and what is said when there are none to be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kproxy.errors import UserError


class CaptureError(UserError):
    """A capture that cannot be read at all: one sentence that says what to do."""


class Packet(NamedTuple):
    """One record of a capture file.

    `at` is nanoseconds since the epoch, `link_type` a LINKTYPE number of libpcap, `data` what was captured of the
    `wire_length` bytes that travelled.
    """

    at: int
    link_type: int
    data: bytes
    wire_length: int


@dataclass(slots=True)
class CaptureNotes:
    """Filled while packets are read: why reading stopped too early, and the TLS key logs that a pcapng carries."""

    damage: str | None = None
    tls_keys: str = ""
