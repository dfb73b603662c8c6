"""Bodies and frames without any part of keys, values and headers, for lines without `--payloads` and `--detail raw`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dissectors import embedded
from dissectors.embedded import redaction
from dissectors.embedded.registry import Row
from dissectors.messages.message import Message, walk_message
from dissectors.wire.node import Node
from kproxy.inspection.record_data import has_records, record_data

WITHHELD: Final = "(withheld)"


def withhold_records(message: Message, body: Row) -> Row:
    """The body, as `embedded.presentable` made it, with the sizes of keys, values and headers in their place.

    They have the form of decoded ones (docs/payloads.md). Null stays null, and so does what kproxy has decoded anyway.
    """
    for _, _, batches in record_data(message, body):
        for batch in batches:
            for name, value in batch.items():
                if isinstance(value, bytes | memoryview):
                    batch[name] = _size(value)
            for record in batch.get("records", ()):
                for name in ("key", "value"):
                    if isinstance(data := record.get(name), bytes | memoryview):
                        record[name] = _size(data)
                record["headers"] = [
                    {"key": WITHHELD, "value": None if each["value"] is None else _size(each["value"])}
                    for each in record.get("headers", ())
                ]
    return body


def frame_without_records(message: Message) -> bytes:
    """The frame with its secrets, keys, values and headers set to zero, and compressed records completely."""
    frame = redaction.redacted_frame(message)
    if not has_records(message):
        return frame
    body = next((node for node in walk_message(message).nodes if node.name == "body"), None)
    if body is None:
        return frame
    embedded.expand_nodes(message, body)
    shown = bytearray(frame)
    for start, end in _spans(body, inside=False):
        shown[start:end] = bytes(end - start)
    return bytes(shown)


def _spans(node: Node, *, inside: bool) -> Iterator[tuple[int, int]]:
    """The spans of texts and bytes inside record data. Its fields are called ``records`` in every message."""
    inside = inside or node.name == "records"
    if inside and not node.children and isinstance(node.value, bytes | memoryview | str):
        yield node.start, node.end
    for child in node.children:
        yield from _spans(child, inside=inside)


def _size(data: Any) -> dict[str, str]:
    return {"format": WITHHELD, "data": f"({len(data)} byte{'s' * (len(data) != 1)})"}
