"""Compare kproxy with Confluent's deserializers on many random records of each format; print the CPU time per record.

``python -m tests.serializers.comparison [RECORDS [SEED]]`` needs the extra `peers`, where fastavro reads Avro,
Google's classes read Protobuf, and Python's json and jsonschema read JSON. The status is 1 if any value differs.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2

from dissectors.values import Schema, SchemaKey, ValueContext, decode

CONTEXT = SerializationContext("many", MessageField.VALUE)
PROTOC = Path(__file__).parents[1] / "dissectors" / "values" / "protoc"
AVRO = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "small", "type": "int"}, {"name": "ratio", "type": "double"},
        {"name": "part", "type": "float"}, {"name": "paid", "type": "boolean"}, {"name": "raw", "type": "bytes"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 4}},
        {"name": "note", "type": ["null", "string"]}, {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "children", "type": {"type": "array", "items": "Order"}},
    ],
}  # fmt: skip
JSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "tags": {"type": "array"}, "more": {}},
    "required": ["id"],
}


class Comparison(NamedTuple):
    """The result for one format; times are in µs of CPU per record."""

    format: str
    records: int
    different: int
    kproxy_us: float
    other_us: float


def compare(records: int, seed: int = 1) -> list[Comparison]:
    """Compare `records` records of each format."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    random = Random(seed)
    class_ = _message_class()
    protobuf_options = {"use.deprecated.format": False}
    write_avro = AvroSerializer(client, json.dumps(AVRO))
    write_protobuf = ProtobufSerializer(class_, client, conf=protobuf_options)
    write_json = JSONSerializer(json.dumps(JSON), client)
    return [
        _compare_format(
            "avro", client, [write_avro(_random_order(random, 2), CONTEXT) for _ in range(records)],
            AvroDeserializer(client), lambda ours, theirs: ours == _as_text(theirs),
        ),
        _compare_format(
            "protobuf", client, [write_protobuf(_random_message(random, class_, 3), CONTEXT) for _ in range(records)],
            ProtobufDeserializer(class_, conf=protobuf_options, schema_registry_client=client),
            lambda ours, theirs: json_format.ParseDict(_as_base64(ours), class_()) == theirs,
        ),
        _compare_format(
            "json-schema", client, [write_json(_random_document(random), CONTEXT) for _ in range(records)],
            JSONDeserializer(json.dumps(JSON), schema_registry_client=client), lambda ours, theirs: ours == theirs,
        ),
    ]  # fmt: skip


def _compare_format(
    format_: str,
    client: SchemaRegistryClient,
    values: list[bytes],
    other_decoder: Callable[[bytes, SerializationContext], Any],
    is_same: Callable[[Any, Any], bool],
) -> Comparison:
    id_ = int.from_bytes(values[0][1:5], "big")
    registered_schema: Registered = client.get_schema(id_)
    assert registered_schema.schema_type is not None
    context = ValueContext(
        "many",
        schemas={SchemaKey("id", id_): Schema(registered_schema.schema_type, registered_schema.schema_str or "")},
    )
    decode(values[0], context), other_decoder(values[0], CONTEXT)  # let both parse the schema before the measurement
    start = time.process_time()
    own_values = [decode(value, context) for value in values]
    own_end = time.process_time()
    other_values = [other_decoder(value, CONTEXT) for value in values]
    end = time.process_time()
    different = sum(
        our_value.format != format_ or our_value.problem is not None or not is_same(our_value.data, their_value)
        for our_value, their_value in zip(own_values, other_values, strict=True)
    )
    per_record = 1e6 / len(values)
    return Comparison(format_, len(values), different, (own_end - start) * per_record, (end - own_end) * per_record)


def _random_text(random: Random) -> str:
    return "".join(random.choices('aZ0 äß€😀\n"\\', k=random.randrange(12)))


def _random_order(random: Random, depth: int) -> dict[str, Any]:
    return {
        "id": random.randint(-(1 << 63), (1 << 63) - 1) >> random.randrange(64),
        "small": random.randint(-(1 << 31), (1 << 31) - 1) >> random.randrange(32),
        "ratio": random.uniform(-1e300, 1e300),
        "part": random.randrange(-1000, 1000) / 8,
        "paid": random.random() < 0.5,
        "raw": random.randbytes(random.randrange(9)),
        "price": Decimal(random.randint(-(10**17), 10**17) >> random.randrange(57)).scaleb(-4),
        "day": date.fromordinal(random.randint(1, 3_000_000)),
        "at": datetime.fromtimestamp(random.randint(-(10**9), 4 * 10**9), UTC).replace(
            microsecond=random.randrange(10**6)
        ),
        "kind": random.choice("ABC"),
        "mark": random.randbytes(4),
        "note": random.choice([None, _random_text(random)]),
        "tags": {_random_text(random): _random_text(random) for _ in range(random.randrange(4))},
        "children": [_random_order(random, depth - 1) for _ in range(random.randrange(3) if depth else 0)],
    }


def _as_text(value: Any) -> Any:
    """Return a value whose logical types are converted to text as kproxy does."""
    match value:
        case dict():
            return {name: _as_text(inner) for name, inner in value.items()}
        case list():
            return [_as_text(element) for element in value]
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
    return value


def _message_class() -> Any:
    """Return the class of the message Order in tests/dissectors/values/protoc/rich.proto."""
    [file] = descriptor_pb2.FileDescriptorSet.FromString((PROTOC / "rich.binpb").read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Order"))


def _random_message(random: Random, class_: Any, depth: int) -> Any:
    def line() -> dict[str, Any]:
        prices = [random.randrange(-100, 100) / 4 for _ in range(random.randrange(3))]
        return {"unit": random.choice(["PIECE", "BOX"]), "prices": prices, "kind": random.choice([-1, 0, 1])}

    def order(depth_left: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": random.randint(-(1 << 63), (1 << 63) - 1) >> random.randrange(64)}
        if random.random() < 0.5:
            fields["note"] = _random_text(random)
        fields |= random.choice([{}, {"card": _random_text(random)}, {"credit": line()}])
        fields["lines_by_name"] = {_random_text(random): line() for _ in range(random.randrange(3))}
        fields["raw"] = {
            str(random.randrange(-9, 9)): base64.b64encode(random.randbytes(3)).decode()
            for _ in range(random.randrange(3))
        }
        if random.random() < 0.5:
            fields["at"] = datetime.fromtimestamp(random.randrange(4 * 10**9), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields["children"] = [order(depth_left - 1) for _ in range(random.randrange(3) if depth_left else 0)]
        return fields

    return json_format.ParseDict(order(depth), class_())


def _random_document(random: Random) -> dict[str, Any]:
    more = random.choice(
        [None, True, random.uniform(-1e9, 1e9), {_random_text(random): [_random_text(random)]}, _random_text(random)]
    )
    return {
        "id": random.randrange(1 << 60),
        "name": _random_text(random),
        "tags": [_random_text(random)] * 2,
        "more": more,
    }


def _as_base64(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_base64(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_base64(element) for element in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def main() -> int:
    """Print the figures, and return the exit status."""
    comparisons = compare(*(int(argument) for argument in sys.argv[1:3] or ["10000"]))
    print("format        records  different  kproxy, µs  deserializer, µs")  # noqa: T201
    for comparison in comparisons:
        counts = f"{comparison.records:7}  {comparison.different:9}"
        times = f"{comparison.kproxy_us:10.1f}  {comparison.other_us:16.1f}"
        print(f"{comparison.format:12}  {counts}  {times}")  # noqa: T201
    return int(any(result.different for result in comparisons))


if __name__ == "__main__":
    sys.exit(main())
