"""The schema registry of the built-in broker, without HTTP. tests/peers tests it with Confluent's client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dissectors.records import decode
from kproxy.broker import Broker
from kproxy.broker.schema_registry import RestRequest, SchemaRegistryService
from kproxy.broker.topics import Topics

SendRequest = Callable[..., Awaitable[tuple[int, Any]]]

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
WITH_DEFAULT = RECORD | {"fields": [*RECORD["fields"], {"name": "b", "type": "int", "default": 0}]}
WITHOUT_DEFAULT = RECORD | {"fields": [*RECORD["fields"], {"name": "b", "type": "int"}]}
PROTO = 'syntax = "proto3"; package a; message M { N n = 1; message N { int32 x = 1; } }'


def avro(schema: object) -> dict[str, Any]:
    return {"schema": json.dumps(schema, indent=1)}


def make_sender(service: SchemaRegistryService) -> SendRequest:
    async def send(operation: str, body: object = None, **query: str) -> tuple[int, Any]:
        method, _, path = operation.partition(" ")
        result = await service.respond(RestRequest(method, path, query, body))
        is_error = result.status >= 400
        return int(result.status), result.value["error_code"] if is_error else result.value

    return send


@asynccontextmanager
async def registry(**options: Any) -> AsyncIterator[tuple[SendRequest, Broker]]:
    async with Broker(ports=None, **options) as broker:
        yield make_sender(SchemaRegistryService(broker.cluster)), broker


def records(broker: Broker) -> list[tuple[Any, Any]]:
    """Return the parsed records of `_schemas`."""
    topic = broker.cluster.part(Topics).by_name("_schemas")
    assert topic is not None
    log = topic.partitions[0].log
    return [
        (json.loads(record["key"]), record["value"] and json.loads(record["value"]))
        for stored in log.batches(0, log.end_offset)
        for batch in decode(stored.data)
        for record in batch["records"]
    ]


async def test_registers_each_schema_once_and_finds_it_by_every_key() -> None:
    async with registry() as (send, broker):
        status, registered = await send("POST /subjects/a%2Fb/versions", avro("string"))
        assert (status, registered["id"], registered["version"]) == (200, 1, 1)
        assert await send("POST /subjects/a%2Fb/versions", {"schema": '  "string"'}) == (200, registered)
        assert (await send("POST /subjects/other/versions", avro("string")))[1]["id"] == 1
        assert (await send("POST /subjects/other/versions", avro(["string", "int"])))[1]["id"] == 2
        schema_fields = {"schema": '"string"', "guid": registered["guid"]}
        assert await send("GET /schemas/ids/1") == (200, schema_fields)
        assert await send("GET /schemas/ids/1", fetchMaxId="true") == (200, schema_fields | {"maxId": 2})
        assert await send("GET /schemas/ids/1/schema") == (200, '"string"')
        assert await send(f"GET /schemas/guids/{registered['guid']}") == (200, schema_fields)
        assert await send("GET /schemas/ids/1/subjects") == (200, ["a/b", "other"])
        versions_ = [{"subject": "a/b", "version": 1}, {"subject": "other", "version": 1}]
        assert await send("GET /schemas/ids/1/versions") == (200, versions_)
        assert await send("GET /subjects") == (200, ["a/b", "other"])
        assert await send("GET /subjects", subjectPrefix="o") == (200, ["other"])
        assert await send("GET /subjects/other/versions") == (200, [1, 2])
        entry = {"subject": "other", "version": 1, "id": 1, "guid": registered["guid"], "schema": '"string"'}
        assert await send("POST /subjects/other", avro("string")) == (200, entry)
        assert await send("GET /subjects/other/versions/1") == (200, entry)
        assert (await send("GET /subjects/other/versions/latest"))[1]["version"] == 2
        assert records(broker)[0] == (
            {"keytype": "SCHEMA", "subject": "a/b", "version": 1, "magic": 1},
            entry | {"subject": "a/b", "deleted": False},
        )


async def test_errors_have_the_codes_of_confluents_registry() -> None:
    async with registry() as (send, _):
        await send("POST /subjects/s/versions", avro("string"))
        for operation, code in {
            "GET /subjects/none/versions": 40401,
            "GET /subjects/s/versions/2": 40402,
            "GET /subjects/s/versions/0": 42202,
            "GET /subjects/s/versions/x": 42202,
            "GET /subjects/s/versions/99999999999999999999": 42202,
            "GET /schemas/ids/7": 40403,
            "GET /schemas/ids/x": 40403,
            "GET /schemas/guids/x": 40403,
            "GET /config/s": 40408,
            "GET /mode/s": 40409,
            "DELETE /subjects/none": 40401,
            "GET /unknown": 404,
            "PUT /subjects/s/versions": 405,
        }.items():
            assert (await send(operation, {}))[1] == code, operation
        for body, code in (
            ({}, 42201),
            (avro("strin"), 42201),
            ({"schema": "{", "schemaType": "JSON"}, 42201),
            ({"schema": '{"type": 5}', "schemaType": "JSON"}, 42201),
            ({"schema": "message {", "schemaType": "PROTOBUF"}, 42201),
            ({"schema": "{}", "schemaType": "XML"}, 42201),
            (avro("int") | {"references": [{"name": "x", "subject": "x", "version": 1}]}, 42201),
            (avro("int") | {"references": 5}, 42201),
            ([], 400),
        ):
            assert (await send("POST /subjects/t/versions", body))[1] == code, body
        assert await send("POST /subjects/s", avro("int")) == (404, 40403)
        assert await send("POST /subjects/none", avro("int")) == (404, 40401)
        assert await send("PUT /config", {"compatibility": "SOME"}) == (422, 42203)
        assert await send("PUT /mode", {"mode": "SOME"}) == (422, 42204)
        assert (await send("POST /subjects/s/versions", avro("string") | {"id": 9}))[1]["id"] == 1
        assert await send("POST /subjects/t/versions", avro("string") | {"id": 9}) == (422, 42205)


async def test_soft_delete_precedes_permanent_delete() -> None:
    async with registry() as (send, broker):
        for schema in ("int", "long", "float"):
            await send("POST /subjects/s/versions", avro(schema))
        assert await send("DELETE /subjects/s/versions/2", permanent="true") == (404, 40407)
        assert await send("DELETE /subjects/s/versions/2") == (200, 2)
        assert await send("DELETE /subjects/s/versions/2") == (404, 40406)
        assert await send("GET /subjects/s/versions") == (200, [1, 3])
        assert await send("GET /subjects/s/versions", deleted="true") == (200, [1, 2, 3])
        assert await send("GET /subjects/s/versions", deletedOnly="true") == (200, [2])
        assert (await send("GET /schemas/ids/2"))[0] == 200, "records with this id may still be in topics"
        assert await send("DELETE /subjects/s/versions/2", permanent="true") == (200, 2)
        assert await send("GET /schemas/ids/2") == (404, 40403)
        assert await send("DELETE /subjects/s", permanent="true") == (404, 40405)
        assert await send("DELETE /subjects/s") == (200, [1, 3])
        assert await send("DELETE /subjects/s") == (404, 40404)
        assert await send("GET /subjects") == (200, [])
        assert await send("GET /subjects", deletedOnly="true") == (200, ["s"])
        assert (await send("POST /subjects/s/versions", avro("float")))[1]["version"] == 4
        assert records(broker)[-2][0] == {"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}
        assert await send("DELETE /subjects/s") == (200, [4])
        assert await send("DELETE /subjects/s", permanent="true") == (200, [1, 3, 4])
        assert await send("GET /subjects", deleted="true") == (200, [])
        assert (await send("POST /subjects/s/versions", avro("int")))[1]["id"] == 4, "ids are never reused"


@pytest.mark.parametrize(
    ("level", "schema", "is_compatible"),
    [
        ("BACKWARD", WITH_DEFAULT, True),
        ("BACKWARD", WITHOUT_DEFAULT, False),
        ("FORWARD", WITHOUT_DEFAULT, True),
        ("FULL", WITHOUT_DEFAULT, False),
        ("FULL", WITH_DEFAULT, True),
        ("NONE", "int", True),
    ],
)
async def test_avro_schemas_must_be_compatible(level: str, schema: object, is_compatible: bool) -> None:
    async with registry() as (send, _):
        assert await send("PUT /config/s", {"compatibility": level.lower()}) == (200, {"compatibility": level})
        assert await send("GET /config/s") == (200, {"compatibilityLevel": level})
        await send("POST /subjects/s/versions", avro(RECORD))
        status, response = await send("POST /compatibility/subjects/s/versions/latest", avro(schema), verbose="true")
        assert (status, response["is_compatible"], not response["messages"]) == (200, is_compatible, is_compatible)
        assert (await send("POST /subjects/s/versions", avro(schema)))[0] == (200 if is_compatible else 409)
        assert (await send("DELETE /config/s"))[1] == {"compatibilityLevel": level}
        assert (await send("GET /config/s", defaultToGlobal="true"))[1] == {"compatibilityLevel": "BACKWARD"}


async def test_transitive_levels_compare_all_versions() -> None:
    async with registry() as (send, _):
        await send("PUT /config", {"compatibility": "NONE"})
        for schema in ("string", "int"):
            await send("POST /subjects/s/versions", avro(schema))
        await send("PUT /config", {"compatibility": "BACKWARD"})
        path = "POST /compatibility/subjects/s/versions"
        assert (await send(path, avro("long")))[1] == {"is_compatible": True}
        await send("PUT /config", {"compatibility": "BACKWARD_TRANSITIVE"})
        assert (await send(path, avro("long")))[1] == {"is_compatible": False}


async def test_non_avro_schemas_are_not_compared_and_the_response_says_so() -> None:
    async with registry() as (send, _):
        proto = {"schema": PROTO, "schemaType": "PROTOBUF"}
        assert (await send("POST /subjects/p/versions", proto))[0] == 200
        changed_schema = proto | {"schema": PROTO.replace("int32", "string")}
        response = (await send("POST /compatibility/subjects/p/versions/latest", changed_schema, verbose="true"))[1]
        assert response["is_compatible"]
        assert response["messages"] == ["not compared with version 1: kproxy compares Avro schemas alone"]
        assert (await send("POST /subjects/p/versions", avro("int")))[0] == 409, "another type is never compatible"


async def test_references_are_resolved_and_block_deletion() -> None:
    async with registry() as (send, _):
        await send("POST /subjects/r/versions", avro(RECORD))
        referencing_schema = avro(["null", "R"]) | {"references": [{"name": "R", "subject": "r", "version": 1}]}
        assert (await send("POST /subjects/u/versions", avro(["null", "R"])))[1] == 42201
        assert (await send("POST /subjects/u/versions", referencing_schema))[0] == 200
        assert (await send("GET /schemas/ids/2"))[1]["references"] == referencing_schema["references"]
        assert await send("GET /subjects/r/versions/1/referencedby") == (200, [2])
        assert await send("DELETE /subjects/r/versions/1") == (422, 42206)
        assert await send("DELETE /subjects/r") == (422, 42206)


async def test_modes_restrict_writes_and_import_keeps_ids() -> None:
    async with registry() as (send, _):
        assert await send("PUT /mode/s", {"mode": "import"}) == (200, {"mode": "IMPORT"})
        registered = (await send("POST /subjects/s/versions", avro("int") | {"id": 40, "version": 3}))[1]
        assert (registered["id"], registered["version"]) == (40, 3)
        assert await send("POST /subjects/s/versions", avro("long") | {"id": 40}) == (422, 42205)
        assert await send("PUT /mode", {"mode": "IMPORT"}) == (422, 42205)
        assert (await send("PUT /mode/s", {"mode": "READONLY"}))[0] == 200
        assert await send("POST /subjects/s/versions", avro("long")) == (422, 42205)
        assert await send("DELETE /subjects/s") == (422, 42205)
        assert await send("DELETE /mode/s") == (200, {"mode": "READONLY"})
        assert (await send("POST /subjects/s/versions", avro("long")))[1]["id"] == 41


async def test_serialized_format_returns_a_protobuf_descriptor() -> None:
    async with registry() as (send, _):
        await send("POST /subjects/p/versions", {"schema": PROTO, "schemaType": "PROTOBUF"})
        text = (await send("GET /schemas/ids/1", format="serialized"))[1]["schema"]
        assert (await send("GET /schemas/ids/1"))[1]["schema"] == PROTO
        await send("POST /subjects/q/versions", {"schema": text, "schemaType": "PROTOBUF"})
        assert (await send("GET /schemas/ids/2", format="serialized"))[1]["schema"] == text


async def test_registry_state_comes_from_the_topic_alone(tmp_path: Path) -> None:
    async with registry(data=tmp_path) as (send, broker):
        await send("POST /subjects/s/versions", avro("int"))
        await send("POST /subjects/s/versions", avro("long"))
        await send("DELETE /subjects/s/versions/1")
        await send("PUT /config", {"compatibility": "FULL"})
        await send("PUT /mode/x", {"mode": "READONLY"})
    async with registry(data=tmp_path) as (send, broker):
        assert await send("GET /subjects/s/versions") == (200, [2])
        assert await send("GET /config") == (200, {"compatibilityLevel": "FULL"})
        assert await send("GET /mode/x") == (200, {"mode": "READONLY"})
        assert (await send("POST /subjects/t/versions", avro("string")))[1]["id"] == 3
        topics = broker.cluster.part(Topics)
        topic = topics.by_name("_schemas")
        assert topic is not None
        topics.delete(topic)
        assert await send("GET /subjects") == (200, []), "a client deleted the topic"
        assert (await send("POST /subjects/s/versions", avro("int")))[1]["id"] == 1


JUNK: list[Any] = [None, True, -1, 1 << 70, "", "\ud800", [], [None], {}, {"a": []}]
MEMBERS = ("schema", "schemaType", "references", "id", "version", "metadata", "ruleSet", "mode", "compatibility")
PATHS = (
    "subjects/s/versions", "subjects/s", "subjects/s/versions/1", "config/s", "config", "mode", "mode/s",
    "compatibility/subjects/s/versions/latest", "schemas/ids/1", "schemas/guids/%00", "subjects/%ff/versions", "%", "",
)  # fmt: skip


async def test_hostile_records_and_requests_never_raise() -> None:
    async with registry() as (send, broker):
        service = SchemaRegistryService(broker.cluster)
        for keytype in ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONFIG", "MODE", "NOOP", 5):
            for junk in JUNK:
                value = dict.fromkeys(("id", "schema", "references", "mode", "compatibilityLevel", "version"), junk)
                await service._subjects.write(keytype, "s", value, version=1)  # type: ignore[arg-type]
                await service._subjects.write(keytype, "s", {"id": 7, "schema": "{"} | value, version=junk)  # type: ignore[arg-type]
                await service._subjects.write(keytype, "s", {"id": 7, "schema": "{", "metadata": junk}, version=1)  # type: ignore[arg-type]
        for path in PATHS:
            for junk in JUNK:
                for body in (junk, dict.fromkeys(MEMBERS, junk), avro("int") | {MEMBERS[2]: [junk], MEMBERS[5]: junk}):
                    for method in ("GET", "POST", "PUT", "DELETE"):
                        status, response = await send(f"{method} /{path}", body, deleted="true", offset="x", limit="-1")
                        assert status < 500
                        json.dumps(response).encode()
