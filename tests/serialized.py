"""Keys and values as written by confluent-kafka's serializers (tests/peers verifies this), with their schemas.

The ids come from confluent-kafka's mock registry, which counts from 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from dissectors.values import NotRegistered, Schema, SchemaKey

KEY_SCHEMA = '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}'
ORDER_SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}, {"name": "tags", "type":
    {"type": "array", "items": "string"}}]}"""
PAYMENT_SCHEMA = '{"type": "record", "name": "Payment", "fields": [{"name": "sum", "type": "double"}]}'
PROTO_SCHEMA = """syntax = "proto3"; package shop;
    message Order { int64 id = 1; string note = 2; } message Payment { double sum = 3; }"""
JSON_SCHEMA = """{"title": "Order", "type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}"""

KEY = bytes.fromhex("000000000122")
ORDER = bytes.fromhex("00000000022202046869040261026200")
PAYMENT = bytes.fromhex("0000000003000000000000e03f")
PROTO_PAYMENT = bytes.fromhex("0000000004020219000000000000e03f")
JSON_ORDER = bytes.fromhex("00000000057b226964223a31377d")


class InMemoryRegistry(dict[SchemaKey, Schema]):
    """A schema registry in memory, which is a source of schemas."""

    def add(self, schema_id: int, type_: str, text: str, *subjects: str) -> None:
        self[SchemaKey("id", schema_id)] = Schema(type_, text, subjects[0], subjects=subjects)

    def lookup(self, keys: Iterable[SchemaKey]) -> dict[SchemaKey, Schema | str]:
        return {key: self.get(key) or NotRegistered(f"the registry has no schema with {key}") for key in keys}


def sample_registry() -> InMemoryRegistry:
    """Return a registry with these schemas."""
    registry = InMemoryRegistry()
    registry.add(1, "AVRO", KEY_SCHEMA, "orders-key")
    registry.add(2, "AVRO", ORDER_SCHEMA, "orders-value")
    registry.add(3, "AVRO", PAYMENT_SCHEMA, "payments-value")
    registry.add(4, "PROTOBUF", PROTO_SCHEMA, "bills-value")
    registry.add(5, "JSON", JSON_SCHEMA, "events-value")
    return registry
