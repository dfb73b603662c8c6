"""Parses requests from frames, and builds response frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dissectors import schemas
from dissectors.wire.decode import decode
from dissectors.wire.encode import encode_into
from dissectors.wire.layout import Field, Layout, cached_on_owner, layout, layout_of_element

#: Maximum number of array elements in a request: the response can have a struct for each. The decoder has the same
#: limit.
_MAX_ELEMENTS: Final = 200_000


class RequestHead(NamedTuple):
    """The header of a request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class UnreadableFrame(Exception):
    """Raised for a frame that is not a request, or has an unknown API or version. The message says what is wrong."""


def read_head(frame: bytes) -> tuple[RequestHead, int]:
    """Parse the header of a frame without its length prefix; return it and the offset of the body.

    Raises:
        UnreadableFrame: The header is invalid.
    """
    if len(frame) < 8:
        raise UnreadableFrame(f"{len(frame)} bytes are too short for a request header")
    key, version = (int.from_bytes(frame[offset : offset + 2], "big", signed=True) for offset in (0, 2))
    api = schemas.api(key)
    if api is None:
        raise UnreadableFrame(f"unknown API key {key}")
    # An unknown version is read with the newest header: the fields we need are in the same place.
    header = layout("RequestHeader", max(1, schemas.header_versions(key, min(version, api.max_version))[0]))
    decoded = decode(header, frame)
    if decoded.error is not None:
        raise UnreadableFrame(f"{api.name} v{version}: {decoded.error}")
    values = decoded.values
    return RequestHead(key, version, values["correlation_id"], values.get("client_id")), decoded.end


def read_body(head: RequestHead, frame: bytes, start: int) -> Mapping[str, Any]:
    """Parse the body of a request.

    Raises:
        UnreadableFrame: The bytes do not match the layout.
    """
    name = schemas.request(head.api_key)
    assert name is not None
    decoded = decode(layout(name, head.version), frame, start)
    if decoded.error is not None:
        raise UnreadableFrame(f"{name} v{head.version}: {decoded.error}")
    # Bytes after the last field are ignored, as in Kafka: librdkafka's first Metadata v13 has three.
    if len(frame) > _MAX_ELEMENTS and _count_elements(decoded.values) > _MAX_ELEMENTS:
        raise UnreadableFrame(f"{name} v{head.version}: its arrays have more than {_MAX_ELEMENTS} elements")
    for warning in decoded.decode_warnings:
        if warning.kind == "null":  # as in Kafka, so that handlers need not check
            raise UnreadableFrame(f"{name} v{head.version}: {'.'.join(warning.path)}: {warning.message}")
    return decoded.values


def _count_elements(value: Any) -> int:
    """Count the elements of all arrays in a value."""
    if isinstance(value, Mapping):
        return sum(map(_count_elements, value.values()))
    if not isinstance(value, list):
        return 0
    return len(value) + (sum(map(_count_elements, value)) if value and isinstance(value[0], Mapping) else 0)


def has_many_elements(value: Any, limit: int) -> bool:
    """Whether the arrays of a body have more than `limit` elements; counts no further than that."""
    remaining, pending = limit, [value]
    while pending:
        values = pending.pop()
        if isinstance(values, Mapping):
            pending += [inner_value for inner_value in values.values() if isinstance(inner_value, Mapping | list)]
        else:
            remaining -= len(values)
            if remaining < 0:
                return True
            pending += [element for element in values if isinstance(element, Mapping)]
    return False


def response_frame(head: RequestHead, body: Mapping[str, Any], version: int | None = None) -> bytearray:
    """Return a response with its length prefix. `version` is for a body whose version is not the request's (KIP-511).

    Raises:
        EncodeError: A value does not fit its type.
    """
    version = head.version if version is None else version
    name = schemas.response(head.api_key)
    assert name is not None
    header = layout("ResponseHeader", schemas.header_versions(head.api_key, version)[1])
    message_layout = layout(name, version)
    frame = bytearray(4)
    encode_into(frame, header, {"correlation_id": head.correlation_id})
    encode_into(frame, message_layout, without_defaults(message_layout, body))
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    return frame


def without_defaults(struct: Layout, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values without tagged fields that have their default value: Kafka does not write these."""
    if not _has_tagged_fields(struct):
        return values
    values_to_send = dict(values)
    for field in (*struct.fields, *struct.tagged):
        if field.name not in values_to_send:
            continue
        value = values_to_send[field.name]
        if field.tag is not None and value == field.default:
            del values_to_send[field.name]
        elif field.struct is not None and value is not None and _has_tagged_fields(field.struct):
            values_to_send[field.name] = _without_nested_defaults(field, value)
    return values_to_send


def _without_nested_defaults(field: Field, value: Any) -> Any:
    assert field.struct is not None
    if field.array:
        return [without_defaults(layout_of_element(field, index), element) for index, element in enumerate(value)]
    return without_defaults(field.struct, value)


@cached_on_owner
def _has_tagged_fields(struct: Layout) -> bool:
    nested_structs = (field.struct for field in (*struct.fields, *struct.tagged) if field.struct is not None)
    return bool(struct.tagged) or any(_has_tagged_fields(nested) for nested in nested_structs)
