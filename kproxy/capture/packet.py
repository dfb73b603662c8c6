"""The packets of a capture, notes about its file, and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kproxy.capture.links import LINK_TYPES
from kproxy.errors import UserError

#: Longer packets indicate damage: libpcap captures at most 256 KiB of a packet.
MAX_PACKET_BYTES = 16 * 1024 * 1024


class CaptureError(UserError):
    """A capture that cannot be read. The message is one sentence that says what to do."""


def unsupported_link(name: str, link_type: int) -> CaptureError:
    """Return the error for a capture with that link type."""
    names = ", ".join(dict.fromkeys(LINK_TYPES.values()))
    return CaptureError(f"{name} has link type {link_type}, which is not supported: capture as one of {names}")


class Packet(NamedTuple):
    """A packet of a capture file.

    `at` is nanoseconds since the epoch, `link_type` a LINKTYPE number of libpcap, `data` the captured part of the
    `wire_length` bytes that were sent.
    """

    at: int
    link_type: int
    data: bytes
    wire_length: int


class PacketBlock(NamedTuple):
    """Packets of one link type that were read together.

    For each packet, `packets` has the time, the start and end of its bytes in `data`, and its wire length: copying the
    bytes of every packet would cost more than finding the TCP segments in them.
    """

    link_type: int
    data: bytes
    packets: list[tuple[int, int, int, int]]


@dataclass(slots=True)
class CaptureNotes:
    """Filled while packets are read: why reading stopped early, if it did, and the TLS key logs of a pcapng file."""

    damage: str | None = None
    tls_keys: str = ""
