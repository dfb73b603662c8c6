"""Values written by confluent-kafka's serializers are decoded with the schemas that the serializers register."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra peers")

from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import (
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from dissectors.values import DecodedValue, Schema, SchemaKey, ValueContext, decode, schema_keys
from dissectors.values.proto_text import file_descriptor
from tests import serialized
from tests.serializers.comparison import compare

pytestmark = pytest.mark.peers

PROTOC = Path(__file__).parents[1] / "dissectors" / "values" / "protoc"
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "price", "type": "shop.Money"},
        {"name": "to", "type": ["null", "string", {"type": "record", "name": "Person", "fields": []}, "shop.Money"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tree", "type": {"type": "map", "values": {"type": "array", "items": ["null", "shop.Order"]}}},
        {"name": "ratio", "type": "double"},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 3}},
    ],
}
MONEY = {
    "type": "record",
    "name": "shop.Money",
    "fields": [{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}],
}


@pytest.fixture
def client() -> SchemaRegistryClient:
    return SchemaRegistryClient.new_client({"url": "mock://"})


def order(tree: dict[str, Any]) -> dict[str, Any]:
    return {
        "price": {"amount": decimal.Decimal("-12.50")},
        "to": {"amount": decimal.Decimal("0.01")},
        "day": datetime.date(2026, 11, 23),
        "at": datetime.datetime(2026, 11, 23, 10, 0, 0, 5, tzinfo=datetime.UTC),
        "kind": "B",
        "tree": tree,
        "ratio": -0.5,
        "raw": b"\0\1\2",
    }


def expected_order(tree: dict[str, Any]) -> dict[str, Any]:
    decoded_fields = {"price": {"amount": "-12.50"}, "to": {"amount": "0.01"}, "day": "2026-11-23"}
    return order(tree) | decoded_fields | {"at": "2026-11-23T10:00:00.000005Z"}


def decode_with_registry(client: SchemaRegistryClient, data: bytes, headers: list[tuple[str, bytes]]) -> DecodedValue:
    """Decode a value with schemas from the mock registry."""
    context = ValueContext("orders", headers=tuple(headers))
    key = schema_keys(data, context)[0]
    registered_schema = client.get_schema(key.value) if key.form == "id" else client.get_schema_by_guid(key.value)
    return decode(
        data, ValueContext("orders", headers=tuple(headers), schemas={key: convert_schema(client, registered_schema)})
    )


def convert_schema(client: SchemaRegistryClient, registered: Registered) -> Schema:
    references = {
        reference.name: convert_schema(client, client.get_version(reference.subject, reference.version).schema)
        for reference in registered.references or ()
    }
    return Schema(registered.schema_type, registered.schema_str, references=references)


@pytest.mark.parametrize("in_header", [False, True])
def test_avro_values_are_decoded(client: SchemaRegistryClient, in_header: bool) -> None:
    client.register_schema("money", Registered(json.dumps(MONEY), "AVRO"))
    schema = Registered(json.dumps(AVRO), "AVRO", [SchemaReference("shop.Money", "money", 1)])
    config = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
    headers: list[tuple[str, bytes]] = []
    serialize = AvroSerializer(client, schema, conf=config)
    value_to_write = order({"x": [None, order({})], "y": []})
    data = serialize(value_to_write, SerializationContext("orders", MessageField.VALUE, headers))
    value = decode_with_registry(client, data, headers)
    assert value.data == expected_order({"x": [None, expected_order({})], "y": []})
    assert (value.type, value.problem, value.reencoding) == ("shop.Order", None, "equal")
    assert bool(headers) is in_header


@pytest.mark.parametrize("in_header", [False, True])
def test_protobuf_values_are_decoded(client: SchemaRegistryClient, in_header: bool) -> None:
    [file] = descriptor_pb2.FileDescriptorSet.FromString((PROTOC / "rich.binpb").read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    class_ = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Order.Line"))
    config: dict[str, Any] = {"use.deprecated.format": False}
    if in_header:
        config["schema.id.serializer"] = header_schema_id_serializer
    headers: list[tuple[str, bytes]] = []
    value_to_write = class_(unit=2, prices=[1.5, -2], kind=1)
    data = ProtobufSerializer(class_, client, conf=config)(
        value_to_write, SerializationContext("orders", MessageField.VALUE, headers)
    )
    value = decode_with_registry(client, data, headers)
    assert value.data == {"unit": "BOX", "prices": [1.5, -2.0], "kind": "OLD"}
    assert (value.type, value.problem, value.reencoding) == ("shop.v1.Order.Line", None, "equal")
    text = Schema("PROTOBUF", (PROTOC / "rich.proto").read_text())
    by_text = decode(data, ValueContext("orders", headers=tuple(headers), schemas={value.schema: text}))  # type: ignore[dict-item]
    assert by_text == value


def test_json_schema_values_are_decoded_and_validated(client: SchemaRegistryClient) -> None:
    client.register_schema("person", Registered('{"properties": {"name": {"type": "string"}}}', "JSON"))
    text = '{"title": "Order", "type": "object", "properties": {"by": {"$ref": "person.json"}}}'
    schema = Registered(text, "JSON", [SchemaReference("person.json", "person", 1)])
    value_to_write = {"by": {"name": "Zoë"}, "n": 1.5}
    data = JSONSerializer(schema, client)(value_to_write, SerializationContext("orders", MessageField.VALUE))
    value = decode_with_registry(client, data, [])
    assert (value.data, value.type, value.problem) == (value_to_write, "Order", None)
    assert value.schema == SchemaKey("id", int.from_bytes(data[1:5], "big"))
    invalid = data.replace('"Zoë"'.encode(), b"5")
    problem = decode_with_registry(client, invalid, []).problem
    assert problem is not None
    assert problem.text == "by.name violates 'type' of its JSON Schema"


def test_sample_values_equal_the_output_of_the_serializers(client: SchemaRegistryClient) -> None:
    def context(topic: str, field: str = MessageField.VALUE) -> SerializationContext:
        return SerializationContext(topic, field)

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file_descriptor("shop.proto", serialized.PROTO_SCHEMA).SerializeToString())
    payment = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Payment"))
    placed = {"id": 17, "note": "hi", "tags": ["a", "b"]}
    avro = [
        AvroSerializer(client, serialized.KEY_SCHEMA)({"id": 17}, context("orders", MessageField.KEY)),
        AvroSerializer(client, serialized.ORDER_SCHEMA)(placed, context("orders")),
        AvroSerializer(client, serialized.PAYMENT_SCHEMA)({"sum": 0.5}, context("payments")),
    ]
    assert avro == [serialized.KEY, serialized.ORDER, serialized.PAYMENT]
    serialize = ProtobufSerializer(payment, client, conf={"use.deprecated.format": False})
    assert serialize(payment(sum=0.5), context("bills")) == serialized.PROTO_PAYMENT
    events = JSONSerializer(Registered(serialized.JSON_SCHEMA, "JSON"), client)
    assert events({"id": 17}, context("events")) == serialized.JSON_ORDER


def test_many_random_values_are_decoded_equally() -> None:
    assert [(comparison.format, comparison.different) for comparison in compare(200)] == [
        ("avro", 0),
        ("protobuf", 0),
        ("json-schema", 0),
    ]
