"""Save the frames of the visible rows as a capture, which Wireshark and `kproxy dissect` read.

Each connection is a TCP connection of its own, from its handshake on, without the bytes of rows that are not visible.
Frames have the bytes of the trace: without TLS, and with secrets zeroed.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kproxy.browse.fields.frames import frame_of
from kproxy.browse.rows.index import time_of
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import FRAME_LINES, RequestLine, ResponseLine

#: The names of captures.
SUFFIXES: Final = (".pcap", ".cap", ".pcapng")

_NANOSECONDS: Final = 0xA1B23C4D
_RAW_IP: Final = 101  # the link type without a link
_SEGMENT: Final = 16_384
_SYN, _ACK, _PSH = 0x02, 0x10, 0x08
_SLICE = 1000

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NoBytes(Exception):
    """Raised if no visible row has the bytes of a frame."""


@dataclass(slots=True)
class _Side:
    """One end of a TCP connection; `sent` counts its bytes, with the SYN."""

    address: _Address
    port: int
    sent: int = 0


def save_capture(session: BrowseSession, path: Path) -> Iterator[int]:
    """Write the frames of the visible rows in the order of time.

    Yields the number of frames written so far from time to time; the last number is the total. If writing fails, the
    incomplete file is removed.

    Raises:
        NoBytes: There is nothing to write.
        OSError: The file already exists or cannot be written.
    """
    path = path.expanduser()
    visible = session.visible
    frames = sorted(
        (time_of(line.ts), row, isinstance(line, ResponseLine))
        for row in (visible[position] for position in range(len(visible)))
        if (exchange := session.exchange(row)) is not None
        for line in (exchange.request, exchange.response)
        if line is not None and line.frame is not None
    )
    if not frames:
        raise NoBytes
    connections: dict[str, tuple[_Side, _Side]] = {}
    finished = False
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(struct.pack("<IHHiIII", _NANOSECONDS, 2, 4, 0, 0, 1 << 18, _RAW_IP))
            for count, (at, row, is_response) in enumerate(frames, 1):
                exchange = session.exchange(row)
                line = None if exchange is None else exchange.response if is_response else exchange.request
                if line is not None and (data := frame_of(line)) is not None:
                    out.writelines(_records(connections, line, data, at))
                if not count % _SLICE:
                    yield count
        finished = True
    finally:
        if not finished:
            path.unlink(missing_ok=True)
    yield len(frames)


def _records(
    connections: dict[str, tuple[_Side, _Side]], line: RequestLine | ResponseLine, data: bytes, at: int
) -> Iterator[bytes]:
    """The records of a frame, after those of the handshake if it is the first one of its connection."""
    assert isinstance(line, FRAME_LINES)
    if (sides := connections.get(line.connection_id)) is None:
        number = len(connections)
        sides = connections[line.connection_id] = _side(line.client, 20_000 + number), _side(line.server, 9092)
        client, server = sides
        yield _record(client, server, _SYN, b"", at)
        client.sent = 1
        yield _record(server, client, _SYN | _ACK, b"", at)
        server.sent = 1
        yield _record(client, server, _ACK, b"", at)
    sender, receiver = sides if isinstance(line, RequestLine) else sides[::-1]
    for start in range(0, len(data), _SEGMENT):
        segment = data[start : start + _SEGMENT]
        yield _record(sender, receiver, _ACK | _PSH, segment, at)
        sender.sent = (sender.sent + len(segment)) & 0xFFFFFFFF


def _side(text: str, port: int) -> _Side:
    """An address such as ``10.0.0.1:9092`` or ``[::1]:9092``; one on loopback for a host name or a Unix socket."""
    host, _, written = text.rpartition(":")
    try:
        return _Side(ipaddress.ip_address(host.strip("[]").partition("%")[0]), int(written) & 0xFFFF)
    except ValueError:
        return _Side(ipaddress.IPv4Address("127.0.0.1"), int(written) if written.isdecimal() else port)


def _record(sender: _Side, receiver: _Side, flags: int, data: bytes, at: int) -> bytes:
    source, destination = sender.address, receiver.address
    if source.version != destination.version:
        source, destination = (ipaddress.IPv6Address(f"::ffff:{each}") if each.version == 4 else each
                               for each in (source, destination))  # fmt: skip
    acknowledged = receiver.sent if flags & _ACK else 0
    tcp = struct.pack(
        ">HHIIBBHHH",
        sender.port & 0xFFFF,
        receiver.port & 0xFFFF,
        sender.sent,
        acknowledged,
        5 << 4,
        flags,
        0xFFFF,
        0,
        0,
    )
    pseudo = source.packed + destination.packed + struct.pack(">IHH", len(tcp) + len(data), 0, 6)
    tcp = tcp[:16] + struct.pack(">H", _checksum(pseudo + tcp + data)) + tcp[18:]
    length = len(tcp) + len(data)
    if source.version == 6:
        ip = struct.pack(">IHBB", 6 << 28, length, 6, 64) + source.packed + destination.packed
    else:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, 6, 0) + source.packed + destination.packed
        ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
    packet = ip + tcp + data
    seconds, nanoseconds = divmod(at, 1_000_000_000)
    return struct.pack("<4I", seconds & 0xFFFFFFFF, nanoseconds, len(packet), len(packet)) + packet


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071): the sum of 16-bit words in ones' complement is their remainder by 65535."""
    remainder = int.from_bytes(data + bytes(len(data) % 2), "big") % 0xFFFF
    return 0xFFFF - remainder
