"""Compare a schema registry with the one next to the built-in broker: ``python -m tests.serializers.registry URL``.

The registry at URL (Confluent's REST API) must be empty. Confluent's serializers for Go and Python register their
schemas, also with references, at both registries; kproxy decodes the messages with the schemas that each returns.
Then both get the calls of serializers and administrators, and answers that differ in status or error code are printed.
The status is 1 if a value or a code differs.

Apicurio Registry runs in memory, from Maven Central: ``mvn dependency:get -Dtransitive=false
-Dartifact=io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all``, unpacked, ``java -Dquarkus.http.port=18081 -jar
apicurio-registry-app-*-runner.jar``; its URL is ``http://127.0.0.1:18081/apis/ccompat/v7``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from dissectors.values import ValueContext, decode, schema_keys
from kproxy.broker import Broker
from kproxy.live.registry_endpoint import serve_registry
from kproxy.proxy.address import TcpAddress
from kproxy.registry.http import RegistryAccess, SchemaRegistry
from tests.serializers.__main__ import HERE, program_output

MONEY = '{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "int"}]}'
BILL = (
    '{"type": "record", "name": "Bill", "namespace": "shop", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "sum", "type": "shop.Money"}]}'
)
PERSON = '{"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}}'
INT, LONG, STRING = ({"schema": f'"{name}"'} for name in ("int", "long", "string"))
NEW = "/subjects/new/versions"
#: Calls whose answers must have the same codes. Confluent's registry also has the mode, GUIDs and normalized versions.
CALLS: list[tuple[str, str, Any]] = [
    ("GET", "/subjects/none/versions", None),
    ("GET", "/subjects/none/versions/1", None),
    ("POST", "/subjects/none", INT),
    ("DELETE", "/subjects/none", None),
    ("GET", "/schemas/ids/99999", None),
    ("GET", "/schemas/types", None),
    ("POST", NEW, INT),
    ("POST", NEW, INT),
    ("POST", f"{NEW}?normalize=true", INT),
    ("POST", "/subjects/new", INT),
    ("POST", "/subjects/new", STRING),
    ("GET", NEW, None),
    ("GET", f"{NEW}/1", None),
    ("GET", f"{NEW}/1/schema", None),
    ("GET", f"{NEW}/1/referencedby", None),
    ("GET", f"{NEW}/latest", None),
    ("GET", f"{NEW}/-1", None),
    ("GET", f"{NEW}/2", None),
    ("PUT", "/config/new", {"compatibility": "BACKWARD"}),
    ("GET", "/config/new", None),
    ("POST", "/compatibility/subjects/new/versions/latest", LONG),
    ("POST", "/compatibility/subjects/new/versions/latest", STRING),
    ("POST", "/compatibility/subjects/new/versions", LONG),
    ("POST", "/compatibility/subjects/new/versions/9", LONG),
    ("POST", NEW, STRING),
    ("POST", NEW, LONG),
    ("POST", NEW, {"schema": "{"}),
    ("POST", NEW, {"schema": '{"type": "nope"}'}),
    ("POST", NEW, {"schema": "nope", "schemaType": "PROTOBUF"}),
    ("POST", NEW, {"schema": "nope", "schemaType": "JSON"}),
    ("POST", NEW, {"schema": BILL, "references": [{"name": "shop.Money", "subject": "none", "version": 1}]}),
    ("GET", "/subjects/py-money/versions/1/referencedby", None),
    ("DELETE", "/subjects/py-money/versions/1", None),
    ("DELETE", f"{NEW}/1", None),
    ("GET", f"{NEW}/1", None),
    ("GET", f"{NEW}/1?deleted=true", None),
    ("DELETE", f"{NEW}/1?permanent=true", None),
    ("DELETE", "/subjects/new", None),
    ("DELETE", "/subjects/new", None),
    ("GET", NEW, None),
    ("POST", NEW, INT),
]


def call_registry(url: str, method: str, path: str, body: Any) -> tuple[int, Any, Any]:
    """Return the status, the error code and the JSON body of the registry's response."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, None, json.load(response)
    except urllib.error.HTTPError as error:
        error_body = json.load(error)
        return error.code, error_body.get("error_code"), error_body


def python_messages(url: str) -> Iterator[dict[str, Any]]:
    """Yield messages of Confluent's serializers for Python, with their decoded values."""
    client = SchemaRegistryClient({"url": url})
    client.register_schema("py-money", Schema(MONEY, "AVRO"))
    bill = Schema(BILL, "AVRO", [SchemaReference("shop.Money", "py-money", 1)])
    for topic, serialize, data in (
        ("py-bill", AvroSerializer(client, bill), {"id": 1 << 40, "sum": {"cents": -5}}),
        ("py-person", JSONSerializer(PERSON, client), {"name": "Zoë"}),
    ):
        value = serialize(data, SerializationContext(topic, MessageField.VALUE))
        yield {"topic": topic, "value": base64.b64encode(value or b"").decode(), "expected": data}


async def find_differences(url: str) -> list[str]:
    """Return the differences between decoded values and those that the serializers were given."""
    text = await program_output("go", "run", ".", url, directory=HERE / "go")
    messages = [*map(json.loads, text.splitlines()), *await asyncio.to_thread(lambda: [*python_messages(url)])]
    registry = SchemaRegistry(RegistryAccess(url))
    found_differences = []
    for message in messages:
        data = base64.b64decode(message["value"])
        keys = schema_keys(data, ValueContext(message["topic"]))
        schemas = await asyncio.to_thread(registry.lookup, keys)
        value = decode(data, ValueContext(message["topic"], schemas=schemas))
        shown_value = json.loads(json.dumps(value.data, default=lambda raw: base64.b64encode(raw).decode()))
        if shown_value != message["expected"] or value.problem is not None or value.is_guess:
            found_differences.append(
                f"{url}: {message['topic']}: {value.problem or shown_value}, not {message['expected']}"
            )
    print(f"{url}: {len(messages)} messages, {len(found_differences)} differ")  # noqa: T201
    return found_differences


async def main(url: str) -> int:
    """Print the differences, and return the exit status."""
    async with Broker(ports=None) as broker, serve_registry(TcpAddress("127.0.0.1", 0), broker) as [address]:
        own_url = f"http://{address}"
        all_differences = [*await find_differences(own_url), *await find_differences(url)]
        for call in CALLS:
            own_answer, other_answer = [
                await asyncio.to_thread(call_registry, registry_url, *call) for registry_url in (own_url, url)
            ]
            if own_answer[:2] != other_answer[:2]:
                all_differences.append(
                    f"{call[0]} {call[1]}: {own_answer[:2]}, not {other_answer[:2]}: {other_answer[2]}"
                )
    print(*all_differences, f"{len(CALLS)} calls", sep="\n")  # noqa: T201
    return int(bool(all_differences))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
