"""A cursor that reads record data field by field and creates a node for each field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from dissectors.records.formats import count_text
from dissectors.records.varint import read_zigzag
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node
from dissectors.wire.primitives import Irregularity


class Cursor:
    """A position in ``data[pos:end]``, and the nodes read so far.

    In decompressed data, every node covers `span`, the compressed bytes in the frame, and errors point to its start.
    After an error, `pos` is at the field that could not be read.
    """

    def __init__(self, data: bytes, pos: int, end: int, span: tuple[int, int] | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.span = span
        self.nodes: list[Node] = []

    def error_at(self, message: str, offset: int, *path: str) -> DecodeError:
        """Return an error at `offset` of `data`. `path` is relative to the open structs, whose names are prepended."""
        if self.span is None:
            return DecodeError(message, offset=offset, path=path)
        return DecodeError(f"{message} (byte {offset} once decompressed)", offset=self.span[0], path=path)

    def read_leaf(self, name: str, end: int, value: object) -> Node:
        """Read the bytes up to `end` as one field."""
        start, stop = self.span or (self.pos, end)
        node = Node(name, start, stop, value)
        self.nodes.append(node)
        self.pos = end
        return node

    @contextmanager
    def struct(self, name: str) -> Iterator[Node]:
        """Make the fields that are read inside the ``with`` block the children of one node."""
        start, stop = self.span or (self.pos, self.pos)
        node = Node(name, start, stop)
        self.nodes.append(node)
        outer, self.nodes = self.nodes, node.children
        try:
            yield node
        except DecodeError as error:
            error.path = (name, *error.path)
            raise
        finally:
            self.nodes = outer
            if self.span is None:
                node.end = self.pos

    def read_integer(self, name: str, code: str) -> Node:
        """Read a big-endian integer; `code` is its format character in `struct`."""
        size = struct.calcsize(">" + code)
        remaining = self.end - self.pos
        if size > remaining:
            raise self.error_at(f"needs {count_text(size, 'byte')}, {remaining} left", self.pos, name)
        return self.read_leaf(name, self.pos + size, struct.unpack_from(">" + code, self.data, self.pos)[0])

    def read_varint(self, name: str, bits: int = 32) -> Node:
        """Read a signed varint, or a varlong if `bits` is 64."""
        value, end = self._read_varint(name, bits)
        return self.read_leaf(name, end, value)

    def read_bytes(self, name: str, *, varint: bool = True, nullable: bool = True) -> Node:
        """Read length-prefixed bytes as one leaf; length -1 is null."""
        size, start = self._read_varint(name) if varint else self._read_int32(name)
        if size < (-1 if nullable else 0):
            raise self.error_at(f"length is {size}", self.pos, name)
        remaining = self.end - start
        if size > remaining:
            raise self.error_at(f"length {size} does not fit: {count_text(remaining, 'byte')} left", self.pos, name)
        end = start + max(size, 0)
        return self.read_leaf(name, end, None if size < 0 else self.data[start:end])

    def _read_varint(self, name: str, bits: int = 32) -> tuple[int, int]:
        # At most the bytes of one varint, and none beyond the end of the records.
        window = self.data[self.pos : min(self.pos + 10, self.end)]
        try:
            value, size = read_zigzag(window, 0, bits)
        except IndexError:
            raise self.error_at("bytes end inside a varint", self.pos, name) from None
        except Irregularity:
            raise self.error_at(f"varint of more than {bits} bits", self.pos, name) from None
        return value, self.pos + size

    def _read_int32(self, name: str) -> tuple[int, int]:
        remaining = self.end - self.pos
        if remaining < 4:
            raise self.error_at(f"needs 4 bytes for its length, {remaining} left", self.pos, name)
        return int.from_bytes(self.data[self.pos : self.pos + 4], "big", signed=True), self.pos + 4
