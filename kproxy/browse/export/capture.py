"""Save the frames of rows as a capture that Wireshark and `kproxy dissect` can read, in pcapng or pcap format.

Each connection becomes a TCP connection that starts with its handshake; the bytes of rows that are not visible are
left out. The frames contain the bytes of the trace: without TLS, and with secrets zeroed.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from kproxy.browse.fields.frames import frame_of
from kproxy.browse.rows.index import time_of
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import FRAME_LINES, RequestLine, ResponseLine

#: Tells the user what to do if no row has the bytes of a frame.
NO_BYTES: Final = "no bytes here: record with --detail raw"
#: File name suffixes of captures.
SUFFIXES: Final = (".pcap", ".cap", ".pcapng")

_RAW_IP: Final = 101  # LINKTYPE_RAW: packets begin with their IP header
_SEGMENT: Final = 16_384
_SYN, _ACK, _PSH = 0x02, 0x10, 0x08
_SLICE = 1000

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NoBytesError(Exception):
    """Raised if no row has the bytes of a frame."""


@dataclass(slots=True)
class _Side:
    """One end of a TCP connection; `sent` counts the bytes it has sent, including the SYN."""

    address: _Address
    port: int
    sent: int = 0


def save_capture(session: BrowseSession, path: Path) -> Iterator[int]:
    """Write the frames of the visible rows in chronological order, as pcapng or, without the suffix ``.pcapng``, pcap.

    From time to time, yields the number of frames written so far; the last number is the total. If writing fails, the
    incomplete file is removed.

    Raises:
        NoBytesError: There is nothing to write.
        OSError: The file already exists or cannot be written.
    """
    path = path.expanduser()
    visible = session.visible
    rows = (visible[position] for position in range(len(visible)))
    frames = [frame for frame in _frames(session, rows) if frame is not None]
    if not frames:
        raise NoBytesError
    finished = False
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as out:
            parts = _file_parts(session, frames, _PCAPNG if path.suffix.lower() == ".pcapng" else _PCAP)
            for count, part in enumerate(parts):  # the first one is the header
                out.write(part)
                if count and not count % _SLICE:
                    yield count
        finished = True
    finally:
        if not finished:
            path.unlink(missing_ok=True)
    yield len(frames)


def pcapng(session: BrowseSession, rows: Iterable[int]) -> Iterator[bytes]:
    """Yield the frames of rows as a pcapng file, in chronological order; yield empty parts while reading the rows.

    Raises:
        NoBytesError: No row has bytes. Only empty parts have been yielded.
    """
    frames = []
    for frame in _frames(session, rows):
        if frame is not None:
            frames.append(frame)
        yield b""
    if not frames:
        raise NoBytesError
    yield from _file_parts(session, frames, _PCAPNG)


def _frames(session: BrowseSession, rows: Iterable[int]) -> Iterator[tuple[int, int, bool] | None]:
    """Yield the time and row of each frame that has bytes, and whether it is the response; None follows each row."""
    for row in rows:
        exchange = session.exchange(row)
        lines = () if exchange is None else (exchange.request, exchange.response)
        for line in lines:
            if line is not None and line.frame is not None:
                yield time_of(line.ts), row, isinstance(line, ResponseLine)
        yield None


def _file_parts(session: BrowseSession, frames: list[tuple[int, int, bool]], file_format: _Format) -> Iterator[bytes]:
    """Yield the header of a file, and then the packets of one frame after the other."""
    yield file_format.header
    connections: dict[str, tuple[_Side, _Side]] = {}
    for at, row, is_response in sorted(frames):
        exchange = session.exchange(row)
        line = None if exchange is None else exchange.response if is_response else exchange.request
        data = None if line is None else frame_of(line)
        packets = () if line is None or data is None else _packets(connections, line, data)
        yield b"".join(file_format.record(at, packet) for packet in packets)


def _pcap_record(at: int, packet: bytes) -> bytes:
    seconds, nanoseconds = divmod(at, 1_000_000_000)
    return struct.pack("<4I", seconds & 0xFFFFFFFF, nanoseconds, len(packet), len(packet)) + packet


def _pcapng_record(at: int, packet: bytes) -> bytes:
    """Return an enhanced packet block."""
    high, low = divmod(at, 1 << 32)
    body = struct.pack("<5I", 0, high, low, len(packet), len(packet)) + packet + bytes(-len(packet) % 4)
    return _block(6, body)


def _block(block_type: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<2I", block_type, length) + body + struct.pack("<I", length)


class _Format(NamedTuple):
    """A file format: the file header, and a function that encodes a packet, given its time in ns."""

    header: bytes
    record: Callable[[int, bytes], bytes]


_PCAP: Final = _Format(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, _RAW_IP), _pcap_record)
_PCAPNG: Final = _Format(
    _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))  # a section of unknown length
    + _block(1, struct.pack("<HHI", _RAW_IP, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)),  # if_tsresol: ns
    _pcapng_record,
)


def _packets(
    connections: dict[str, tuple[_Side, _Side]], line: RequestLine | ResponseLine, data: bytes
) -> Iterator[bytes]:
    """Yield the packets of a frame, preceded by the handshake if it is the first frame of its connection."""
    assert isinstance(line, FRAME_LINES)
    if (sides := connections.get(line.connection_id)) is None:
        number = len(connections)
        sides = connections[line.connection_id] = (
            _parse_side(line.client, 20_000 + number),
            _parse_side(line.server, 9092),
        )
        client, server = sides
        yield _packet(client, server, _SYN, b"")
        client.sent = 1
        yield _packet(server, client, _SYN | _ACK, b"")
        server.sent = 1
        yield _packet(client, server, _ACK, b"")
    sender, receiver = sides if isinstance(line, RequestLine) else sides[::-1]
    for start in range(0, len(data), _SEGMENT):
        segment = data[start : start + _SEGMENT]
        yield _packet(sender, receiver, _ACK | _PSH, segment)
        sender.sent = (sender.sent + len(segment)) & 0xFFFFFFFF


def _parse_side(address: str, default_port: int) -> _Side:
    """Parse an address such as ``10.0.0.1:9092`` or ``[::1]:9092``; use loopback for a host name or Unix socket."""
    host, _, port_text = address.rpartition(":")
    try:
        return _Side(ipaddress.ip_address(host.strip("[]").partition("%")[0]), int(port_text) & 0xFFFF)
    except ValueError:
        return _Side(ipaddress.IPv4Address("127.0.0.1"), int(port_text) if port_text.isdecimal() else default_port)


def _packet(sender: _Side, receiver: _Side, flags: int, data: bytes) -> bytes:
    source, destination = sender.address, receiver.address
    if source.version != destination.version:
        source, destination = (ipaddress.IPv6Address(f"::ffff:{address}") if address.version == 4 else address
                               for address in (source, destination))  # fmt: skip
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
    pseudo_header = source.packed + destination.packed + struct.pack(">IHH", len(tcp) + len(data), 0, 6)
    tcp = tcp[:16] + struct.pack(">H", _checksum(pseudo_header + tcp + data)) + tcp[18:]
    length = len(tcp) + len(data)
    if source.version == 6:
        ip = struct.pack(">IHBB", 6 << 28, length, 6, 64) + source.packed + destination.packed
    else:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, 6, 0) + source.packed + destination.packed
        ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
    return ip + tcp + data


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071); the ones' complement sum of 16-bit words is the data modulo 65535."""
    remainder = int.from_bytes(data + bytes(len(data) % 2), "big") % 0xFFFF
    return 0xFFFF - remainder
