"""Checks for implausible values: they decode, but usually result from reading a few bytes too early or too late.

`usual_range` is a weaker check: values outside it are possible, but rare enough to compare the frame with other
layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dissectors import schemas
from dissectors.wire.layout import WIDTHS, Field

#: Returns whether a value of a field is plausible.
PlausibilityCheck = Callable[[Any], bool]


@functools.cache
def error_codes() -> frozenset[int]:
    """Return Kafka's error codes."""
    return frozenset(error.code for error in schemas.errors())


def plausibility_check(field: Field) -> PlausibilityCheck | None:
    """Return the check for values of a field; None for most fields, in which every value is plausible."""
    if field.array:
        return None
    if field.type == "int16" and field.name.endswith("error_code"):
        return _is_error_code
    if field.type == "int32" and field.name == "port":
        return _is_port
    if field.type == "string" and field.entity == "topicName":
        return _is_topic_name
    return None


#: The lowest and highest usual value of integers by field name, and by type for all other names.
_USUAL_RANGES = {
    "throttle_time_ms": (0, 60_000),
    "isolation_level": (0, 1),
    "key_type": (0, 2),
    "endpoint_type": (1, 2),
    "permission_type": (0, 3),
    "permission_type_filter": (0, 3),
    "operation": (0, 15),
    "resource_type": (0, 32),
    "resource_type_filter": (0, 32),
    "pattern_type": (0, 4),
    "pattern_type_filter": (0, 4),
    "resource_pattern_type": (0, 4),
    "acks": (-1, 1),
    "replication_factor": (-1, 100),
}
_USUAL_RANGES_BY_TYPE = {
    "int8": (-2, 64),
    "int16": (-2, 20_000),
    "int32": (-3, (1 << 24) - 1),
    "int64": (-6, (1 << 33) - 1),
}

#: Substrings in the names of integers that may have any value, and of integers that may have any non-negative value.
_UNBOUNDED_NAMES = (
    "session_id",
    "subscription_id",
    "version",
    "authorized_operations",
    "correlation",
    "duration",
    "mask",
    "iterations",
)
_NON_NEGATIVE_NAMES = ("_ms", "time", "bytes", "quota", "size")


def usual_range(field: Field) -> tuple[int, int] | None:
    """Return the lowest and highest usual value of an integer; None for other fields, or if every value is usual."""
    if field.array or field.type not in _USUAL_RANGES_BY_TYPE or field.name.endswith("error_code"):
        return None
    if known_range := _USUAL_RANGES.get(field.name):
        return known_range
    low, high = _USUAL_RANGES_BY_TYPE[field.type]
    if any(part in field.name for part in _UNBOUNDED_NAMES):
        return None
    limit = 1 << (8 * WIDTHS[field.type] - 1)
    return low, limit - 1 if any(part in field.name for part in _NON_NEGATIVE_NAMES) else high


def has_usual_text(field: Field) -> bool:
    """Whether a field is a name, which is usually printable; a length misread as text usually is not."""
    return field.type == "string" and not field.array and not field.name.endswith(_FREE_TEXT_ENDINGS)


#: Suffixes of the names of strings that may contain any characters.
_FREE_TEXT_ENDINGS = ("message", "value", "documentation", "reason", "detail", "client_id")


def _is_error_code(value: int) -> bool:
    return value in error_codes()


def _is_port(value: int) -> bool:
    return -1 <= value < 65536


def _is_topic_name(value: str | None) -> bool:
    return value is None or "\0" not in value
