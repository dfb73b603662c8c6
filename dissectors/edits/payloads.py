"""Edits of what stands inside bytes: record data, and the payloads that members of a group send each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dissectors import records, schemas
from dissectors.edits.targets import change_field, parts
from dissectors.edits.write import write
from dissectors.embedded.registry import VERSION, lenient
from dissectors.records.formats import entries
from dissectors.records.layout_departures import write_departed
from dissectors.records.layout_variants import WAYS
from dissectors.wire.decode import decode
from dissectors.wire.edit import Edit, EditError, kind
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Field, Layout

_FORMAT_2 = 2


def _records(values: Mapping[str, Any], field: str, written: str) -> Mapping[str, Any]:
    """Batches of format 2 are written anew; what is no such batch, or none that reads, stays as it is."""

    def batch(data: bytes, magic: int | None) -> bytes:
        if magic != _FORMAT_2:
            return data
        [read] = records.decode(data)
        return data if "error" in read else write_departed(read, written)

    def change(data: bytes) -> bytes:
        return b"".join(batch(data[each.start : each.end], each.magic) for each in entries(data, 0, len(data)))

    return _changed(values, parts(field), change)


def _said(field: str, written: str) -> str:
    return f"in {field} {WAYS[written].sentence if written in WAYS else f'records are written as {written}'}"


@kind("record_encoding", "written", sentence=_said, values=_records)
def record_encoding(layout: Layout, field: str, written: str) -> Layout:
    """Records of format 2 in one of `layout_variants.WAYS`; length and CRC of the batches are right."""
    if written not in WAYS:
        raise EditError(f"unknown record encoding {written}; use one of {', '.join(WAYS)}")
    return _holds(layout, field, "records")


def _payload(values: Mapping[str, Any], field: str, payload: str, edit: Edit) -> Mapping[str, Any]:
    """Bytes that are no such payload stay as they are."""

    def change(data: bytes) -> bytes:
        try:
            shape = lenient(payload, data, VERSION)
        except DecodeError:
            return data
        read = decode(shape, data)
        body = shape.fields[-1].struct
        if read.error is not None or body is None:
            return data
        return data[:2] + write(edit, body, read.values["data"]) + data[read.end :]

    return _changed(values, parts(field), change)


@kind(
    "embedded_layout",
    "payload",
    "edit",
    sentence="in the {payload} inside {field} {edit}",
    values=_payload,
)
def embedded_layout(layout: Layout, field: str, payload: str, edit: Edit) -> Layout:
    """A payload that begins with its version, e.g. ConsumerProtocolSubscription, is written under its own edit."""
    del edit  # whether it fits depends on the version that the payload has
    try:
        schemas.message(payload)
    except KeyError:
        raise EditError(f"unknown payload {payload}") from None
    return _holds(layout, field, "bytes")


def _holds(layout: Layout, field: str, type_: str) -> Layout:
    """The layout as it is, for the departure is not in it; the field has to be there."""

    def check(one: Field) -> Field:
        if one.type != type_ or one.array:
            raise EditError(f"{field} is not of type {type_}")
        return one

    return change_field(layout, parts(field), check)


def _changed(values: Mapping[str, Any], path: tuple[str, ...], change: Callable[[bytes], bytes]) -> Mapping[str, Any]:
    """The values with those of one field changed, wherever they are."""
    name, *below = path
    value = values.get(name)
    made: Any = value
    if not below:
        value = b"".join(value) if isinstance(value, list) else value  # records may come in pieces
        made = change(bytes(value)) if isinstance(value, bytes | bytearray | memoryview) else value
    elif isinstance(value, Mapping):
        made = _changed(value, tuple(below), change)
    elif isinstance(value, list | tuple):
        made = [_changed(each, tuple(below), change) for each in value]
    return {**values, name: made}
