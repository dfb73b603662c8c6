"""Reads the capture file formats pcap and pcapng."""

from __future__ import annotations

import io
from collections.abc import Iterator
from struct import Struct
from typing import Any

from kproxy.capture.links import LINK_TYPES
from kproxy.capture.packet import MAX_PACKET_BYTES, CaptureError, CaptureNotes, PacketBlock, unsupported_link

#: The first four bytes of a pcap file -> byte order, and nanoseconds per unit of the fraction of a second.
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAP_HEADER_BYTES = 24
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_SECOND = 1_000_000_000
_CHUNK = 1 << 16
_HEAD_BYTES = 16  # of the header before each packet
#: After this many empty packets at time 0 (1 MiB), the rest of the file is not read: gigabytes of zeros compress to
#: megabytes. No capture has such packets, but preallocated and damaged files do.
_MAX_ZEROS = 65_536


def read_packets(file: io.BufferedReader[Any], name: str, notes: CaptureNotes) -> Iterator[PacketBlock]:
    """Return an iterator over the packets of an open file. If the file is damaged, `notes.damage` says where.

    Raises:
        CaptureError: See `open_capture`.
    """
    start = file.peek(4)[:8]
    if not start:
        raise CaptureError(
            f"{name} is empty{_damage_reason(notes)}: capture again, e.g. with tcpdump -w FILE port 9092"
        )
    if start[:4] == _PCAPNG:
        from kproxy.capture.pcapng import HEADER_ERRORS, PcapNg  # it imports scapy, which takes longer than most files

        try:
            reader: Any = PcapNg(file)  # type: ignore[arg-type]  # typed as if it accepted only file names
        except HEADER_ERRORS as error:
            raise _not_a_capture_error(name, start, notes) from error
        packets: Iterator[PacketBlock] = reader.packets(file, name, notes)
        return packets
    header = file.read(_PCAP_HEADER_BYTES)
    if header[:4] not in _PCAP or len(header) < _PCAP_HEADER_BYTES:
        raise _not_a_capture_error(name, start, notes)
    endian, fraction_ns = _PCAP[header[:4]]
    link_type: int = (
        Struct(endian + "I").unpack_from(header, 20)[0] & 0xFFFF
    )  # the upper bits describe the frame check sequence
    if link_type not in LINK_TYPES:
        raise unsupported_link(name, link_type)
    return _pcap_packets(file, Struct(endian + "4I"), fraction_ns, link_type, notes)


def _damage_reason(notes: CaptureNotes) -> str:
    return f", {notes.damage}" if notes.damage else ""


def _not_a_capture_error(name: str, start: bytes, notes: CaptureNotes) -> CaptureError:
    return CaptureError(
        f"{name} is not a capture file (it begins with {start!r}){_damage_reason(notes)}: "
        "use a pcap or pcapng file, as written by tcpdump -w or Wireshark"
    )


def _pcap_packets(
    file: io.BufferedReader[Any], header_struct: Struct, fraction_ns: int, link_type: int, notes: CaptureNotes
) -> Iterator[PacketBlock]:
    unpack, leftover, missing_bytes, delivered, zero_count, skipped, captured = (
        header_struct.unpack_from,
        b"",
        0,
        0,
        0,
        0,
        0,
    )
    # All bytes of a read are used before the next read: a stream returns what is available. Only the rest of the last
    # packet is waited for, so that `data` is never much larger than a chunk or a packet.
    while chunk := (file.read(missing_bytes) if leftover else file.read1(_CHUNK)):
        data, damage = leftover + chunk, None
        packets: list[tuple[int, int, int, int]] = []
        add_packet, start, size = packets.append, _HEAD_BYTES, len(data)
        while start <= size:
            seconds, fraction, captured, wire_length = unpack(data, start - _HEAD_BYTES)
            end = start + captured
            if end > size:
                missing_bytes = end - size
                if captured > MAX_PACKET_BYTES:
                    number = delivered + len(packets) + skipped + 1
                    damage = f"packet {number} has an impossible length of {captured} bytes: the rest of the file"
                break
            if captured or seconds or fraction or wire_length:
                add_packet((seconds * _SECOND + fraction * fraction_ns, start, end, wire_length))
                zero_count = 0
            else:
                zero_count, skipped = zero_count + 1, skipped + 1
                if zero_count == _MAX_ZEROS:
                    first = delivered + len(packets) + skipped - zero_count + 1
                    damage = f"from packet {first} on, the file holds only zeros: the rest of it"
                    break
            start = end + _HEAD_BYTES
        else:
            missing_bytes = start - size
        yield PacketBlock(link_type, data, packets)
        if damage is not None:
            notes.damage = f"{damage} is not read"
            return
        delivered += len(packets)
        leftover = data[start - _HEAD_BYTES :]
    if leftover:
        number, available = delivered + skipped + 1, len(leftover) - _HEAD_BYTES
        location = (
            f"the header of packet {number}"
            if available < 0
            else f"packet {number}, after {available} of {captured} bytes"
        )
        notes.damage = notes.damage or f"the file ends inside {location}"
    elif skipped and notes.damage is None:
        notes.damage = f"it has zeros in the place of {skipped} packets"
