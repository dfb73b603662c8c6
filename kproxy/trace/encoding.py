"""Encodes trace lines as JSON and decodes them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dissectors.wire.primitives import escape_surrogates
from kproxy.escaping import json_text
from kproxy.trace.lines import Line

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


def append_line(line: Line, out: bytearray) -> None:
    """Append one encoded line with its newline to `out`."""
    start = len(out)
    try:
        _ENCODER.encode_into(line, out, -1)
        encoded = out[start:]
        if not encoded.isascii() or b"\x7f" in encoded:
            out[start:] = json_text(bytes(encoded))
    except UnicodeEncodeError:
        del out[start:]  # it is incomplete
        out += encode_json(line)
    out += b"\n"


def append_lines(lines: Sequence[Line], out: bytearray) -> None:
    """Append several encoded lines, each with its newline, to `out`. This is faster than one by one."""
    try:
        encoded = _ENCODER.encode_lines(lines)
        is_plain = encoded.isascii() and b"\x7f" not in encoded
    except UnicodeEncodeError:
        is_plain = False
    if is_plain:
        out += encoded
        return
    for line in lines:
        append_line(line, out)


def encode_line(line: Line) -> bytes:
    """Return one encoded line with its newline."""
    return encode_json(line) + b"\n"


def encode_json(value: Any) -> bytes:
    """Return any decoded value as JSON: bytes as base64; invalid UTF-8 and active characters as escapes."""
    try:
        return json_text(_ENCODER.encode(value))
    except UnicodeEncodeError:
        # Invalid UTF-8 is decoded to lone surrogates, which JSON does not allow.
        return json_text(
            _ENCODER.encode(_escape_surrogates(msgspec.to_builtins(value, builtin_types=(bytes, memoryview))))
        )


def _escape_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {_escape_surrogates(key): _escape_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_surrogates(item) for item in value]
    return value


def parse_line(data: bytes | str) -> Line:
    """Parse one line of a trace.

    Raises:
        msgspec.DecodeError: It is not JSON, not a line of a trace, or of a newer format.
    """
    try:
        line: Line = _DECODER.decode(data)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
    return line


def as_mapping(line: Line) -> dict[str, Any]:
    """Return a line as plain dicts and lists, with the column names of the trace and without nulls."""
    mapping: dict[str, Any] = msgspec.to_builtins(line, builtin_types=(bytes, memoryview))
    return mapping


class ColumnReader:
    """Reads some columns of lines: the same as `as_mapping` returns, but only these columns and faster.

    Args:
        names: The columns; each kind of line has only some of them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._plans: dict[type[Line], tuple[dict[str, Any], list[tuple[str, Any]]]] = {}

    def __call__(self, line: Line) -> dict[str, Any]:
        """Return the columns of a line that have a value."""
        kind = type(line)
        constant, columns = self._plans.get(kind) or self._plan(kind)
        copied = constant.copy()
        for name, default in columns:
            value = getattr(line, name)
            if value is None or value is default:
                continue
            if (value_type := type(value)) is not str and value_type is not int:
                if value == []:
                    continue
                value = msgspec.to_builtins(value, builtin_types=(bytes, memoryview))
            copied[name] = value
        return copied

    def _plan(self, kind: type[Line]) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
        """Return the columns that are constant in a kind of line, and the others with the values that a trace omits."""
        constant = {"kind": kind.__struct_config__.tag} if "kind" in self._names else {}
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
        plan = self._plans[kind] = constant, [(name, defaults[name]) for name in self._names if name in defaults]
        return plan


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a trace line."""
    schema: dict[str, Any] = _dedent(msgspec.json.schema(Line))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a kproxy trace, format 1",
        **schema,
    }


def _dedent(schema: Any) -> Any:
    """Return a schema with dedented descriptions: Python 3.13 dedents docstrings, earlier versions do not."""
    if isinstance(schema, dict):
        return {
            name: inspect.cleandoc(value) if name == "description" and isinstance(value, str) else _dedent(value)
            for name, value in schema.items()
        }
    return [_dedent(line) for line in schema] if isinstance(schema, list) else schema
