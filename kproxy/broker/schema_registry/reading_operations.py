"""Operations that read schemas, subjects and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.values.schemas_topic import StoredSchema
from kproxy.broker.schema_registry.errors import schema_not_found
from kproxy.broker.schema_registry.rest import RestRequest, rest
from kproxy.broker.schema_registry.schema_texts import schema_text
from kproxy.broker.schema_registry.subjects import Subjects, guid


@rest("GET /")
async def get_root(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    return {}


@rest("GET /contexts")
async def get_contexts(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    return ["."]


@rest("GET /schemas/types")
async def get_types(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    return ["JSON", "PROTOBUF", "AVRO"]


@rest("GET /schemas")
async def get_schemas(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    prefix, include_deleted = request.query.get("subjectPrefix", ""), request.flag("deleted")
    names = [name for name in subjects.names() if name.startswith(prefix)]
    start = -1 if request.flag("latestOnly") else 0
    return _paginate(
        request,
        [describe(version) for name in names for version in subjects.versions(name, deleted=include_deleted)[start:]],
    )


@rest("GET /schemas/ids/{id}")
async def get_schema_by_id(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    schema = _find_by_id(subjects, variables["id"])[0]
    max_id = {"maxId": subjects.next_id() - 1} if request.flag("fetchMaxId") else {}
    return content(subjects, schema, request) | {"guid": guid(schema)} | max_id


@rest("GET /schemas/ids/{id}/schema")
async def get_text_by_id(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    return content(subjects, _find_by_id(subjects, variables["id"])[0], request)["schema"]


@rest("GET /schemas/ids/{id}/subjects")
async def get_subjects_of_id(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    return _paginate(
        request, sorted({schema.subject for schema in _visible_versions(subjects, request, variables["id"])})
    )


@rest("GET /schemas/ids/{id}/versions")
async def get_versions_of_id(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    schemas = _visible_versions(subjects, request, variables["id"])
    return _paginate(request, [{"subject": schema.subject, "version": schema.version} for schema in schemas])


@rest("GET /schemas/guids/{guid}")
async def get_schema_by_guid(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    schema = _find_by_guid(subjects, variables["guid"])
    return content(subjects, schema, request) | {"guid": guid(schema)}


@rest("GET /schemas/guids/{guid}/ids")
async def get_ids_of_guid(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    return [{"context": ".", "id": _find_by_guid(subjects, variables["guid"]).id}]


@rest("GET /subjects")
async def get_subjects(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    prefix, deleted_only = request.query.get("subjectPrefix", ""), request.flag("deletedOnly")
    include_deleted = deleted_only or request.flag("deleted")
    return _paginate(
        request,
        [
            name
            for name in subjects.names()
            if name.startswith(prefix)
            and subjects.versions(name, deleted=include_deleted)
            and not (deleted_only and subjects.versions(name))
        ],
    )


@rest("GET /subjects/{subject}/versions")
async def get_versions(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    deleted_only = request.flag("deletedOnly")
    versions = subjects.existing_versions(variables["subject"], deleted=deleted_only or request.flag("deleted"))
    return _paginate(request, [schema.version for schema in versions if schema.is_deleted or not deleted_only])


@rest("GET /subjects/{subject}/versions/{version}")
async def get_version(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    version = subjects.version(variables["subject"], variables["version"], deleted=request.flag("deleted"))
    return describe(version) | content(subjects, version, request)


@rest("GET /subjects/{subject}/versions/{version}/schema")
async def get_text_of_version(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    version = subjects.version(variables["subject"], variables["version"], deleted=request.flag("deleted"))
    return content(subjects, version, request)["schema"]


@rest("GET /subjects/{subject}/versions/{version}/referencedby")
async def get_referencing_ids(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    version = subjects.version(variables["subject"], variables["version"])
    return sorted({schema.id for schema in subjects.referring_schemas(version.subject, version.version)})


def describe(schema: StoredSchema) -> dict[str, Any]:
    """Return a version of a subject, with everything that identifies it."""
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": guid(schema),
        **_optional_members(schema),
        "schema": schema.text,
    }


def content(subjects: Subjects, schema: StoredSchema, request: RestRequest) -> dict[str, Any]:
    """Return the schema itself, in the format that the request asks for."""
    return {
        "schema": schema_text(subjects.with_resolved_references(schema), request.query.get("format")),
        **_optional_members(schema),
    }


def _optional_members(schema: StoredSchema) -> dict[str, Any]:
    """Return the members that are omitted if they have their default value."""
    type_ = {} if schema.type == "AVRO" else {"schemaType": schema.type}
    references = {"references": [reference._asdict() for reference in schema.references]} if schema.references else {}
    return type_ | references | {name: value for name in ("metadata", "ruleSet") if (value := schema.value.get(name))}


def _find_by_id(subjects: Subjects, text: str) -> list[StoredSchema]:
    schemas = subjects.by_id(int(text)) if text.isascii() and text.isdecimal() and len(text) <= 10 else []
    if not schemas:
        raise schema_not_found(text)
    return schemas


def _visible_versions(subjects: Subjects, request: RestRequest, text: str) -> list[StoredSchema]:
    return [schema for schema in _find_by_id(subjects, text) if request.flag("deleted") or not schema.is_deleted]


def _find_by_guid(subjects: Subjects, text: str) -> StoredSchema:
    if (schema := next((schema for schema in subjects.all_schemas() if guid(schema) == text.lower()), None)) is None:
        raise schema_not_found(text)
    return schema


def _paginate(request: RestRequest, values: list[Any]) -> list[Any]:
    """Return the values from ``offset`` on, at most ``limit`` of them."""
    offset, limit = (request.query.get(name, "") for name in ("offset", "limit"))
    first = int(offset) if offset.isascii() and offset.isdecimal() and len(offset) <= 10 else 0
    count = int(limit) if limit.isascii() and limit.isdecimal() and len(limit) <= 10 else len(values)
    return values[first : first + count]
