"""Operations that register, look up, check and delete schemas."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dissectors.values.schemas_topic import StoredSchema
from kproxy.broker.schema_registry import compatibility, errors
from kproxy.broker.schema_registry.compatibility import CompatibilityResult
from kproxy.broker.schema_registry.reading_operations import describe
from kproxy.broker.schema_registry.rest import RestRequest, rest
from kproxy.broker.schema_registry.schema_texts import check, compact, read_schema
from kproxy.broker.schema_registry.settings_operations import compatibility_level, subject_mode
from kproxy.broker.schema_registry.subjects import Subjects, identity

_MAX_CHARACTERS: Final = 64 << 20  # in all schemas together
_MAX_SUBJECT_LENGTH: Final = 1000


@rest("POST /subjects/{subject}/versions")
async def register(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    """Register a schema as the newest version of a subject, unless it is a version already; return its id."""
    subject = variables["subject"]
    new_schema = read_schema(subjects, subject, request.body)
    mode = subject_mode(subjects, subject)
    await asyncio.to_thread(check, subjects.with_resolved_references(new_schema))
    new_schema = dataclasses.replace(new_schema, text=compact(new_schema.type, new_schema.text))
    schema_identity = identity(new_schema)
    if (registered := subjects.find_same(subject, schema_identity)) is not None:
        return _registration_response(registered)
    if mode.startswith("READONLY"):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")
    requested_numbers = (_positive_number(request, "id"), _positive_number(request, "version"))
    if mode != "IMPORT":
        if any(requested_numbers):
            raise errors.not_permitted(f"Subject {subject} is not in import mode")
        result = await _compare_versions(
            subjects, compatibility_level(subjects, subject), new_schema, subjects.versions(subject)
        )
        if not result.is_compatible:
            raise errors.incompatible(subject, "; ".join(result.messages))
    if subjects.size + len(new_schema.text) > _MAX_CHARACTERS or len(subject) > _MAX_SUBJECT_LENGTH:
        raise errors.not_permitted("the registry is full, or the name of the subject has more than 1000 characters")
    id_, version = (
        requested_numbers[0] or subjects.id_of(schema_identity) or subjects.next_id(),
        requested_numbers[1] or subjects.next_version(subject),
    )
    if (schemas_with_id := subjects.by_id(id_)) and identity(schemas_with_id[0]) != schema_identity:
        raise errors.not_permitted(f"Overwrite new schema with id {id_} is not permitted.")
    if max(id_, version) >= 1 << 31:
        raise errors.not_permitted("no id is left")
    schema = dataclasses.replace(new_schema, id=id_, version=version)
    await subjects.write("SCHEMA", subject, _record_value(schema), version=version)
    return _registration_response(subjects.find(subject, version) or schema)


@rest("POST /subjects/{subject}")
async def look_up(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    """Return the version of a subject that has the schema in the body."""
    subject, include_deleted = variables["subject"], request.flag("deleted")
    subjects.existing_versions(subject, deleted=include_deleted)
    schema = read_schema(subjects, subject, request.body)
    await asyncio.to_thread(check, subjects.with_resolved_references(schema))
    if (registered := subjects.find_same(subject, identity(schema), deleted=include_deleted)) is None:
        raise errors.schema_not_found()
    return describe(registered)


@rest("POST /compatibility/subjects/{subject}/versions", "POST /compatibility/subjects/{subject}/versions/{version}")
async def check_compatibility(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    """Return whether the schema in the body could become the next version."""
    subject, level = variables["subject"], compatibility_level(subjects, variables["subject"])
    new_schema = read_schema(subjects, subject, request.body)
    await asyncio.to_thread(check, subjects.with_resolved_references(new_schema))
    if "version" in variables:
        versions, level = [subjects.version(subject, variables["version"])], level.removesuffix("_TRANSITIVE")
    else:
        versions = subjects.versions(subject)
    result = await _compare_versions(subjects, level, new_schema, versions)
    response: dict[str, Any] = {"is_compatible": result.is_compatible}
    return response | ({"messages": result.messages} if request.flag("verbose") else {})


@rest("DELETE /subjects/{subject}")
async def delete_subject(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    """Delete all versions, softly or permanently; return their numbers."""
    subject = variables["subject"]
    all_versions, live_versions = subjects.existing_versions(subject, deleted=True), subjects.versions(subject)
    _check_writable(subjects, subject)
    if not request.flag("permanent"):
        if not live_versions:
            raise errors.subject_soft_deleted(subject)
        _check_unused(subjects, live_versions)
        await subjects.write("DELETE_SUBJECT", subject, {"subject": subject, "version": live_versions[-1].version})
        return [version.version for version in live_versions]
    if live_versions:
        raise errors.subject_not_soft_deleted(subject)
    for version in all_versions:
        await subjects.write("SCHEMA", subject, None, version=version.version)
    return [version.version for version in all_versions]


@rest("DELETE /subjects/{subject}/versions/{version}")
async def delete_version(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    """Delete a version, softly or permanently; return its number."""
    subject, permanent = variables["subject"], request.flag("permanent")
    version = subjects.version(subject, variables["version"], deleted=True)
    _check_writable(subjects, subject)
    if permanent and not version.is_deleted:
        raise errors.version_not_soft_deleted(subject, version.version)
    if not permanent and version.is_deleted:
        raise errors.version_soft_deleted(subject, version.version)
    _check_unused(subjects, [version])
    value = None if permanent else _record_value(dataclasses.replace(version, is_deleted=True))
    await subjects.write("SCHEMA", subject, value, version=version.version)
    return version.version


async def _compare_versions(
    subjects: Subjects, level: str, new: StoredSchema, versions: Sequence[StoredSchema]
) -> CompatibilityResult:
    resolved_versions = [(version.version, subjects.with_resolved_references(version)) for version in versions]
    return await asyncio.to_thread(
        compatibility.compare_versions, level, subjects.with_resolved_references(new), resolved_versions
    )


def _record_value(schema: StoredSchema) -> dict[str, Any]:
    """Return the value of the schema's record."""
    return describe(schema) | {"deleted": schema.is_deleted}


def _registration_response(schema: StoredSchema) -> dict[str, Any]:
    return {name: value for name, value in describe(schema).items() if name != "subject"}


def _positive_number(request: RestRequest, name: str) -> int:
    """Return a positive number from the body; 0 if there is none."""
    value = request.body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _check_writable(subjects: Subjects, subject: str) -> None:
    if subject_mode(subjects, subject).startswith("READONLY"):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")


def _check_unused(subjects: Subjects, versions: Sequence[StoredSchema]) -> None:
    for version in versions:
        if subjects.referring_schemas(version.subject, version.version):
            raise errors.is_referenced(version.subject, version.version)
