"""Tags of the fields of a schema, as Confluent's data contracts have them, e.g. ``PII``.

Avro and JSON Schema have them in ``confluent:tags`` of a field, a property or a type, Protobuf in the options
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

_MOST_NESTED = 64


@functools.lru_cache(256)
def tagged_names(schema: Schema, tags: tuple[str, ...]) -> frozenset[str]:
    """The names of the fields with one of these tags, in a schema and its references.

    Args:
        schema: The schema.
        tags: Tags as patterns of a shell.

    Returns:
        The names without the types that they belong to. For a type with a tag, those of its fields; ``*`` if these
        cannot be told, or if the schema cannot be read.
    """
    found: set[str] = set()
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            waiting += each.references.values()
            found.update(_in_protobuf(each.text, tags) if each.type == "PROTOBUF" else _in_json(each.text, tags))
    return frozenset(found)


def _matches(given: Any, wanted: tuple[str, ...]) -> bool:
    tags = given if isinstance(given, list) else [given]
    return any(fnmatchcase(str(tag), each) for tag in tags for each in wanted)


def _in_protobuf(text: str, wanted: tuple[str, ...]) -> Iterator[str]:
    proto_text = importlib.import_module("dissectors.values.proto_text")  # it needs the extra
    try:
        yield from _tagged_fields(proto_text.parsed_file(text).file_elements, wanted)
    except (SchemaError, RecursionError):
        yield EVERYTHING


def _tagged_fields(elements: list[Any], wanted: tuple[str, ...]) -> Iterator[str]:
    """`elements` are those of a file, message, oneof or group, as proto_schema_parser has them."""
    for element in elements:
        for option in getattr(element, "options", None) or ():
            if "confluent.field_meta" in option.name and _matches(_texts(option.value), wanted):
                yield element.name
        option_name = getattr(element, "name", "") if hasattr(element, "value") else ""
        if "confluent.message_meta" in option_name and _matches(_texts(element.value), wanted):
            yield EVERYTHING
        yield from _tagged_fields(getattr(element, "elements", []), wanted)


def _texts(value: Any) -> list[str]:
    """The texts in the value of an option: of ``tags``, but also of other parameters, which do no harm here."""
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if (elements := getattr(value, "elements", None)) is not None:  # a message
        return [text for each in elements for text in _texts(each.value)]
    return [str(value)]


def _in_json(text: str, wanted: tuple[str, ...]) -> Iterator[str]:
    try:
        yield from _tagged(json.loads(text), None, wanted, 0)
    except (ValueError, RecursionError):
        yield EVERYTHING


def _tagged(declared: Any, name: str | None, wanted: tuple[str, ...], depth: int) -> Iterator[str]:
    """`name` is that of the property of a JSON Schema that is declared."""
    if depth > _MOST_NESTED:
        yield EVERYTHING
    elif isinstance(declared, list):
        for each in declared:
            yield from _tagged(each, None, wanted, depth + 1)
    elif isinstance(declared, dict):
        if _matches(declared.get("confluent:tags", []), wanted):
            yield from _names_of(declared, name)
        for key, each in declared.items():
            if key == "properties" and isinstance(each, Mapping):
                for property_name, below in each.items():
                    yield from _tagged(below, property_name, wanted, depth + 1)
            else:
                yield from _tagged(each, None, wanted, depth + 1)


def _names_of(declared: dict[str, Any], name: str | None) -> Iterator[str]:
    fields, properties = declared.get("fields"), declared.get("properties")
    if name is not None:
        yield name
    elif isinstance(fields, list):  # a record of Avro
        yield from (str(each["name"]) for each in fields if isinstance(each, dict) and "name" in each)
    elif isinstance(properties, dict):
        yield from properties
    elif isinstance(declared.get("name"), str) and "symbols" not in declared and "size" not in declared:
        yield declared["name"]
    else:
        yield EVERYTHING
