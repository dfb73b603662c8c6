"""Schemas from those records of the topic `_schemas` that were observed in the traffic."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dissectors.values import MissingPackage, Schema, SchemaKey
from dissectors.values.schema_formats import format_of
from dissectors.values.schemas_topic import TOPIC, StoredSchema, schemas_record, stored_schema, with_references

_MAX_KEPT: Final = 1000
_MAX_BYTES: Final = 1 << 20


class ObservedSchemas:
    """The most recent 1,000 versions of subjects, including deleted ones, because data may outlive its schema."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[str, int], StoredSchema] = OrderedDict()
        self._by_schema_key: dict[SchemaKey, StoredSchema] | None = {}  # None: to be computed
        self._resolved: dict[SchemaKey, Schema | str] = {}

    def observe(self, key: bytes | None, value: bytes | None) -> None:
        """Learn from a record of the topic; ignore records that do not define a schema. This never raises."""
        if value is None or len(value) > _MAX_BYTES or (record := schemas_record(key, value)) is None:
            return
        if (stored := stored_schema(record)) is None or self._versions.get(
            subject_version := (stored.subject, stored.version)
        ) == stored:
            return
        self._versions[subject_version] = stored
        self._versions.move_to_end(subject_version)
        if len(self._versions) > _MAX_KEPT:
            self._versions.popitem(last=False)
        self._by_schema_key = None
        self._resolved.clear()

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Return the schemas with these keys, as `SchemaSource` does, but without those that were not observed."""
        if self._by_schema_key is None:
            self._by_schema_key = _index_versions(self._versions.values())
        for key in keys:
            if key not in self._resolved and (stored := self._by_schema_key.get(key)) is not None:
                self._resolved[key] = self._resolve(stored)
        return {key: self._resolved[key] for key in keys if key in self._resolved}

    def _resolve(self, stored: StoredSchema) -> Schema | str:
        schema = with_references(stored, lambda *subject_version: self._versions.get(subject_version))
        try:
            format_of(schema)
        except MissingPackage as error:
            return f"its schema was seen in {TOPIC}, but needs the package {error}: install the extra payloads"
        return schema


def _index_versions(versions: Iterable[StoredSchema]) -> dict[SchemaKey, StoredSchema]:
    """Return the versions by key: the first of several subjects with a schema, the last of several versions."""
    versions_by_key: dict[SchemaKey, StoredSchema] = {}
    for stored in versions:
        for key in _keys(stored):
            known_version = versions_by_key.get(key)
            is_newer = known_version and (
                stored.version > known_version.version if key.form == "subject" else stored.text != known_version.text
            )
            if known_version is None or is_newer:
                versions_by_key[key] = stored
    return versions_by_key


def _keys(stored: StoredSchema) -> Iterator[SchemaKey]:
    yield SchemaKey("id", stored.id)
    if stored.guid is not None:
        yield SchemaKey("guid", stored.guid)
    if not stored.is_deleted:
        yield SchemaKey("subject", stored.subject)
