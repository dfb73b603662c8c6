"""Reads the capture file format pcapng. Only this module imports scapy.

scapy's raw reader reads byte order, clock and interfaces. This module reads the packets, because scapy truncates
packets at 65,535 bytes (loopback frames are longer), does not report where a damaged file ends, and keeps the
interfaces of one section for the next.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any

from kproxy.capture.links import LINK_TYPES
from kproxy.capture.packet import MAX_PACKET_BYTES, CaptureNotes, PacketBlock, unsupported_link

logging.getLogger("scapy").setLevel(logging.CRITICAL)  # before the import, which otherwise sets WARNING

from scapy.error import Scapy_Exception  # noqa: E402
from scapy.utils import RawPcapNgReader  # noqa: E402

_SECTION_TYPE = b"\x0a\x0d\x0d\x0a"  # reads the same in either byte order
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET, _SECRETS = 1, 2, 3, 6, 10
_TLS_KEY_LOG = 0x544C534B
_SECOND = 1_000_000_000

#: Raised by the constructor of `PcapNg` for a damaged header.
HEADER_ERRORS = (Scapy_Exception, OSError, MemoryError)


class PcapNg(RawPcapNgReader):
    """Reads pcapng: sections and interfaces with scapy, packets without it."""

    def _read_block_shb(self) -> None:
        self.interfaces.clear()  # each section numbers its interfaces from 0
        super()._read_block_shb()

    def packets(self, file: io.BufferedReader[Any], name: str, notes: CaptureNotes) -> Iterator[PacketBlock]:
        """Yield every packet of the file after the section header, which the constructor has read."""
        self._number = 1  # of the block that was read last
        self._set_byte_order()
        at, blocks = 0, self._blocks(file, notes)
        while True:
            while buffered := self._buffered_packets(file):
                yield buffered
            if (block := next(blocks, None)) is None:
                return
            kind, body = block
            try:
                if kind == _PACKET:
                    interface, high, low, captured, wire_length = self._packet_head.unpack_from(body)
                elif kind == _OLD_PACKET:
                    interface, _, high, low, captured, wire_length = self._old_packet_head.unpack_from(body)
                elif kind == _SIMPLE_PACKET:
                    interface, (wire_length,) = 0, self._word.unpack_from(body)
                else:
                    self._read_other_block(kind, body, notes)
                    continue
                link_type, snap_length, options = self.interfaces[interface]
            except (EOFError, IndexError, StructError):
                notes.damage = f"block {self._number} is damaged and was skipped"
                continue
            if kind == _SIMPLE_PACKET:
                start, captured = 4, min(wire_length, snap_length or wire_length)
            else:
                start, at = 20, (high << 32 | low) * _SECOND // options["tsresol"]
            if link_type not in LINK_TYPES and not any(known_type in LINK_TYPES for known_type, *_ in self.interfaces):
                raise unsupported_link(name, link_type)
            yield PacketBlock(link_type, body, [(at, start, min(start + captured, len(body) - 4), wire_length)])

    def _buffered_packets(self, file: io.BufferedReader[Any]) -> PacketBlock | None:
        """Return the packets at the start of the buffer that are in ordinary blocks and from one interface.

        None if there are none: `_blocks` then reads the next block.
        """
        data, unpack, unpack_word = file.peek(), self._block_head.unpack_from, self._word.unpack_from
        start, size = self._block_head.size, len(data)
        if start > size:
            return None
        first_interface = unpack(data)[2]
        if first_interface >= len(self.interfaces):
            return None
        link_type, _, options = self.interfaces[first_interface]
        unit, inexact = divmod(_SECOND, options["tsresol"])
        if link_type not in LINK_TYPES or inexact:
            return None
        packets: list[tuple[int, int, int, int]] = []
        while start <= size:
            kind, length, interface, high, low, captured, wire_length = unpack(data, start - 28)
            trailer = start + length - 32
            if (
                kind != _PACKET
                or interface != first_interface
                or not start <= trailer <= size - 4
                or unpack_word(data, trailer)[0] != length
            ):
                break
            packets.append(((high << 32 | low) * unit, start, min(start + captured, trailer), wire_length))
            start += length
        file.read(start - 28)
        self._number += len(packets)
        return PacketBlock(link_type, data, packets) if packets else None

    def _blocks(self, file: io.BufferedReader[Any], notes: CaptureNotes) -> Iterator[tuple[int, bytes]]:
        """Yield the type of each block, and its body including the four bytes that repeat its length."""
        read = file.read
        while True:
            kind = read(4)
            self._number += 1
            if kind == _SECTION_TYPE:
                try:
                    self._read_block_shb()
                except (EOFError, Scapy_Exception, MemoryError):
                    notes.damage = notes.damage or f"the section header in block {self._number} is damaged"
                    return
                self._set_byte_order()
                continue
            length_field = read(4)
            if not kind:
                return
            if len(length_field) < 4:
                notes.damage = notes.damage or f"the file ends inside the header of block {self._number}"
                return
            (length,) = self._word.unpack(length_field)
            if not 12 <= length <= MAX_PACKET_BYTES:
                notes.damage = (
                    f"block {self._number} has an impossible length of {length} bytes: the rest of the file is not read"
                )
                return
            body = read(length - 8)
            if len(body) < length - 8:
                notes.damage = notes.damage or f"the file ends inside block {self._number}"
                return
            if body[-4:] != length_field:
                notes.damage = f"block {self._number} has two different lengths: the rest of the file is not read"
                return
            yield self._word.unpack(kind)[0], body

    def _set_byte_order(self) -> None:
        """Set the byte order of a new section."""
        self._word = Struct(self.endian + "I")
        self._block_head = Struct(self.endian + "7I")  # of a block of type _PACKET
        self._packet_head = Struct(self.endian + "5I")
        self._old_packet_head = Struct(self.endian + "HH4I")

    def _read_other_block(self, kind: int, body: bytes, notes: CaptureNotes) -> None:
        if kind == _INTERFACE:
            self._read_block_idb(body[:-4], 0)
        elif kind == _SECRETS:
            secrets_type, length = Struct(self.endian + "II").unpack_from(body)
            if secrets_type == _TLS_KEY_LOG:
                text = body[8 : min(8 + length, len(body) - 4)]
                notes.tls_keys += text.decode("ascii", errors="replace") + "\n"
