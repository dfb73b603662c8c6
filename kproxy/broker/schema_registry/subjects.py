"""Subjects: the state in the topic ``_schemas``, and the records that change it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dissectors.records import decode, encode
from dissectors.values import Schema
from dissectors.values.schemas_topic import (
    TOPIC,
    SchemasRecord,
    StoredSchema,
    schemas_record,
    stored_schema,
    with_references,
)
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError
from kproxy.broker.log.appending import append
from kproxy.broker.log.settings import settings
from kproxy.broker.schema_registry.errors import invalid_version, store_failed, subject_not_found, version_not_found
from kproxy.broker.topics import Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.log.log import Log

_LATEST: Final = ("latest", "-1")
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


class Subjects:
    """All subjects, their versions and settings.

    The topic is the only storage: `refresh` reads the records that `write` or any client has appended to it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._log: Log | None = None
        self._next_offset = 0
        self._clear()

    def _clear(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.size = 0  # of all schemas, in characters
        self._last_id = 0
        self._versions: dict[str, dict[int, StoredSchema]] = {}
        self._by_id: dict[int, dict[tuple[str, int], StoredSchema]] = {}
        self._identities: dict[tuple[str, int], str] = {}
        self._ids: dict[str, int] = {}  # by identity

    def refresh(self) -> None:
        """Read the new records in the topic; if it has been deleted, create it and start over.

        Raises:
            RestError: The topic cannot be created.
        """
        log = self._topic_log()
        if log is not self._log:
            self._log, self._next_offset = log, log.start_offset
            self._clear()
        for stored in log.batches(self._next_offset, log.end_offset):
            self._next_offset = stored.last_offset + 1
            for batch in decode(stored.data):
                for record in () if batch.get("is_control") else batch.get("records", ()):
                    if (schemas_entry := schemas_record(record["key"], record["value"])) is not None:
                        self._apply(schemas_entry)

    async def write(self, keytype: str, subject: str | None, value: Mapping[str, Any] | None, **key: object) -> None:
        """Append a record, as Confluent's registry writes it, and read it. `key` contains further members of the key.

        Raises:
            RestError: The log rejects the record.
        """
        record_key = {"keytype": keytype, "subject": subject, **key, "magic": int(keytype == "SCHEMA")}
        now_ms, log = self._cluster.clock.now(), self._topic_log()
        value_bytes = None if value is None else _compact(value)
        record = {"offset": 0, "timestamp": now_ms, "key": _compact(record_key), "value": value_bytes}
        try:
            data = memoryview(encode([{"base_offset": 0, "records": [record]}]))
            append(log, data, settings(self._cluster, TOPIC), now_ms)
            self.refresh()
            await log.wait_until_synced()
        except ApiError as api_error:
            raise store_failed(str(api_error)) from None

    def names(self) -> list[str]:
        """Return the names of all subjects, sorted, including soft-deleted ones."""
        return sorted(self._versions)

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """Return the versions of a subject, the oldest first; with `deleted`, including soft-deleted ones."""
        versions = self._versions.get(subject, {})
        return [versions[version] for version in sorted(versions) if deleted or not versions[version].is_deleted]

    def existing_versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """Return the versions of a subject, as `versions` does, but reject an unknown subject.

        Raises:
            RestError: 40401: there are no versions.
        """
        if not (versions := self.versions(subject, deleted=deleted)):
            raise subject_not_found(subject)
        return versions

    def version(self, subject: str, text: str, *, deleted: bool = False) -> StoredSchema:
        """Return a version of a subject by its number or ``latest``.

        Raises:
            RestError: 42202, 40401, 40402.
        """
        if text in _LATEST:
            return self.existing_versions(subject, deleted=deleted)[-1]
        if not text.isascii() or not text.isdecimal() or not 0 < len(text) <= 10 or not 0 < int(text) < 1 << 31:
            raise invalid_version(text)
        number = int(text)
        for schema in self.existing_versions(subject, deleted=deleted):
            if schema.version == number:
                return schema
        raise version_not_found(number)

    def find(self, subject: str, version: int) -> StoredSchema | None:
        """Return a version of a subject, even a soft-deleted one; None if it does not exist."""
        return self._versions.get(subject, {}).get(version)

    def by_id(self, id_: int) -> list[StoredSchema]:
        """Return the versions of subjects whose schema has this id, sorted."""
        schemas = self._by_id.get(id_, {})
        return [schemas[key] for key in sorted(schemas)]

    def all_schemas(self) -> Iterator[StoredSchema]:
        """Return all versions, sorted by subject and version, including soft-deleted ones."""
        return (version for subject in self.names() for version in self.versions(subject, deleted=True))

    def id_of(self, identity_: str) -> int | None:
        """Return the id of a schema; None if no subject has it."""
        return self._ids.get(identity_)

    def find_same(self, subject: str, identity_: str, *, deleted: bool = False) -> StoredSchema | None:
        """Return the newest version of a subject with this schema; None if there is none."""
        versions = reversed(self.versions(subject, deleted=deleted))
        return next((version for version in versions if self._identities[subject, version.version] == identity_), None)

    def referring_schemas(self, subject: str, version: int) -> list[StoredSchema]:
        """Return the schemas that refer to a version and are not deleted."""
        return [
            schema
            for schema in self.all_schemas()
            if not schema.is_deleted and any(reference[1:] == (subject, version) for reference in schema.references)
        ]

    def next_id(self) -> int:
        """Return an id that no schema has ever had."""
        return self._last_id + 1

    def next_version(self, subject: str) -> int:
        """Return the number of a subject's next version."""
        return max(self._versions.get(subject, ()), default=0) + 1

    def with_resolved_references(self, schema: StoredSchema) -> Schema:
        """Return a schema together with the schemas to which it refers."""
        return with_references(schema, self.find)

    def _topic_log(self) -> Log:
        topics = self._cluster.part(Topics)
        if (topic := topics.by_name(TOPIC)) is None:
            try:
                topic = topics.create(TOPIC, topics.choose_replicas(1, topics.default_replication))
            except ApiError as api_error:
                raise store_failed(str(api_error)) from None
            self._cluster.part(Configs).set("topic", TOPIC, {"cleanup.policy": "compact"})
        return topic.partitions[0].log

    def _apply(self, record: SchemasRecord) -> None:
        subject, value = record.subject, record.value
        if record.keytype == "SCHEMA" and subject is not None and record.version is not None:
            if value is None:
                self._remove(subject, record.version)
            elif (stored := stored_schema(record)) is not None:
                self._put(stored)
        elif record.keytype == "DELETE_SUBJECT" and subject is not None and value is not None:
            last_version = value.get("version")
            for version in self.versions(subject):
                if isinstance(last_version, int) and version.version <= last_version:
                    self._put(dataclasses.replace(version, is_deleted=True))
        elif record.keytype == "CLEAR_SUBJECT" and subject is not None:
            for version in self.versions(subject, deleted=True):
                if version.is_deleted:
                    self._remove(subject, version.version)
        elif record.keytype == "CONFIG":
            _set_or_remove(self.configs, subject, value)
        elif record.keytype == "MODE":
            mode = None if value is None else value.get("mode")
            _set_or_remove(self.modes, subject, mode if mode in MODES else None)

    def _put(self, schema: StoredSchema) -> None:
        self._remove(schema.subject, schema.version)
        self._versions.setdefault(schema.subject, {})[schema.version] = schema
        self._by_id.setdefault(schema.id, {})[schema.subject, schema.version] = schema
        schema_identity = self._identities[schema.subject, schema.version] = identity(schema)
        self._ids.setdefault(schema_identity, schema.id)
        self._last_id = max(self._last_id, schema.id)
        self.size += len(schema.text)

    def _remove(self, subject: str, version: int) -> None:
        versions = self._versions.get(subject, {})
        if (removed := versions.pop(version, None)) is None:
            return
        self.size -= len(removed.text)
        if not versions:
            del self._versions[subject]
        versions_with_id = self._by_id[removed.id]
        del versions_with_id[subject, version]
        schema_identity = self._identities.pop((subject, version))
        if not versions_with_id:
            del self._by_id[removed.id]
            if self._ids.get(schema_identity) == removed.id:
                del self._ids[schema_identity]


def identity(schema: StoredSchema) -> str:
    """Return a hash that equal schemas share: of the type, text without layout, references, metadata and rules."""
    text = schema.text.strip()
    if schema.type != "PROTOBUF":
        with contextlib.suppress(ValueError, RecursionError):  # other clients also write to the topic
            text = json.dumps(json.loads(text), sort_keys=True)
    extras = {name: schema.value.get(name) for name in ("metadata", "ruleSet") if schema.value.get(name)}
    canonical = json.dumps([schema.type, text, schema.references, extras], sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def guid(schema: StoredSchema) -> str:
    """Return the schema's GUID: the one in its record, or one derived from its identity."""
    return schema.guid or str(uuid.uuid5(uuid.NAMESPACE_OID, identity(schema)))


def _set_or_remove(settings_: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        settings_.pop(subject, None)
    else:
        settings_[subject] = value


def _compact(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
