"""Values that can hardly be: they can be read, but are mostly what a shift by a few bytes makes of others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dissectors import schemas
from dissectors.wire.layout import Field

#: Says whether a value of a field may be right.
Plausible = Callable[[Any], bool]


@functools.cache
def error_codes() -> frozenset[int]:
    """The error codes that Kafka knows."""
    return frozenset(each.code for each in schemas.errors())


def check_of(field: Field) -> Plausible | None:
    """What tells an implausible value of a field, None for most fields: any value may be right."""
    if field.array:
        return None
    if field.type == "int16" and field.name.endswith("error_code"):
        return _is_error_code
    if field.type == "int32" and field.name == "port":
        return _is_port
    if field.type == "string" and field.entity == "topicName":
        return _is_name
    return None


def _is_error_code(value: int) -> bool:
    return value in error_codes()


def _is_port(value: int) -> bool:
    return -1 <= value < 65536


def _is_name(value: str | None) -> bool:
    return value is None or "\0" not in value
