"""Tags of the fields of a schema, as in Confluent's data contracts, e.g. ``PII``.

Avro and JSON Schema have tags in ``confluent:tags`` of a field, a property or a type, Protobuf in the options
``confluent.field_meta`` and ``confluent.message_meta``.

Source: Confluent's "Data Contracts for Schema Registry", "Tags", and meta.proto.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from dissectors.values.errors import SchemaError
from dissectors.values.value import Schema

EVERYTHING: Final = "*"

_MAX_NESTED = 64


@functools.lru_cache(256)
def tagged_names(schema: Schema, tags: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the fields with one of these tags, in a schema and its references.

    Args:
        schema: The schema.
        tags: The tags, as shell patterns.

    Returns:
        The names, without the types that they belong to. For a type with a tag, the names of its fields. ``*`` if the
        names cannot be determined, or if the schema cannot be read.
    """
    names: set[str] = set()
    pending, seen = [schema], set()
    while pending:
        schema_part = pending.pop()
        if id(schema_part) not in seen:
            seen.add(id(schema_part))
            pending += schema_part.references.values()
            names.update(
                _tagged_in_protobuf(schema_part.text, tags)
                if schema_part.type == "PROTOBUF"
                else _tagged_in_json(schema_part.text, tags)
            )
    return frozenset(names)


def _matches(value: Any, patterns: tuple[str, ...]) -> bool:
    tags = value if isinstance(value, list) else [value]
    return any(fnmatchcase(str(tag), pattern) for tag in tags for pattern in patterns)


def _tagged_in_protobuf(text: str, patterns: tuple[str, ...]) -> Iterator[str]:
    proto_text = importlib.import_module("dissectors.values.proto_text")  # needs the extra
    try:
        yield from _tagged_fields(proto_text.parsed_file(text).file_elements, patterns)
    except (SchemaError, RecursionError):
        yield EVERYTHING


def _tagged_fields(elements: list[Any], patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of tagged fields among the elements of a file, message, oneof or group."""
    for element in elements:
        for option in getattr(element, "options", None) or ():
            if "confluent.field_meta" in option.name and _matches(_texts(option.value), patterns):
                yield element.name
        option_name = getattr(element, "name", "") if hasattr(element, "value") else ""
        if "confluent.message_meta" in option_name and _matches(_texts(element.value), patterns):
            yield EVERYTHING
        yield from _tagged_fields(getattr(element, "elements", []), patterns)


def _texts(value: Any) -> list[str]:
    """Return the texts in the value of an option: ``tags``, but also other parameters, which do no harm here."""
    if isinstance(value, list):
        return [text for element in value for text in _texts(element)]
    if (elements := getattr(value, "elements", None)) is not None:  # a message
        return [text for element in elements for text in _texts(element.value)]
    return [str(value)]


def _tagged_in_json(text: str, patterns: tuple[str, ...]) -> Iterator[str]:
    try:
        yield from _tagged_in_declaration(json.loads(text), None, patterns, 0)
    except (ValueError, RecursionError):
        yield EVERYTHING


def _tagged_in_declaration(declaration: Any, name: str | None, patterns: tuple[str, ...], depth: int) -> Iterator[str]:
    """Yield the names of tagged fields in a declaration; `name` is the property of a JSON Schema that it declares."""
    if depth > _MAX_NESTED:
        yield EVERYTHING
    elif isinstance(declaration, list):
        for element in declaration:
            yield from _tagged_in_declaration(element, None, patterns, depth + 1)
    elif isinstance(declaration, dict):
        if _matches(declaration.get("confluent:tags", []), patterns):
            yield from _declared_names(declaration, name)
        for key, member in declaration.items():
            if key == "properties" and isinstance(member, Mapping):
                for property_name, property_schema in member.items():
                    yield from _tagged_in_declaration(property_schema, property_name, patterns, depth + 1)
            else:
                yield from _tagged_in_declaration(member, None, patterns, depth + 1)


def _declared_names(declaration: dict[str, Any], name: str | None) -> Iterator[str]:
    fields, properties = declaration.get("fields"), declaration.get("properties")
    if name is not None:
        yield name
    elif isinstance(fields, list):  # a record of Avro
        yield from (str(field["name"]) for field in fields if isinstance(field, dict) and "name" in field)
    elif isinstance(properties, dict):
        yield from properties
    elif isinstance(declaration.get("name"), str) and "symbols" not in declaration and "size" not in declaration:
        yield declaration["name"]
    else:
        yield EVERYTHING
