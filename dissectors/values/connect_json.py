"""Kafka Connect's JsonConverter with ``schemas.enable``: an object of ``schema`` and ``payload``.

Source: Kafka's JsonConverter and JsonSchema.
"""

from __future__ import annotations

from typing import Any

from dissectors.values import debezium
from dissectors.values.value import DecodedValue


def connect_json_value(value: Any) -> DecodedValue | None:
    """Return the payload; its type is the schema's name. A null schema is valid only with a null payload."""
    if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
        return None
    schema, payload = value["schema"], value["payload"]
    if schema is None and payload is None:
        return DecodedValue("connect-json", None)
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return None
    name = schema.get("name")
    return debezium.change_event(payload) or DecodedValue(
        "connect-json", payload, type=name if isinstance(name, str) else None
    )
