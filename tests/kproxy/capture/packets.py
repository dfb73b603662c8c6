"""Functions that build packets and capture files for tests."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from kproxy.capture import Packet

PCAPS = Path(__file__).parents[2] / "data" / "pcap"

ACK, FIN_ACK, RST, RST_ACK, SYN, SYN_ACK = 0x10, 0x11, 0x04, 0x14, 0x02, 0x12
CLIENT, SERVER = ("10.0.0.2", 40_000), ("10.0.0.1", 9092)
AT = 1_750_000_000_123_456_000


def tcp(source: int, destination: int, seq: int, payload: bytes = b"", *, ack: int = 0, flags: int = ACK) -> bytes:
    return struct.pack("!HHIIBBHHH", source, destination, seq, ack, 0x50, flags, 512, 0, 0) + payload


def ipv4(content: bytes, *, source: bytes = b"\x0a\0\0\2", destination: bytes = b"\x0a\0\0\1", **fields: int) -> bytes:
    options = bytes(fields.get("options", 0))
    header = struct.pack(
        "!BBHHHBBH",
        0x45 + len(options) // 4,
        0,
        fields.get("length", 20 + len(options) + len(content)),
        1,
        fields.get("fragment", 0x4000),
        64,
        fields.get("protocol", 6),
        0,
    )
    return header + source + destination + options + content


def ipv6(content: bytes, *, next_header: int = 6, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    return struct.pack("!IHBB", 6 << 28, size, next_header, 64) + bytes(15) + b"\2" + bytes(15) + b"\1" + content


def ethernet(content: bytes, ethertype: int = 0x0800) -> bytes:
    return bytes(12) + ethertype.to_bytes(2, "big") + content


def packet(data: bytes, link_type: int = 1, *, at: int = AT, wire_length: int = 0) -> Packet:
    return Packet(at, link_type, data, wire_length or len(data))


def tcp_packet(
    seq: int, payload: bytes = b"", *, ack: int = 0, flags: int = ACK, server: bool = False, at: int = AT
) -> Packet:
    """Return an Ethernet packet from the client, or from the server if `server` is true."""
    (source_ip, source), (destination_ip, destination) = (b"\x0a\0\0\2", CLIENT[1]), (b"\x0a\0\0\1", SERVER[1])
    if server:
        (source_ip, source), (destination_ip, destination) = (destination_ip, destination), (source_ip, source)
    segment = tcp(source, destination, seq & 0xFFFF_FFFF, payload, ack=ack & 0xFFFF_FFFF, flags=flags)
    return packet(ethernet(ipv4(segment, source=source_ip, destination=destination_ip)), at=at)


def pcap(packets: Iterable[Packet], *, endian: str = "<", nano: bool = False, link_type: int = 1) -> bytes:
    unit = 1 if nano else 1000
    file = struct.pack(endian + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 262_144, link_type)
    for at, _, data, wire_length in packets:
        seconds, nanoseconds = divmod(at, 1_000_000_000)
        file += struct.pack(endian + "4I", seconds, nanoseconds // unit, len(data), wire_length) + data
    return file


def block(kind: int, body: bytes, endian: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(endian + "I", len(body) + 12)
    return struct.pack(endian + "I", kind) + length + body + length


def section(endian: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(endian + "IHHq", 0x1A2B3C4D, 1, 0, -1), endian)


def interface(link_type: int = 1, *, resolution: int | None = None, snaplen: int = 0, endian: str = "<") -> bytes:
    options = b""
    if resolution is not None:
        options = struct.pack(endian + "HHBxxxHH", 9, 1, resolution, 0, 0)
    return block(1, struct.pack(endian + "HHI", link_type, 0, snaplen) + options, endian)


def enhanced(data: bytes, ticks: int, *, interface: int = 0, wire_length: int = 0, endian: str = "<") -> bytes:
    header = struct.pack(
        endian + "5I", interface, ticks >> 32, ticks & 0xFFFF_FFFF, len(data), wire_length or len(data)
    )
    return block(6, header + data, endian)
