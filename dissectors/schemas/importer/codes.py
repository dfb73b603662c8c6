"""Write Kafka's error codes and API keys as a Python module, so that code can refer to them by type-checked names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HEAD = '''"""Kafka's error codes and API keys by name. `kproxy schemas import` writes this file: do not edit it."""

from __future__ import annotations

from enum import IntEnum


class Error(IntEnum):
    """Every error code of the imported releases (org.apache.kafka.common.protocol.Errors)."""

'''
_BETWEEN = '''

class ApiKey(IntEnum):
    """Every API of the imported releases (org.apache.kafka.common.protocol.ApiKeys)."""

'''


def module(errors: Mapping[int, Mapping[str, Any]], apis: Mapping[int, Mapping[str, Any]]) -> bytes:
    """Return the source of the module."""
    names = ((_WORD.sub("_", api["name"]).upper(), key) for key, api in apis.items())
    return (
        _HEAD + _member_lines((error["name"], code) for code, error in errors.items()) + _BETWEEN + _member_lines(names)
    ).encode()


def _member_lines(members: Iterable[tuple[str, int]]) -> str:
    return "".join(f"    {name} = {value}\n" for name, value in members)
