"""Fields of decoded record keys, values and headers: their data, with the span of the whole key or value."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from dissectors.wire.paths import parts
from kproxy.browse.fields.field import FieldView
from kproxy.outputs.decoded_text import facts, problem
from kproxy.trace.record_values import is_decoded

#: Returns the object of the decoded key, value or header at a path of the body; None if it is not decoded.
DecodedAt = Callable[[str], Mapping[str, Any] | None]

_Span = tuple[int, int] | None


def decoded_at(body: Mapping[str, Any] | None, path: str) -> Mapping[str, Any] | None:
    """Return the decoded key, value or header at a path of the body; see `DecodedAt`."""
    value: Any = body
    for name in parts(path):
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (LookupError, TypeError, ValueError):
            return None
    return value if is_decoded(value) else None


def decoded_field(
    name: str, path: str, decoded: Mapping[str, Any], *, span: _Span = None, data: bytes | None = None, kind: str = ""
) -> FieldView:
    """Return the field of a decoded key, value or header.

    Args:
        name: The field's name.
        path: The field's path.
        decoded: The object described in docs/payloads.md.
        span: The span of its bytes.
        data: Its bytes, decompressed.
        kind: The wire type.
    """
    if data is None and decoded["format"] == "bytes" and isinstance(text := decoded["data"], str):
        with suppress(ValueError):
            data = base64.b64decode(text, validate=True)
    meaning = ": ".join(filter(None, (facts(decoded), problem(decoded))))
    produce = partial(_nested_fields, decoded["data"], path, span)
    field = FieldView(name, path, span, data, kind=kind, meaning=meaning, produce=produce)
    field.decoded = decoded
    return field


def _nested_fields(data: Any, path: str, span: _Span) -> Iterator[FieldView]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield _field(name, f"{path}.{name}", value, span)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield _field(f"[{index}]", f"{path}[{index}]", value, span)
    else:
        yield FieldView("data", f"{path}.data", span, data)


def _field(name: str, path: str, value: Any, span: _Span) -> FieldView:
    if isinstance(value, dict | list) and value:
        count = len(value) if isinstance(value, list) else None
        return FieldView(name, path, span, count=count, produce=partial(_nested_fields, value, path, span))
    return FieldView(name, path, span, value, count=0 if value == [] else None)
