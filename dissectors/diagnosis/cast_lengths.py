"""Find lengths of records that were cast to 16 bits: the batches that follow are longer than the length says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.diagnosis.diagnose import right_layout
from dissectors.messages.message import Message
from dissectors.wire.node import Node
from dissectors.wire.paths import render
from dissectors.wire.walk import walk

#: The greatest length that a signed 16-bit integer can hold.
_MAX_INT16 = (1 << 15) - 1

#: Size of a batch's header up to and including its length, smallest length, offset of the format, newest format.
_LOG_OVERHEAD, _MIN_LENGTH, _MAGIC_AT, _NEWEST_MAGIC = 12, 14, 16, 2


class CastLength(NamedTuple):
    """A length of records: its field, its bytes in the frame, its value, and the size of the batches that follow."""

    path: str
    start: int
    end: int
    written: int
    size: int

    @property
    def sentence(self) -> str:
        """The error in one sentence."""
        actual = f"records of {self.size} bytes follow"
        return (
            f"{self.path} has length {self.written}, but {actual}: the length was cast to int16 ({self.size} & 0xffff)"
        )

    @property
    def hint(self) -> str:
        """What to change in the writer."""
        return "write the length of records with all its bits: the length of strings has 16, that of records has 32"


def find_cast_length(message: Message) -> CastLength | None:
    """Find the length of records that lost its upper bits, in a frame that does not decode."""
    if message.error is None and not message.trailing and message.diagnosis is None:
        return None
    layout, frame = right_layout(message), message.frame
    for path, node in _records_nodes(walk(layout, frame, 4).nodes, ()) if layout is not None else ():
        value_size = len(node.value) if node.value is not None else -1
        start = node.end - max(value_size, 0)
        size = _batches_size(frame, start)
        if size > _MAX_INT16 and size != value_size and (size - value_size) % (1 << 16) == 0:
            return CastLength(render(path[1:]), node.start, start, value_size, size)
    return None


def _records_nodes(nodes: list[Node], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    for node in nodes:
        if node.name == "records":
            yield (*path, node.name), node
        else:
            yield from _records_nodes(node.children, (*path, node.name))


def _batches_size(frame: bytes, start: int) -> int:
    """Return the total size of the batches that begin at an offset."""
    pos = start
    while len(frame) - pos > _MAGIC_AT and frame[pos + _MAGIC_AT] <= _NEWEST_MAGIC:
        size = int.from_bytes(frame[pos + 8 : pos + _LOG_OVERHEAD], "big", signed=True)
        if size < _MIN_LENGTH or pos + _LOG_OVERHEAD + size > len(frame):
            break
        pos += _LOG_OVERHEAD + size
    return pos - start
