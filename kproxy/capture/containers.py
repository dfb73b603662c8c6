"""Reads the capture file formats pcap and pcapng."""

from __future__ import annotations

import io
from collections.abc import Iterator
from struct import Struct
from typing import Any

from kproxy.capture.links import LINK_TYPES
from kproxy.capture.packet import MAX_PACKET_BYTES, CaptureError, CaptureNotes, Packet, unsupported_link

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
#: An empty packet at time 0: no capture has one, but preallocated and damaged files do.
_ZEROS = bytes(16)
#: After so many, 1 MiB, the rest of the file is not read: gigabytes of zeros compress to megabytes.
_MOST_ZEROS = 65_536


def read_packets(file: io.BufferedReader[Any], name: str, notes: CaptureNotes) -> Iterator[Packet]:
    """The packets of an open file. If it is truncated or damaged, `notes.damage` says where.

    Raises:
        CaptureError: See `open_capture`.
    """
    start = file.peek(4)[:8]
    if not start:
        raise CaptureError(f"{name} is empty{_because(notes)}: capture again, e.g. with tcpdump -w FILE port 9092")
    if start[:4] == _PCAPNG:
        from kproxy.capture.pcapng import HEADER_ERRORS, PcapNg  # it imports scapy, which takes longer than most files

        try:
            reader: Any = PcapNg(file)  # type: ignore[arg-type]  # typed as if it accepted only file names
        except HEADER_ERRORS as error:
            raise _not_a_capture(name, start, notes) from error
        packets: Iterator[Packet] = reader.packets(file, name, notes)
        return packets
    header = file.read(_PCAP_HEADER_BYTES)
    if header[:4] not in _PCAP or len(header) < _PCAP_HEADER_BYTES:
        raise _not_a_capture(name, start, notes)
    endian, fraction_ns = _PCAP[header[:4]]
    link_type: int = Struct(endian + "I").unpack_from(header, 20)[0] & 0xFFFF  # above: the frame check sequence
    if link_type not in LINK_TYPES:
        raise unsupported_link(name, link_type)
    return _pcap_packets(file, Struct(endian + "4I"), fraction_ns, link_type, notes)


def _because(notes: CaptureNotes) -> str:
    return f", {notes.damage}" if notes.damage else ""


def _not_a_capture(name: str, start: bytes, notes: CaptureNotes) -> CaptureError:
    return CaptureError(
        f"{name} is not a capture file (it begins with {start!r}){_because(notes)}: "
        "use a pcap or pcapng file, as written by tcpdump -w or Wireshark"
    )


def _pcap_packets(
    file: io.BufferedReader[Any], header: Struct, fraction_ns: int, link_type: int, notes: CaptureNotes
) -> Iterator[Packet]:
    read, unpack, number, new = file.read, header.unpack, 0, tuple.__new__
    zeros = skipped = 0
    while start := read(16):
        number += 1
        if len(start) < 16:
            notes.damage = notes.damage or f"the file ends inside the header of packet {number}"
            return
        if start == _ZEROS:
            zeros, skipped = zeros + 1, skipped + 1
            if zeros == _MOST_ZEROS:
                first = number - zeros + 1
                notes.damage = f"from packet {first} on, the file holds only zeros: the rest of it is not read"
                return
            continue
        zeros = 0
        seconds, fraction, captured, wire_length = unpack(start)
        if captured > MAX_PACKET_BYTES:
            notes.damage = (
                f"packet {number} has an impossible length of {captured} bytes: the rest of the file is not read"
            )
            return
        data = read(captured)
        if len(data) < captured:
            notes.damage = (
                notes.damage or f"the file ends inside packet {number}, after {len(data)} of {captured} bytes"
            )
            return
        # Like `Packet(...)`, without a call of a Python function for each packet.
        yield new(Packet, (seconds * _SECOND + fraction * fraction_ns, link_type, data, wire_length))
    if skipped and notes.damage is None:
        notes.damage = f"it has zeros in the place of {skipped} packets"
