"""The client copes with a schema registry that works, is slow, is down, or sends invalid responses."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dissectors.values import Schema, SchemaKey
from kproxy.registry.http import RegistryAccess, SchemaRegistry

ID = SchemaKey("id", 17)
Response = tuple[int, bytes | dict[str, Any] | list[Any]]


class FakeRegistry:
    """A server with one response per path that records the requests it receives."""

    def __init__(self) -> None:
        self.responses: dict[str, Response | Callable[[], Response]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.now = 0.0
        self.url = ""

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def client(self, **settings: Any) -> SchemaRegistry:
        access = RegistryAccess(self.url, settings.pop("authorization", None))
        return SchemaRegistry(access, now=lambda: self.now, **{"timeout": 60.0, **settings})


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append((self.path, self.headers["Authorization"]))
            response = registry.responses.get(self.path, (404, {"error_code": 40403}))
            status, body = response() if callable(response) else response
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if "Ids/" in self.path:
                self.send_header("X-Registry-ArtifactType", "JSON")
            self.end_headers()
            with contextlib.suppress(OSError):  # the client may have given up
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield registry
        server.shutdown()
        thread.join()


def test_schema_is_fetched_once_with_its_references(registry: FakeRegistry) -> None:
    reference = {"name": "shop.Money", "subject": "money", "version": 3}
    registry.responses = {
        "/schemas/ids/17": (200, {"schema": '"shop.Money"', "references": [reference]}),
        "/schemas/ids/17/subjects": (200, ["orders-value"]),
        # A circular reference.
        "/subjects/money/versions/3": (200, {"schema": "{}", "id": 2, "references": [reference]}),
    }
    client = registry.client(authorization="Basic YTpi")
    schema = client.lookup([ID])[ID]
    assert isinstance(schema, Schema)
    assert (schema.type, schema.text, schema.subject) == ("AVRO", '"shop.Money"', "orders-value")
    money = schema.references["shop.Money"]
    assert (money.text, money.references["shop.Money"]) == ("{}", money)
    assert client.lookup([ID])[ID] is schema
    assert {authorization for _, authorization in registry.requests} == {"Basic YTpi"}
    assert sorted(registry.paths()) == sorted(registry.responses)


def test_schemas_are_fetched_by_guid_and_by_apicurio_id(registry: FakeRegistry) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    registry.responses = {
        f"/schemas/guids/{guid}": (200, {"schema": "message M {}", "schemaType": "PROTOBUF"}),
        "/ids/globalIds/9": (200, b'{"type": "object"}'),
        "/ids/globalIds/9/references": (200, []),
    }
    schemas = registry.client().lookup([SchemaKey("guid", guid), SchemaKey("global_id", 9)])
    assert [(schema.type, schema.text) for schema in schemas.values() if isinstance(schema, Schema)] == [
        ("PROTOBUF", "message M {}"),
        ("JSON", '{"type": "object"}'),
    ]


@pytest.mark.parametrize("content", ["", "/content"], ids=["v2", "v3"])
def test_apicurio_references_are_resolved(registry: FakeRegistry, content: str) -> None:
    money = {"name": "shop/money.proto", "artifactId": "shop/money.proto", "version": "1"}
    reference_path = "/groups/default/artifacts/shop%2Fmoney.proto/versions/1"
    base = "/v3" if content else "/v2"
    registry.url += base
    registry.responses = {
        f"{base}/ids/globalIds/4": (200, b"{}"),
        f"{base}/ids/globalIds/4/references": (200, [money]),
        f"{base}{reference_path}{content}": (200, b'{"$schema": "x"}'),
        f"{base}{reference_path}/references": (200, [{"name": "b", "artifactId": "b", "groupId": "g", "version": 2}]),
        f"{base}/groups/g/artifacts/b/versions/2{content}": (200, b"message B {}"),
        f"{base}/groups/g/artifacts/b/versions/2/references": (200, []),
    }
    [schema] = registry.client().lookup([SchemaKey("global_id", 4)]).values()
    assert isinstance(schema, Schema)
    [(name, money_schema)] = schema.references.items()
    assert (schema.type, name, money_schema.type, money_schema.text) == (
        "JSON",
        money["name"],
        "JSON",
        '{"$schema": "x"}',
    )
    assert [(reference.type, reference.text) for reference in money_schema.references.values()] == [
        ("PROTOBUF", "message B {}")
    ]


def test_unknown_id_is_looked_up_again_after_a_minute(registry: FakeRegistry) -> None:
    client = registry.client()
    reason = f"the registry {registry.url.removeprefix('http://')} has no schema with id 17"
    assert client.lookup([ID, ID]) == client.lookup([ID]) == {ID: reason}
    assert registry.paths() == ["/schemas/ids/17"]
    registry.now = 61
    registry.responses = {"/schemas/ids/17": (200, {"schema": "{}"})}
    assert isinstance(client.lookup([ID])[ID], Schema)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ((500, {}), "answered with status 500"),
        ((401, {}), "answered with status 401: check the credentials"),
        ((302, {}), "answered with status 302"),
        ((200, b"<html>"), "answered something that is not JSON"),
        ((200, b"[" * 10_000), "answered something that is not JSON"),
        ((200, b"\xff"), "answered something that is not text"),
        ((200, [17]), "answered something that is no schema"),
        ((200, {"schema": "{}", "references": [1]}), "answered references without name, subject and version"),
        ((200, {"schema": "{}", "references": 5}), "answered references without name, subject and version"),
        ((200, b"x" * ((4 << 20) + 1)), "answered more than 4 MiB"),
    ],
)
def test_client_backs_off_after_the_registry_fails(registry: FakeRegistry, response: Response, reason: str) -> None:
    registry.responses = {"/schemas/ids/17": response}
    client = registry.client()
    failure = {ID: f"the registry {registry.url.removeprefix('http://')} {reason}"}
    request_counts = []
    for now in (0.0, 0.9, 1.1, 2.9, 3.2):  # the client pauses for 1, 2 and then 4 s
        registry.now = now
        assert client.lookup([ID]) == failure
        request_counts.append(len(registry.requests))
    assert request_counts == [1, 1, 2, 2, 3]


def test_slow_registry_times_out(registry: FakeRegistry) -> None:
    release = threading.Event()

    def slow() -> Response:
        release.wait()
        return 200, {}

    registry.responses = {"/schemas/ids/17": slow}
    try:
        [reason] = registry.client(timeout=0.05).lookup([ID]).values()
    finally:
        release.set()
    assert str(reason).endswith("did not answer within 0.05 s")


def test_unreachable_registry_is_reported() -> None:
    [reason] = SchemaRegistry(RegistryAccess("http://127.0.0.1:1")).lookup([ID]).values()
    assert reason == "the registry 127.0.0.1:1 cannot be reached: Connection refused"


def test_keys_that_no_registry_serves_are_not_fetched(registry: FakeRegistry) -> None:
    keys = [SchemaKey("glue", "89791762-2336-4186-9674-299b90a802e2"), SchemaKey("subject", "orders-value")]
    [reason] = registry.client().lookup(keys).values()
    assert reason == f"schemas with {keys[0]} are not fetched: put them into the --schemas directory"
    assert registry.requests == []
