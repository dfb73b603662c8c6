"""Which records of an exchange match a filter, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kproxy.browse.fields.field import FieldView
from kproxy.browse.fields.records import Record, RecordPart
from kproxy.browse.rows.exchange import Exchange, lines_of
from kproxy.browse.rows.row_filter import exchange_columns
from kproxy.browse.session import BrowseSession
from kproxy.filters import Filter

#: Returns whether a record is to be shown.
RecordTest = Callable[[Record], bool]

_PARTS: Final = ("key", "value")


def record_test(session: BrowseSession, exchange: Exchange, row_filter: Filter | None) -> RecordTest | None:
    """Return the test for the records of an exchange that matches a filter; None if all of them are to be shown.

    A record matches if the filter would match the exchange with this record only, so ``api=Fetch and key=k-17`` leaves
    the records with this key. The page's script follows the same rule (kproxy/html/app/matching_records.js).
    """
    if row_filter is None or not (row_filter.reads_records or row_filter.searches_text):
        return None
    columns = dict(exchange_columns(lines_of(exchange)))
    if exchange.row in session.notes:
        note = session.note(exchange.row)
        columns |= {"note": note.text or None, "marked": note.marked}
    matches = row_filter.matches
    return lambda record: matches({**columns, "body": [_decoded_record(record), list(_record_texts(record))]})


def _decoded_record(record: Record) -> dict[str, Any]:
    """Return a record as in the body of a trace line, with what is decoded."""
    fields = {child.name: child for child in record.field.children}
    result: dict[str, Any] = {name: _decoded_value(fields[name]) for name in _PARTS if name in fields}
    if (headers := fields.get("headers")) is not None:
        pairs = zip(record.headers, headers.children, strict=False)
        result["headers"] = [
            {"key": name, "value": _decoded_value(_child(header, "value"))} for (name, _), header in pairs
        ]
    return result


def _decoded_value(field: FieldView | None) -> Any:
    if field is None or (field.value is None and field.decoded is None):
        return None
    return field.decoded if field.decoded is not None else ""


def _child(field: FieldView, name: str) -> FieldView | None:
    return next((child for child in field.children if child.name == name), None)


def _record_texts(record: Record) -> Iterator[str]:
    """Yield the texts of a record, also as they are in its bytes, which a search for text reads."""
    fields = {child.name: child for child in record.field.children}
    for name, part in (("key", record.key), ("value", record.value)):
        yield from _part_texts(part, fields.get(name))
    headers = fields.get("headers")
    for (name, part), header in zip(record.headers, headers.children if headers is not None else (), strict=False):
        yield name
        yield from _part_texts(part, _child(header, "value"))


def _part_texts(part: RecordPart, field: FieldView | None) -> Iterator[str]:
    if part.form != "hex":
        yield part.text
    if field is not None and isinstance(field.value, bytes | memoryview):
        yield bytes(field.value).decode(errors="replace")
