"""CBOR maps with text keys, and arrays of at least two elements (RFC 8949). Needs the extra ``payloads``."""

from __future__ import annotations

import io

import cbor2

from dissectors.values.message_pack import guess_value
from dissectors.values.plain_formats import plain_format
from dissectors.values.value import DecodedValue, ValueContext

_SELF_DESCRIBED = b"\xd9\xd9\xf7"


@plain_format(rank=50)
def cbor(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Decode a map or array. It is a guess unless it begins with the tag that marks CBOR."""
    is_marked = data.startswith(_SELF_DESCRIBED)
    if not is_marked and not 0x80 <= data[0] < 0xC0:
        return None
    source = io.BytesIO(data)
    value = cbor2.load(source)
    if source.tell() != len(data):
        return None
    return DecodedValue("cbor", value) if is_marked else guess_value("cbor", value)
