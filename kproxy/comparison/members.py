"""The order of group members, which depends on their ids: brokers choose these at random."""

from __future__ import annotations

from typing import Any, Final

from kproxy.trace.encoding import encode_json

_IDS: Final = frozenset({"client_host", "client_id", "member_id"})


def with_sorted_members(value: Any) -> Any:
    """A body whose arrays of members are in the order of what the members have, without their ids."""
    if isinstance(value, dict):
        return {name: with_sorted_members(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    elements = [with_sorted_members(each) for each in value]
    if elements and all(isinstance(each, dict) and "member_id" in each for each in elements):
        elements.sort(key=lambda each: encode_json({name: each[name] for name in each if name not in _IDS}))
    return elements
