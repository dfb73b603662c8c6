"""A record or field in full, as rows of styled text: its facts, then its whole value."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from kproxy.browse.fields.field import FieldView
from kproxy.browse.fields.records import MAX_BYTES, Form, Record, RecordPart, part, record_of
from kproxy.outputs.text import Piece
from kproxy.trace.formatting import safe

Row = list[Piece]

#: Maximum number of lines shown of a value, and of headers shown of a record.
_MAX_LINES = 5_000
_MAX_HEADERS = 200


def full_value(chain: list[FieldView], form: Form = Form.FITS) -> Iterator[Row]:
    """Yield the rows for a field; for a record, its key, value and headers.

    Args:
        chain: The fields on the path to the field, outermost first.
        form: How bytes are shown.
    """
    record = record_of(chain, form)
    if record is not None:
        yield from _record_rows(record)
        return
    field = chain[-1]
    if field.kind:
        yield [("kind  ", "dim"), (field.kind, "")]
    if field.start is not None and field.end is not None:
        yield [("bytes ", "dim"), (f"{field.start}..{field.end} of the frame", "")]
    if field.meaning:
        yield [("means ", "dim"), (safe(field.meaning), "")]
    yield from _value_rows("value", _part(field, form))


def _part(field: FieldView, form: Form) -> RecordPart:
    if field.value is None or isinstance(field.value, str | bytes | memoryview):
        return part(field, form)
    return RecordPart("", field.text)


def _record_rows(record: Record) -> Iterator[Row]:
    yield [("offset     ", "dim"), (str(record.offset), "name")]
    if record.timestamp is not None and record.timestamp >= 0:
        yield [("timestamp  ", "dim"), (f"{_time_text(record.timestamp)}  ", ""), (f"{record.timestamp} ms", "dim")]
    for name, value in record.headers[:_MAX_HEADERS]:
        yield from _value_rows(f"header {safe(name)}", value)
    if (more_count := len(record.headers) - _MAX_HEADERS) > 0:
        yield [(f"and {more_count:,} more headers", "warning")]
    yield from _value_rows("key", record.key)
    yield from _value_rows("value", record.value)


def _time_text(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    except (ValueError, OverflowError, OSError):
        return "no date"


def _value_rows(name: str, value: RecordPart) -> Iterator[Row]:
    facts = [value.form] if value.form else []
    if value.size is not None:
        facts.append(f"{value.size:,} byte{'s' * (value.size != 1)}")
    if value.schema_id is not None:
        facts.append(f"schema {value.schema_id}")
    yield []
    yield [(name, "name"), (f"  {', '.join(facts)}", "dim")]
    lines = value.text.expandtabs(4).splitlines()
    for line in lines[:_MAX_LINES]:
        yield [(safe(line), "")]
    if (more_count := len(lines) - _MAX_LINES) > 0:
        yield [(f"and {more_count:,} more lines", "warning")]
    if value.cut:
        total_text = "" if value.size is None else f" of {value.size:,}"
        yield [(f"the first {MAX_BYTES:,}{total_text}; copy the exchange as JSON or hex (y) for all", "warning")]
