"""CloudEvents: structured (one JSON object) and binary (attributes in headers, the data in the value).

Source: CloudEvents 1.0, its JSON event format and its Kafka protocol binding.
"""

from __future__ import annotations

from typing import Any

from dissectors.values.plain_formats import decode_plain, plain_format
from dissectors.values.value import DecodedValue, ValueContext

_REQUIRED = frozenset({"specversion", "id", "source", "type"})
_PREFIX = "ce_"


def is_attribute(header: str) -> bool:
    """Whether the header of this name is an attribute of an event in binary mode."""
    return header.startswith(_PREFIX)


def structured_event(value: Any) -> DecodedValue | None:
    """Return an event in the JSON format, recognised by its required attributes; None for other values."""
    if isinstance(value, dict) and value.keys() >= _REQUIRED:
        return DecodedValue("cloudevents", value, type=str(value["type"]))
    return None


@plain_format(rank=10)
def binary_event(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Return an event in binary mode: header attributes, and the decoded value as ``data``; None for other values."""
    attributes = {
        name.removeprefix(_PREFIX): (value or b"").decode() for name, value in context.headers if is_attribute(name)
    }
    if context.is_key or not attributes.keys() >= _REQUIRED:
        return None
    inner = decode_plain(data, ValueContext(context.topic, limits=context.limits))
    return DecodedValue("cloudevents", {**attributes, "data": inner.data}, inner.is_guess, type=attributes["type"])
