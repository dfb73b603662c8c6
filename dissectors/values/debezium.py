"""Debezium's change events: a row before and after a change, the source of the change, and its kind."""

from __future__ import annotations

from typing import Any

from dissectors.values.value import DecodedValue

_OPERATIONS = {"c": "create", "u": "update", "d": "delete", "r": "read", "t": "truncate", "m": "message"}


def change_event(value: Any) -> DecodedValue | None:
    """Return a change event, from JSON or from the payload of Connect's JSON. The type is the kind of change.

    Source: Debezium's Envelope: ``op`` and ``source`` are required.
    """
    if not isinstance(value, dict) or not isinstance(value.get("source"), dict):
        return None
    operation = value.get("op")
    if not isinstance(operation, str) or operation not in _OPERATIONS or "connector" not in value["source"]:
        return None
    return DecodedValue("debezium", value, type=_OPERATIONS[operation])
