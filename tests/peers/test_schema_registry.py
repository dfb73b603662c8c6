"""confluent-kafka's client and serializers use the built-in broker's registry; the trace finds schemas in traffic."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra peers")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.registry import SchemaSources
from kproxy.trace.lines import Detail, RequestLine
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.trace import read_lines

pytestmark = pytest.mark.peers

PROTOC = Path(__file__).parents[1] / "dissectors" / "values" / "protoc"
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "Money"}],
}
MONEY = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": ["null", "int"], "default": None}]}
JSON = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}


class RunningRegistry:
    """kproxy with its broker and registry, and Confluent's registry client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        options = ("--registry-listen", "127.0.0.1:0", "--data", str(directory / "data"), "--detail", "raw")
        self.proxy = Proxy(None, directory, *options, printed=directory / "printed.txt")
        self.url = until("the registry listens", self._url)
        self.client = SchemaRegistryClient({"url": self.url})

    def _url(self) -> str:
        match = re.search(r"schema registry on (\S+)\n", self.proxy.printed)
        return match[1] if match else ""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """Start a registry for all tests; the last test stops it."""
    running = RunningRegistry(tmp_path_factory.mktemp("registry"))
    yield running
    running.proxy.kill_all()


def line_class() -> Any:
    """Return a message class of tests/dissectors/values/protoc/rich.proto."""
    [file] = descriptor_pb2.FileDescriptorSet.FromString((PROTOC / "rich.binpb").read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Order.Line"))


def fetch_values(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return the values of all records in a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []

    def has_all() -> bool:
        if (message := consumer.poll(0.1)) is not None and message.error() is None:
            values.append(message.value())
        return len(values) == end

    until("all records are fetched", has_all)
    consumer.close()
    return values


def test_registry_serves_confluents_registry_client(running: RunningRegistry) -> None:
    client = running.client
    first, second = (Schema(json.dumps(name), "AVRO") for name in ("int", "long"))
    assert client.register_schema("s-value", first) == 1
    assert client.test_compatibility("s-value", second)
    assert not client.test_compatibility("s-value", Schema('"string"', "AVRO"))
    with pytest.raises(SchemaRegistryError) as incompatible:
        client.register_schema("s-value", Schema('"string"', "AVRO"))
    assert (incompatible.value.http_status_code, incompatible.value.error_code) == (409, 409)
    assert client.register_schema("s-value", second) == 2
    assert client.get_versions("s-value") == [1, 2]
    assert client.get_latest_version("s-value").schema.schema_str == '"long"'
    registered = client.lookup_schema("s-value", first)
    assert (registered.schema_id, registered.version) == (1, 1)
    assert client.get_schema_by_guid(registered.guid or "").schema_str == '"int"'
    client.set_compatibility("s-value", "NONE")
    assert client.get_compatibility("s-value") == "NONE"
    assert client.register_schema("s-value", Schema('"string"', "AVRO")) == 3
    assert client.delete_version("s-value", 1) == 1
    assert client.delete_subject("s-value") == [2, 3]
    assert client.delete_subject("s-value", permanent=True) == [1, 2, 3]
    assert client.get_subjects() == []
    with pytest.raises(SchemaRegistryError) as missing:
        client.get_versions("s-value")
    assert missing.value.error_code == 40401


def test_serializers_and_the_trace_find_their_schemas(running: RunningRegistry) -> None:
    client, class_ = running.client, line_class()
    client.register_schema("money", Schema(json.dumps(MONEY), "AVRO"))
    avro = Schema(json.dumps(AVRO), "AVRO", [SchemaReference("Money", "money", 1)])
    current_format = {"use.deprecated.format": False}
    order, line, document = {"id": 1 << 40, "price": {"cents": -5}}, class_(unit=2, prices=[1.5], kind=1), {"id": 17}
    context = SerializationContext("orders", MessageField.VALUE)
    values = [
        AvroSerializer(client, avro)(order, context),
        ProtobufSerializer(class_, client, conf=current_format | {"subject.name.strategy": lambda *_: "line"})(
            line, context
        ),
        JSONSerializer(json.dumps(JSON), client, conf={"subject.name.strategy": lambda *_: "json"})(document, context),
    ]
    # A second client, so that every schema comes from the registry.
    second_client = SchemaRegistryClient({"url": running.url})
    assert AvroDeserializer(second_client)(values[0], context) == order
    assert (
        ProtobufDeserializer(class_, conf=current_format, schema_registry_client=second_client)(values[1], context)
        == line
    )
    assert JSONDeserializer(json.dumps(JSON), schema_registry_client=second_client)(values[2], context) == document

    assert fetch_values(running.proxy.bootstrap, "_schemas")
    producer = Producer({"bootstrap.servers": running.proxy.bootstrap})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(20) == 0
    assert fetch_values(running.proxy.bootstrap, "orders") == values
    running.proxy.interrupt()
    decoded_values = [record["value"] for record in decode_produced_records(running.proxy.trace)]
    assert [decoded_value["data"] for decoded_value in decoded_values] == [
        order,
        {"unit": "BOX", "prices": [1.5], "kind": "OLD"},
        document,
    ]
    assert [decoded_value["subject"] for decoded_value in decoded_values] == ["orders-value", "line", "json"]
    assert not [
        decoded_value for decoded_value in decoded_values if "problem" in decoded_value or "guess" in decoded_value
    ]

    restarted = RunningRegistry(running.directory)
    try:
        assert AvroDeserializer(SchemaRegistryClient({"url": restarted.url}))(values[0], context) == order
    finally:
        restarted.proxy.kill_all()


def decode_produced_records(trace: Path) -> list[dict[str, Any]]:
    """Return the records in Produce requests, decoded only with schemas from frames in the same trace."""
    inspector = Inspector("again", Detail.FULL, record_values=RecordValues(SchemaSources([]), Masks(())))
    connection_numbers: dict[str, int] = {}
    lines: list[Any] = []
    for line in read_lines(trace):
        if line["kind"] == "open":
            connection_numbers[line["connection_id"]] = len(connection_numbers)
            inspector.open(connection_numbers[line["connection_id"]], "client", "server", at=0)
        elif line["kind"] in ("request", "response"):
            direction = Direction.REQUEST if line["kind"] == "request" else Direction.RESPONSE
            frame = base64.b64decode(line["frame"])
            lines += inspector.receive_data(connection_numbers[line["connection_id"]], direction, frame, at=0)
    return [
        record
        for line in lines
        if isinstance(line, RequestLine) and line.api == "Produce" and line.body is not None
        for topic in line.body["topic_data"]
        for partition in topic["partition_data"]
        for batch in partition["records"]
        for record in batch["records"]
    ]
