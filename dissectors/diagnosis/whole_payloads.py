"""Whole payloads: bytes that are entirely a payload of a group protocol."""

from __future__ import annotations

import functools

from dissectors.embedded.payload_formats import layouts_as_stated
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError

#: Names of fields with payloads of consumers, and the messages in them.
_CONSUMER_PAYLOADS = {
    "assignment": "ConsumerProtocolAssignment",
    "member_assignment": "ConsumerProtocolAssignment",
    "metadata": "ConsumerProtocolSubscription",
    "member_metadata": "ConsumerProtocolSubscription",
}
_MAX_SIZE = 4 << 10


def may_have_payload(field: str) -> bool:
    """Whether a bytes field of this name may have a payload of a consumer."""
    return field in _CONSUMER_PAYLOADS


@functools.lru_cache(256)
def has_whole_payload(field: str, data: bytes) -> bool:
    """Whether the bytes of a field are a payload of a consumer; False for large ones."""
    return 0 < len(data) <= _MAX_SIZE and is_whole_payload(data, _CONSUMER_PAYLOADS[field])


def is_whole_payload(data: bytes, name: str) -> bool:
    """Whether bytes are entirely a payload of the version that they state.

    If this version is later than the known ones, there may be bytes after the last known field.
    """
    try:
        header, body, version = layouts_as_stated(name, data)
    except DecodeError:
        return False
    decoded_header = decode(header, data)
    decoded_body = decode(body, data, decoded_header.end)
    is_later = decoded_header.values.get("version", version) > version
    return (
        decoded_body.error is None and not decoded_body.decode_warnings and (is_later or decoded_body.end == len(data))
    )
