"""Read batches and records on demand, for viewers that show only some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dissectors.records.batch import HEADER, begin_batch, open_records, walk_records
from dissectors.records.compression import DEFAULT_LIMIT, Decompressor
from dissectors.records.cursor import Cursor
from dissectors.records.formats import entries, sentence
from dissectors.records.reader import walk_entry
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node

#: The limit on decompressed bytes of wrapped messages, which are all read at once.
WRAPPED_LIMIT = 8 << 20


class LazyBatch(NamedTuple):
    """A batch: its node and, for a batch of format 2 with a complete header, an iterator over its records.

    The last child of such a node is ``records``, without children. `records` yields the children and, after an error, a
    leaf ``unread`` whose meaning is the error. Other batches have all their children, and `records` is None.
    """

    node: Node
    records: Iterator[Node] | None = None


def batches(frame: bytes, start: int, end: int, *, limit: int = DEFAULT_LIMIT) -> Iterator[LazyBatch]:
    """Read ``frame[start:end]`` as `dissectors.records.walk` does, as far as the iterators are consumed.

    An error becomes the meaning of the node that could not be read. Never raises.
    """
    decompressor, message_decompressor = Decompressor(limit), Decompressor(min(limit, WRAPPED_LIMIT))
    for index, entry in enumerate(entries(frame, start, end)):
        if entry.magic == 2 and entry.end - entry.start >= HEADER.size:
            cursor = Cursor(frame, entry.start, entry.end)
            node = Node(str(index), entry.start, entry.end, children=cursor.nodes)
            header = begin_batch(cursor)
            records_node = Node("records", cursor.pos, entry.end)
            node.children.append(records_node)
            yield LazyBatch(node, _lazy_records(cursor, records_node, header, decompressor))
        else:
            node, error = walk_entry(frame, index, entry, message_decompressor)
            if error is not None:
                node.meaning = _error_text(error)
            yield LazyBatch(node)


def _lazy_records(
    cursor: Cursor, records_node: Node, header: dict[str, Any], decompressor: Decompressor
) -> Iterator[Node]:
    partial_nodes: list[Node] = []
    try:
        records_cursor = open_records(cursor, records_node, header, decompressor)
        records_cursor.nodes = partial_nodes
        for record in walk_records(records_cursor, header):
            partial_nodes.clear()
            yield record
    except DecodeError as error:
        yield from partial_nodes
        start, end = (records_node.start if header["attributes"] & 7 else cursor.pos), records_node.end
        yield Node("unread", start, end, cursor.data[start:end], meaning=_error_text(error))


def _error_text(error: DecodeError) -> str:
    return sentence(error) if error.path else error.message
