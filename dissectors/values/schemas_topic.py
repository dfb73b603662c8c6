"""Records of the topic ``_schemas``, where Confluent's Schema Registry, Karapace and kproxy's registry store schemas.

Keys and values are JSON objects. The key's ``keytype`` is ``SCHEMA``, ``CONFIG``, ``MODE``, ``DELETE_SUBJECT``,
``CLEAR_SUBJECT``, ``CONTEXT`` or ``NOOP``; a null value deletes the entry that the key names.

Source: Confluent's SchemaRegistryKey, SchemaKey, SchemaValue, ConfigValue, ModeValue, DeleteSubjectValue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeGuard

from dissectors.values.json_text import parse_json
from dissectors.values.value import Schema

TOPIC: Final = "_schemas"
_TOPIC: Final = re.compile(r"(.+\.)?_schemas")
_MAX_INT32: Final = (1 << 31) - 1
_MAX_REFERENCES: Final = 200


class SchemaReference(NamedTuple):
    """A schema that another one uses: the name by which it is used, and the version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of a subject. `value` is the complete value of the record."""

    subject: str
    version: int
    id: int
    guid: str | None
    type: str
    text: str
    references: tuple[SchemaReference, ...]
    is_deleted: bool
    value: Mapping[str, Any]


class SchemasRecord(NamedTuple):
    """A record of the topic. `subject` is None for settings of the whole registry."""

    keytype: str
    subject: str | None
    version: int | None
    value: Mapping[str, Any] | None


def is_schemas_topic(topic: str | None) -> bool:
    """Whether a topic has the registry's usual name, or the name of a MirrorMaker copy (``source._schemas``)."""
    return topic is not None and _TOPIC.fullmatch(topic) is not None


def schemas_record(key: bytes | None, value: bytes | None) -> SchemasRecord | None:
    """Return a record of the topic; None if key and value do not form one. Never raises."""
    key_object, content = _parse_object(key), _parse_object(value)
    if key_object is None or (value is not None and content is None) or not isinstance(key_object.get("keytype"), str):
        return None
    subject, version = key_object.get("subject"), key_object.get("version")
    if not isinstance(subject, str | None) or not (version is None or _is_count(version)):
        return None
    return SchemasRecord(key_object["keytype"], subject, version, content)


def stored_schema(record: SchemasRecord) -> StoredSchema | None:
    """Return the schema in a record, or None if it has none."""
    value = record.value
    if record.keytype != "SCHEMA" or value is None or record.subject is None or record.version is None:
        return None
    id_, text, type_, guid = value.get("id"), value.get("schema"), value.get("schemaType") or "AVRO", value.get("guid")
    references = parse_references(value.get("references"))
    if not _is_count(id_) or not isinstance(text, str) or not isinstance(type_, str) or references is None:
        return None
    return StoredSchema(
        record.subject,
        record.version,
        id_,
        guid if isinstance(guid, str) else None,
        type_,
        text,
        references,
        value.get("deleted") is True,
        value,
    )


def parse_references(value: Any) -> tuple[SchemaReference, ...] | None:
    """Return the references of a schema, from a record or a request; None if they are not a list of references."""
    if value is None:
        return ()
    if not isinstance(value, list):
        return None
    references = []
    for reference in value:
        if not isinstance(reference, dict):
            return None
        name, subject, version = reference.get("name"), reference.get("subject"), reference.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not _is_count(version):
            return None
        references.append(SchemaReference(name, subject, version))
    return tuple(references)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_INT32


def _parse_object(data: bytes | None) -> dict[str, Any] | None:
    try:
        value = None if data is None else parse_json(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def with_references(schema: StoredSchema, find: Callable[[str, int], StoredSchema | None]) -> Schema:
    """Return a schema with all schemas that it refers to directly or indirectly; `find` returns versions of subjects.

    References that are not found are left out, and so are references beyond the first 200.
    """
    schemas: dict[tuple[str, int], Schema] = {}

    def build_schema(stored: StoredSchema) -> Schema:
        references: dict[str, Schema] = {}
        result = Schema(stored.type, stored.text, stored.subject, references)
        schemas[stored.subject, stored.version] = result  # before its references, which may form a cycle
        for name, subject, version in stored.references:
            is_new = (subject, version) not in schemas and len(schemas) <= _MAX_REFERENCES
            if is_new and (referenced := find(subject, version)) is not None:
                build_schema(referenced)
            if (subject, version) in schemas:
                references[name] = schemas[subject, version]
        return result

    return build_schema(schema)
