"""Makes the order of group members independent of their ids, which brokers choose at random."""

from __future__ import annotations

from typing import Any, Final

from kproxy.trace.encoding import encode_json

_IDS: Final = frozenset({"client_host", "client_id", "member_id"})


def with_sorted_members(value: Any) -> Any:
    """Return the body with its arrays of members sorted by the members' fields other than their ids."""
    if isinstance(value, dict):
        return {name: with_sorted_members(inner) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    elements = [with_sorted_members(element) for element in value]
    if elements and all(isinstance(element, dict) and "member_id" in element for element in elements):
        elements.sort(key=lambda element: encode_json({name: element[name] for name in element if name not in _IDS}))
    return elements
