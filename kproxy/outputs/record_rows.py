"""Decoded records as text: a row for each, with topic, partition, offset, key, value and headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from kproxy.outputs.decoded_text import TOMBSTONE, data_text, facts, is_tombstone, problem
from kproxy.trace.formatting import safe
from kproxy.trace.lines import RequestLine, ResponseLine
from kproxy.trace.record_values import is_decoded

#: A piece of text and its style.
Piece = tuple[str, str]

#: The maximum number of records shown of a frame, and of characters shown of their keys, values and headers.
MAX_RECORDS: Final = 60
_KEY_CHARACTERS: Final = 80
_VALUE_CHARACTERS: Final = 400
_HEADER_CHARACTERS: Final = 80


def record_rows(line: RequestLine | ResponseLine) -> Iterator[list[Piece]]:
    """Yield the rows of the records in the body of a frame; none without a body."""
    names = {entry.topic_id: entry.topic for entry in line.topics if entry.topic_id}
    records = _records(line.body, names, "", "")
    is_request = isinstance(line, RequestLine)
    for location, record in islice(records, MAX_RECORDS):
        yield _row(location, record, is_request=is_request)
    if more_count := sum(1 for _ in records):
        yield [(f"... {more_count} more record{'s' * (more_count != 1)} (use --json to get all)", "dim")]


def _records(item: Any, names: Mapping[str, str | None], topic: str, partition: str) -> Iterator[tuple[str, Any]]:
    """Yield the records inside a part of a body, each with its topic and partition."""
    if isinstance(item, list):
        for element in item:
            yield from _records(element, names, topic, partition)
    if not isinstance(item, dict):
        return
    for name, value in item.items():
        if name in ("name", "topic", "topic_name") and isinstance(value, str):
            topic = value
        elif name == "topic_id" and isinstance(value, str):
            topic = names.get(value) or value
        elif name in ("index", "partition_index", "partition") and isinstance(value, int):
            partition = str(value)
        elif name == "records" and isinstance(value, list) and any(map(_is_record, value)):
            yield from ((f"{topic}[{partition}]", batch) for batch in value if isinstance(batch, dict))
        elif isinstance(value, dict | list):
            yield from _records(value, names, topic, partition)


def _is_record(item: Any) -> bool:
    return isinstance(item, dict) and "key" in item and "value" in item


def _row(location: str, record: Mapping[str, Any], *, is_request: bool) -> list[Piece]:
    """Return the row of a record. A Produce request has no offsets yet: its records are counted within their batch."""
    offset = record.get("offset")
    offset_text = "" if offset is None else f" +{offset}" if is_request else f" offset {offset}"
    row: list[Piece] = [(safe(location), "topic"), (f"{offset_text}  ", "dim")]
    if record.get("key") is not None:
        row += [*_value_pieces(record["key"], _KEY_CHARACTERS), ("  ->  ", "dim")]
    row += [(TOMBSTONE, "")] if is_tombstone(record) else _value_pieces(record.get("value"), _VALUE_CHARACTERS)
    for header in record.get("headers") or ():
        row += [(f"  {safe(str(header.get('key')))}: ", "dim"), *_value_pieces(header.get("value"), _HEADER_CHARACTERS)]
    return row


def _value_pieces(item: Any, max_characters: int) -> Iterator[Piece]:
    if not is_decoded(item):
        yield data_text(item, max_characters), ""
        return
    yield facts(item), "dim"
    if item["data"] != item["format"]:  # otherwise all of the data is masked
        yield f" {data_text(item['data'], max_characters)}", ""
    if sentence := problem(item):
        yield f" ({sentence})", "warning"
