"""Checks for implausible values: they decode, but usually result from reading a few bytes too early or too late."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dissectors import schemas
from dissectors.wire.layout import Field

#: Returns whether a value of a field is plausible.
PlausibilityCheck = Callable[[Any], bool]


@functools.cache
def error_codes() -> frozenset[int]:
    """Kafka's error codes."""
    return frozenset(each.code for each in schemas.errors())


def plausibility_check(field: Field) -> PlausibilityCheck | None:
    """The check for values of a field; None for most fields, in which every value is plausible."""
    if field.array:
        return None
    if field.type == "int16" and field.name.endswith("error_code"):
        return _is_error_code
    if field.type == "int32" and field.name == "port":
        return _is_port
    if field.type == "string" and field.entity == "topicName":
        return _is_topic_name
    return None


def _is_error_code(value: int) -> bool:
    return value in error_codes()


def _is_port(value: int) -> bool:
    return -1 <= value < 65536


def _is_topic_name(value: str | None) -> bool:
    return value is None or "\0" not in value
