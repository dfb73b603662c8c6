"""Finds the TCP segment in a captured packet: link layer, IPv4 or IPv6, TCP."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, TypeAlias

#: The host in printed form, and the port.
Endpoint: TypeAlias = tuple[str, int]

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_NULL, ETHERNET, _LOOP, _LINUX_COOKED, _LINUX_COOKED_2 = 0, 1, 108, 113, 276
_RAW_IP = (12, 14, 101, 228, 229)
LINK_TYPES = {
    ETHERNET: "Ethernet",
    _LINUX_COOKED: "Linux cooked",
    _LINUX_COOKED_2: "Linux cooked v2",
    _NULL: "BSD loopback",
    _LOOP: "OpenBSD loopback",
    **dict.fromkeys(_RAW_IP, "raw IP"),
}

#: The reason why a packet of another protocol over IP has no segment.
NOT_TCP: Final = "not TCP"

_VLANS = (0x8100, 0x88A8, 0x9100)
IPV4 = 0x0800
_ETHERTYPES = {IPV4: 4, 0x86DD: 6}
TCP, _FRAGMENT, _AUTHENTICATION = 6, 44, 51
_EXTENSIONS = (0, 43, 60, 135, 139, 140, _AUTHENTICATION)  # headers with the length in the second byte
_IPV4_TCP = Struct("!xxHxxH4x12sIIBB")  # an IPv4 header without options, and a TCP header up to its flags
_TCP_HEAD = Struct("!4sIIBB")
#: The usual packet up to its TCP flags: Ethernet, IPv4 without options, TCP. The first number has the Ethernet type and
#: the first two bytes of IPv4, the third its fragment, time to live and protocol, the last the header's size and flags.
USUAL: Final = Struct("!12xIHxxIxx12sIIH")
_WORD = Struct("!H")


class Segment(NamedTuple):
    """A TCP segment.

    `key` is source and destination address, source and destination port, as on the wire. `missing` is the number of
    payload bytes after `payload` that were sent but not captured (because of the snap length).
    """

    key: bytes
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int


def tcp_segment(link_type: int, data: bytes, wire_length: int) -> Segment | str:
    """Return the TCP segment in a packet, or the reason why there is none."""
    try:
        if link_type == ETHERNET and data[12] == 8 and data[13] == 0:
            offset, version = 14, 4
        else:
            offset, version = _network_layer(link_type, data)
            if version not in (4, 6):
                return f"link type {link_type} is not supported" if link_type not in LINK_TYPES else "not IP"
        if data[offset] == 0x45 and version == 4:
            if data[offset + 9] != TCP:
                return NOT_TCP
            length, fragment, key, seq, ack, data_offset, flags = _IPV4_TCP.unpack_from(data, offset)
            if fragment & 0x3FFF:
                return "IP fragment"
            end, tcp_offset = offset + length, offset + 20
        else:
            layer = (_read_ipv4 if version == 4 else _read_ipv6)(data, offset)
            if isinstance(layer, str):
                return layer
            addresses, length, tcp_offset = layer
            ports, seq, ack, data_offset, flags = _TCP_HEAD.unpack_from(data, tcp_offset)
            key, end = addresses + ports, offset + length
    except (IndexError, StructError):
        return "truncated headers"
    if not length:  # segmentation offload: the packet is larger than the length field allows
        end = max(wire_length, len(data))
    start = tcp_offset + (data_offset >> 4) * 4
    if end < start or data_offset < 0x50:
        return "malformed TCP header"
    captured_length = len(data)
    if end <= captured_length:
        return Segment(key, seq, ack, flags, data[start:end], 0)
    return Segment(key, seq, ack, flags, data[start:], end - max(start, captured_length))


def ip_payload(link_type: int, data: bytes, protocol: int) -> tuple[bytes, bytes] | None:
    """Return destination and payload of an unfragmented IP packet without extension headers, otherwise None."""
    try:
        offset, version = _network_layer(link_type, data)
        if version == 4 and data[offset + 9] == protocol and not _WORD.unpack_from(data, offset + 6)[0] & 0x3FFF:
            return data[offset + 16 : offset + 20], data[offset + (data[offset] & 15) * 4 :]
        if version == 6 and data[offset + 6] == protocol:
            return data[offset + 24 : offset + 40], data[offset + 40 :]
    except (IndexError, StructError):
        pass
    return None


def endpoints(key: bytes) -> tuple[Endpoint, Endpoint]:
    """Return source and destination from a segment's key."""
    size = len(key) // 2 - 2
    family = AF_INET if size == 4 else AF_INET6
    return (
        (inet_ntop(family, key[:size]), _WORD.unpack_from(key, 2 * size)[0]),
        (inet_ntop(family, key[size : 2 * size]), _WORD.unpack_from(key, 2 * size + 2)[0]),
    )


def reverse(key: bytes) -> bytes:
    """Return the key of the other direction."""
    size = len(key) // 2 - 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]


def _network_layer(link_type: int, data: bytes) -> tuple[int, int]:
    """Return the offset of the network layer and its IP version; versions other than 4 and 6 are not IP."""
    if link_type in (
        _NULL,
        _LOOP,
    ):  # an address family, whose values differ between systems: use the version in the IP header
        return 4, data[4] >> 4
    if link_type in _RAW_IP:
        return 0, data[0] >> 4
    if link_type == ETHERNET:
        type_offset, offset = 12, 14
    elif link_type == _LINUX_COOKED:
        type_offset, offset = 14, 16
    elif link_type == _LINUX_COOKED_2:
        type_offset, offset = 0, 20
    else:
        return 0, 0
    (ethertype,) = _WORD.unpack_from(data, type_offset)
    while ethertype in _VLANS:
        (ethertype,) = _WORD.unpack_from(data, offset + 2)
        offset += 4
    return offset, _ETHERTYPES.get(ethertype, 0)


def _read_ipv4(data: bytes, offset: int) -> tuple[bytes, int, int] | str:
    """Return the addresses, the length including the header (0: unknown), and the offset of the TCP header.

    For a packet without a usable TCP segment, return the reason instead.
    """
    header_size = (data[offset] & 15) * 4
    if data[offset] >> 4 != 4 or header_size < 20:
        return "malformed IP header"
    if data[offset + 9] != TCP:
        return NOT_TCP
    if _WORD.unpack_from(data, offset + 6)[0] & 0x3FFF:
        return "IP fragment"
    return data[offset + 12 : offset + 20], _WORD.unpack_from(data, offset + 2)[0], offset + header_size


def _read_ipv6(data: bytes, offset: int) -> tuple[bytes, int, int] | str:
    """Return the same as `_read_ipv4` for IPv6, skipping extension headers."""
    if data[offset] >> 4 != 6:
        return "malformed IP header"
    (payload_size,) = _WORD.unpack_from(data, offset + 4)
    next_header, tcp_offset = data[offset + 6], offset + 40
    while next_header != TCP:
        if next_header == _FRAGMENT:
            if _WORD.unpack_from(data, tcp_offset + 2)[0] & 0xFFF9:
                return "IP fragment"
            size = 8
        elif next_header in _EXTENSIONS:
            size = (data[tcp_offset + 1] + 2) * 4 if next_header == _AUTHENTICATION else (data[tcp_offset + 1] + 1) * 8
        else:
            return NOT_TCP
        next_header, tcp_offset = data[tcp_offset], tcp_offset + size
    return data[offset + 8 : offset + 40], 40 + payload_size if payload_size else 0, tcp_offset
