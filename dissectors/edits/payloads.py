"""Edits inside bytes fields: edits of record data, and of payloads in group protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dissectors import records
from dissectors.edits.targets import change_field, frame_layout, path_parts
from dissectors.edits.write import write
from dissectors.embedded.coordinators import COMPONENTS, record_names
from dissectors.embedded.payload_formats import PAYLOADS, is_payload, is_record, layouts_as_stated, layouts_for_version
from dissectors.records.formats import entries
from dissectors.records.layout_deviations import write_deviating_batch
from dissectors.records.layout_variants import ENCODINGS
from dissectors.wire.decode import decode
from dissectors.wire.edit import Edit, EditError, kind
from dissectors.wire.errors import DecodeError, EncodeError
from dissectors.wire.layout import Field, Layout, versions

_FORMAT_2 = 2


def _rewrite_records(values: Mapping[str, Any], field: str, written: str) -> Mapping[str, Any]:
    """Rewrite the batches of format 2; leave other bytes, and batches that do not decode, unchanged."""

    def rewrite_batch(data: bytes, magic: int | None) -> bytes:
        if magic != _FORMAT_2:
            return data
        [batch] = records.decode(data)
        return data if "error" in batch else write_deviating_batch(batch, written)

    def change(data: bytes) -> bytes:
        return b"".join(
            rewrite_batch(data[batch_entry.start : batch_entry.end], batch_entry.magic)
            for batch_entry in entries(data, 0, len(data))
        )

    return _change_values(values, path_parts(field), change)


def _records_sentence(field: str, written: str) -> str:
    return f"in {field} {ENCODINGS[written].sentence if written in ENCODINGS else f'records are written as {written}'}"


@kind("record_encoding", "written", sentence=_records_sentence, values=_rewrite_records)
def change_record_encoding(layout: Layout, field: str, written: str) -> Layout:
    """Write records of format 2 in one of `layout_variants.ENCODINGS`; length and CRC of the batches are correct."""
    if written not in ENCODINGS:
        raise EditError(f"unknown record encoding {written}; use one of {', '.join(ENCODINGS)}")
    return _check_field(layout, field, "records")


def _rewrite_payload(values: Mapping[str, Any], field: str, payload: str, edit: Edit) -> Mapping[str, Any]:
    """Rewrite the payload, but leave bytes that do not decode as this payload unchanged."""

    def change(data: bytes) -> bytes:
        try:
            header, body, _ = layouts_as_stated(payload, data)
        except DecodeError:
            return data
        decoded_header = decode(header, data)
        decoded_body = decode(body, data, decoded_header.end)
        if decoded_body.error is not None:
            return data
        values = {"header": decoded_header.values, "body": decoded_body.values}
        return write(edit, frame_layout(header, body), values)[4:] + data[decoded_body.end :]

    if not is_record(payload):
        return _change_values(values, path_parts(field), change)
    return _change_values(values, path_parts(field), lambda data: _change_records(data, payload, change))


def _change_records(data: bytes, payload: str, change: Callable[[bytes], bytes]) -> bytes:
    """Change the keys or values of a coordinator's records that consist of this payload."""
    batches = records.decode(data)
    for record in (record for batch in batches for record in batch.get("records", ())):
        for topic in COMPONENTS:
            names = record_names(topic, bytes(record["key"] or b"")) or ()
            for part, name in zip(("key", "value"), names, strict=False):
                if name == payload and record[part] is not None:
                    record[part] = change(bytes(record[part]))
    return records.encode(batches)


@kind(
    "embedded_layout",
    "payload",
    "edit",
    sentence="in the {payload} inside {field} {edit}",
    values=_rewrite_payload,
)
def change_embedded_layout(layout: Layout, field: str, payload: str, edit: Edit) -> Layout:
    """Apply another edit to a versioned payload, e.g. ConsumerProtocolSubscription, or to coordinators' records.

    For that edit, the payload is a frame: the version before it, if any, is ``header.version``.
    """
    del edit  # whether it applies depends on the payload's version
    if not is_payload(payload):
        raise EditError(f"unknown payload {payload}; use one of {', '.join(PAYLOADS)}, or a coordinator's record")
    return _check_field(layout, field, "records" if is_record(payload) else "bytes")


def _inline_payload(values: Mapping[str, Any], field: str, payload: str, payload_version: int) -> Mapping[str, Any]:
    """Return the values with the payload as a struct instead of bytes."""
    del payload_version

    def change(data: bytes) -> Any:
        try:
            header, body, _ = layouts_as_stated(payload, data)
        except DecodeError as error:
            raise EncodeError(f"{field} is not a {payload}: {error.message}") from None
        decoded_header = decode(header, data)
        return decoded_header.values | decode(body, data, decoded_header.end).values

    return _change_values(values, path_parts(field), change)


@kind(
    "length_missing", "payload", "payload_version", sentence="the length of {field} is missing", values=_inline_payload
)
def omit_length(layout: Layout, field: str, payload: str, payload_version: int) -> Layout:
    """Write the payload in a bytes field without the length before it."""
    if payload not in PAYLOADS or payload_version not in versions(payload):
        raise EditError(f"unknown payload {payload} v{payload_version}; use one of {', '.join(PAYLOADS)}")
    header, body, _ = layouts_for_version(payload, payload_version)
    inlined = replace(body, fields=(*header.fields, *body.fields))

    def change(layout_field: Field) -> Field:
        return Field(layout_field.name, "struct", struct=inlined, default={})

    return change_field(_check_field(layout, field, "bytes"), path_parts(field), change)


def _check_field(layout: Layout, field: str, type_: str) -> Layout:
    """Check the field and return the layout unchanged: these edits change values, not the layout."""

    def check(layout_field: Field) -> Field:
        if layout_field.type != type_ or layout_field.array:
            raise EditError(f"{field} is not of type {type_}")
        return layout_field

    return change_field(layout, path_parts(field), check)


def _change_values(
    values: Mapping[str, Any], path: tuple[str, ...], change: Callable[[bytes], bytes]
) -> Mapping[str, Any]:
    """Return the values with every occurrence of one field changed."""
    name, *inner_path = path
    value = values.get(name)
    changed: Any = value
    if not inner_path:
        value = b"".join(value) if isinstance(value, list) else value  # records may be a list of byte strings
        changed = change(bytes(value)) if isinstance(value, bytes | bytearray | memoryview) else value
    elif isinstance(value, Mapping):
        changed = _change_values(value, tuple(inner_path), change)
    elif isinstance(value, list | tuple):
        changed = [_change_values(element, tuple(inner_path), change) for element in value]
    return {**values, name: changed}
