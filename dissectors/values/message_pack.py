"""MessagePack maps with text keys, and arrays of at least two elements."""

from __future__ import annotations

import msgspec

from dissectors.values.plain_formats import plain_format
from dissectors.values.value import DecodedValue, ValueContext


@plain_format(rank=40)
def message_pack(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Decode a map or array. Other values are not accepted, because bytes may decode as MessagePack by chance."""
    if not (0x80 < data[0] < 0xA0 or 0xDC <= data[0] <= 0xDF):
        return None
    return guess_value("msgpack", msgspec.msgpack.decode(data))


def guess_value(format_: str, value: object) -> DecodedValue | None:
    """Wrap a value if it is a map with text keys or an array of several elements; return None for other values."""
    if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
        return DecodedValue(format_, value, is_guess=True)
    if isinstance(value, list) and len(value) > 1:
        return DecodedValue(format_, value, is_guess=True)
    return None
