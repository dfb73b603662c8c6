"""Reads and checks the schemas in requests, and returns schemas in other formats."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from dissectors.values import MissingPackage, Schema
from dissectors.values.errors import SchemaError
from dissectors.values.schema_formats import check_schema
from dissectors.values.schemas_topic import StoredSchema, parse_references
from kproxy.broker.schema_registry.errors import invalid_schema, missing_reference, not_permitted
from kproxy.broker.schema_registry.subjects import Subjects

TYPES: Final = ("AVRO", "PROTOBUF", "JSON")
_EXTRAS: Final = ("metadata", "ruleSet")


def read_schema(subjects: Subjects, subject: str, body: dict[str, Any]) -> StoredSchema:
    """Return the schema in the body of a request, as version 0 with the id 0, without checking it.

    Raises:
        RestError: 42201: the schema has no text, an unknown type, or references that do not exist.
    """
    text, type_ = body.get("schema"), body.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("Empty schema")
    if type_ not in TYPES:
        raise invalid_schema(f"Invalid schema type {type_}")
    if (references := parse_references(body.get("references"))) is None:
        raise invalid_schema("references need a name, a subject and a version")
    for reference in references:
        if (referenced := subjects.find(reference.subject, reference.version)) is None or referenced.is_deleted:
            raise missing_reference(reference)
    extras = {name: body[name] for name in _EXTRAS if body.get(name)}
    return StoredSchema(subject, 0, 0, None, type_, text, references, False, extras)


def check(schema: Schema) -> None:
    """Check that a schema can be used. This may take several seconds.

    Raises:
        RestError: 42201: it is invalid; 42205: it cannot be checked.
    """
    try:
        check_schema(schema)
    except SchemaError as error:
        raise invalid_schema(str(error)) from None
    except MissingPackage as error:
        raise not_permitted(
            f"{schema.type} schemas need the package {error}: install kproxy with the extra payloads"
        ) from None


def schema_text(schema: Schema, format_: str | None) -> str:
    """Return the text of a schema; with the format ``serialized``, the descriptor of a Protobuf file in base64.

    A file that was registered as a descriptor remains one. Other formats are not supported, and are ignored.
    """
    if format_ == "serialized" and schema.type == "PROTOBUF":
        with contextlib.suppress(SchemaError, ImportError):
            from dissectors.values.protobuf import serialized  # its package may not be installed

            return serialized(schema)
    return schema.text


def compact(type_: str, text: str) -> str:
    """Return the text to store: for Avro, JSON without whitespace, as Confluent's registry stores it."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) if type_ == "AVRO" else text
