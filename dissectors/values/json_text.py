"""JSON objects and arrays, and formats that are JSON of a known shape."""

from __future__ import annotations

import json
from typing import Any

from dissectors.values import cloud_events, connect_json, debezium
from dissectors.values.plain_formats import plain_format
from dissectors.values.value import DecodedValue, ValueContext


@plain_format(rank=20)
def json_text(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Decode an object or array. A lone number or string counts as text, because it may mean anything."""
    if data.lstrip(b" \t\r\n\xef\xbb\xbf")[:1] not in (b"{", b"["):
        return None
    value = parse_json(data)
    return (
        cloud_events.structured_event(value)
        or connect_json.connect_json_value(value)
        or debezium.change_event(value)
        or DecodedValue("json", value)
    )


def parse_json(data: bytes) -> Any:
    """Parse JSON in UTF-8, with or without a byte order mark.

    Raises:
        ValueError: It is not JSON, or has NaN or Infinity.
        RecursionError: It is nested too deeply.
    """
    return json.loads(data.decode("utf-8-sig"), parse_constant=_refuse)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
