"""Bodies and frames without any part of keys, values and headers, for lines without `--payloads` and `--detail raw`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dissectors import embedded
from dissectors.embedded import redaction
from dissectors.embedded.record_data import record_data, record_field_names
from dissectors.embedded.registry import Row
from dissectors.messages.message import Message
from dissectors.wire.node import Node
from kproxy.trace.record_values import WITHHELD

#: Bytes of the fields in the same place in every format: offset, length, an epoch or a CRC, and the format (magic).
_COMMON_HEADER: Final = 17
_DAMAGED_BATCH_FIELDS: Final = frozenset({"base_offset", "batch_length", "magic", "error", "unread", "records"})


def withhold_records(message: Message, body: Row) -> Row:
    """Return the body of `embedded.presentable_body` with the sizes of keys, values and headers in their place.

    Sizes have the form of decoded values (docs/payloads.md). Null stays null, and what kproxy always decodes stays.
    """
    leave_out_damaged(message, body)
    for field in record_data(message, body):
        for batch in field.batches:
            for name, value in batch.items():
                if isinstance(value, bytes | memoryview):
                    batch[name] = _size_entry(value)
            for record in batch.get("records", ()):
                leave_out_reasons(record)
                for name in ("key", "value"):
                    if isinstance(data := record.get(name), bytes | memoryview):
                        record[name] = _size_entry(data)
                record["headers"] = [
                    {"key": WITHHELD, "value": None if header["value"] is None else _size_entry(header["value"])}
                    for header in record.get("headers", ())
                ]
    return body


def leave_out_damaged(message: Message, body: Row) -> None:
    """Remove the numbers that may be parts of keys and values from a body.

    These are the numbers in damaged batches, except at their start, and in what seem to be batches after them.
    """
    for field in record_data(message, body):
        batches = field.batches
        damaged_index = next((index for index, batch in enumerate(batches) if "error" in batch), None)
        if damaged_index is not None:
            batch = batches[damaged_index]
            batches[damaged_index:] = [{name: value for name, value in batch.items() if name in _DAMAGED_BATCH_FIELDS}]


def leave_out_reasons(record: Row) -> None:
    """Remove the reasons why parts of a record do not decode, and its control type if the key is not decoded."""
    if not isinstance(record.get("key"), dict):
        record.pop("control", None)
    for name in ("key_error", "value_error"):
        record.pop(name, None)


def frame_without_records(message: Message) -> bytes:
    """Return the frame with zeros in place of secrets and of all record data except uncompressed numbers."""
    frame = redaction.redacted_frame(message)
    if not (fields := record_field_names(message)):
        return frame
    without_records = bytearray(frame)
    for data in _record_data_nodes(embedded.expanded_body(message), fields):
        without_records[data.start : data.end] = bytes(data.end - data.start)
        for start, end in _batch_number_spans(data):
            without_records[start:end] = frame[start:end]
    return bytes(without_records)


def _record_data_nodes(node: Node, fields: frozenset[str]) -> Iterator[Node]:
    for child in node.children:
        if child.name in fields:
            yield child
        else:
            yield from _record_data_nodes(child, fields)


def _batch_number_spans(data: Node) -> Iterator[tuple[int, int]]:
    """Yield the spans of numbers; in a damaged batch only those at its start, and none after it."""
    for batch in data.children:
        if _is_damaged(batch):
            yield batch.start, min(batch.start + _COMMON_HEADER, batch.end)
            return
        yield from _number_spans(batch)


def _is_damaged(node: Node) -> bool:
    return node.name == "unread" or any(map(_is_damaged, node.children))


def _number_spans(node: Node) -> Iterator[tuple[int, int]]:
    """Yield the spans of numbers. Fields from decompressed bytes have their struct's span: the compressed bytes."""
    for child in node.children:
        if child.children:
            yield from _number_spans(child)
        elif isinstance(child.value, int | float) and (child.start, child.end) != (node.start, node.end):
            yield child.start, child.end


def _size_entry(data: Any) -> dict[str, str]:
    return {"format": WITHHELD, "data": f"({len(data)} byte{'s' * (len(data) != 1)})"}
