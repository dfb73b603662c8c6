"""Parse Avro schemas from JSON text to types with resolved names.

Source: the Avro 1.12 specification, "Schema Declaration" and "Names".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from dissectors.values.errors import SchemaError
from dissectors.values.value import Schema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_MAX_NESTED = 100


@dataclass(slots=True, eq=False)
class AvroType:
    """An Avro type. It may be recursive through `fields`, `items` and `branches`, which are set after construction.

    `kind` is a primitive, or ``record``, ``enum``, ``array``, ``map``, ``union`` or ``fixed``. `items` is the type of
    the elements of an array or map. `scale` belongs to the logical type ``decimal``. `defaults` are the fields with a
    default, `aliases` the other names of fields; `has_default` is for an enum.
    """

    kind: str
    name: str | None = None
    logical: str | None = None
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[tuple[str, AvroType], ...] = ()
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    defaults: frozenset[str] = frozenset()
    aliases: Mapping[str, tuple[str, ...]] = dataclass_field(default_factory=dict)
    has_default: bool = False
    #: Whether values take no bytes, so that their number is not bounded by the data.
    is_empty: bool = False


def parse(schema: Schema) -> AvroType:
    """Parse a schema. Named types that it does not define are looked up in its references.

    Raises:
        SchemaError: The schema is invalid, or a name is unknown.
    """
    return _Parser(schema.references).parse_text(schema.text)


class _Parser:
    def __init__(self, references: Mapping[str, Schema]) -> None:
        self._references = dict(references)
        self._named: dict[str, AvroType] = {}

    def parse_text(self, text: str, depth: int = 0) -> AvroType:
        try:
            declaration = json.loads(text)
        except (ValueError, RecursionError):
            raise SchemaError("it is not JSON") from None
        return self._parse_type(declaration, "", depth)

    def _parse_type(self, declaration: Any, namespace: str, depth: int) -> AvroType:
        if depth > _MAX_NESTED:
            raise SchemaError("it is nested too deeply")
        if isinstance(declaration, str):
            return (
                AvroType(declaration, is_empty=declaration == "null")
                if declaration in PRIMITIVES
                else self._find_type(declaration, namespace, depth)
            )
        if isinstance(declaration, list):
            return AvroType(
                "union", branches=tuple(self._parse_type(branch, namespace, depth + 1) for branch in declaration)
            )
        if not isinstance(declaration, dict) or "type" not in declaration:
            raise SchemaError("a type is neither a name, a list nor an object with a type")
        kind = declaration["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._parse_definition(declaration, namespace, depth)
        if kind in ("array", "map"):
            name = "items" if kind == "array" else "values"
            return AvroType(kind, items=self._parse_type(_required_member(declaration, name), namespace, depth + 1))
        nested_type = self._parse_type(kind, namespace, depth + 1)
        if nested_type.kind in PRIMITIVES:
            _set_logical(nested_type, declaration)
        return nested_type

    def _parse_definition(self, declaration: dict[str, Any], namespace: str, depth: int) -> AvroType:
        name = full_name(declaration, namespace)
        kind = "record" if declaration["type"] == "error" else declaration["type"]
        avro_type = self._named[name] = AvroType(kind, name)
        namespace = name.rpartition(".")[0]
        if kind == "enum":
            avro_type.symbols = tuple(map(str, _list_member(declaration, "symbols")))
            avro_type.has_default = "default" in declaration
        elif kind == "fixed":
            avro_type.size = _count_member(declaration, "size")
            avro_type.is_empty = avro_type.size == 0
            _set_logical(avro_type, declaration)
        else:
            avro_type.fields = tuple(
                (
                    str(_required_member(field, "name")),
                    self._parse_type(_required_member(field, "type"), namespace, depth + 1),
                )
                for field in _list_member(declaration, "fields")
            )
            declared_fields = declaration["fields"]
            avro_type.defaults = frozenset(str(field["name"]) for field in declared_fields if "default" in field)
            avro_type.aliases = {
                str(field["name"]): tuple(map(str, _list_member(field, "aliases")))
                for field in declared_fields
                if "aliases" in field
            }
            avro_type.is_empty = all(field_type.is_empty for _, field_type in avro_type.fields)
        return avro_type

    def _find_type(self, name: str, namespace: str, depth: int) -> AvroType:
        names = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        for candidate in names:
            if candidate in self._named:
                return self._named[candidate]
        for candidate in names:
            if (reference := self._references.pop(candidate, None)) is not None:
                parser = _Parser({**reference.references, **self._references})
                parser._named = self._named
                parsed = parser.parse_text(reference.text, depth + 1)
                return self._named.get(candidate, parsed)
        raise SchemaError(f"it uses {names[0]}, which is neither defined nor referenced")


def full_name(declaration: dict[str, Any], namespace: str = "") -> str:
    """Return the name of a record, enum or fixed type with its namespace.

    Raises:
        SchemaError: The declaration has no name.
    """
    name = str(_required_member(declaration, "name"))
    namespace = str(declaration.get("namespace", namespace) or "")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _set_logical(avro_type: AvroType, declaration: dict[str, Any]) -> None:
    logical, scale = declaration.get("logicalType"), declaration.get("scale", 0)
    if isinstance(logical, str):
        avro_type.logical = logical
    if isinstance(scale, int):
        avro_type.scale = scale


def _required_member(declaration: Any, name: str) -> Any:
    if not isinstance(declaration, dict) or name not in declaration:
        raise SchemaError(f"{name} is missing")
    return declaration[name]


def _list_member(declaration: dict[str, Any], name: str) -> list[Any]:
    if not isinstance(value := _required_member(declaration, name), list):
        raise SchemaError(f"{name} is not a list")
    return value


def _count_member(declaration: dict[str, Any], name: str) -> int:
    if not isinstance(value := _required_member(declaration, name), int) or value < 0:
        raise SchemaError(f"{name} is not a count")
    return value
