"""How `decode` reads keys and values of other writers, with and without schemas."""

from __future__ import annotations

import json
import random
import zlib
from typing import Any

import msgspec
import pytest

from dissectors.values import (
    DecodedValue,
    NotRegistered,
    Schema,
    SchemaKey,
    ValueContext,
    ValueLimits,
    ValueProblem,
    decode,
    schema_keys,
)
from dissectors.values.errors import SchemaError, cached_parser

ID = SchemaKey("id", 17)
GUID = "89791762-2336-4186-9674-299b90a802e2"
ORDER = Schema(
    "AVRO",
    """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}}]}""",
    subject="orders-value",
)
#: Written by fastavro's schemaless_writer.
ORDER_BYTES = bytes.fromhex("2202020668692104d3f4f4d7e285e3680402610262000202780d00")
ORDER_DATA = {
    "id": 17,
    "state": "PAID",
    "note": "hi!",
    "price": "-112.76",
    "at": "2027-01-15T08:00:01.530Z",
    "tags": ["a", "b"],
    "counts": {"x": -7},
}


def context_with_schema(schema: Schema | str, key: SchemaKey = ID, **settings: Any) -> ValueContext:
    return ValueContext("orders", schemas={key: schema}, **settings)


def confluent_envelope(payload: bytes, number: int = 17) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


AVRO = DecodedValue("avro", ORDER_DATA, schema=ID, subject="orders-value", type="shop.Order", reencoding="equal")


def test_avro_in_a_confluent_envelope_is_decoded() -> None:
    assert decode(confluent_envelope(ORDER_BYTES), context_with_schema(ORDER)) == AVRO


@pytest.mark.parametrize(
    ("key", "data", "headers"),
    [
        (SchemaKey("guid", GUID), ORDER_BYTES, (("__value_schema_id", b"\1" + bytes.fromhex(GUID.replace("-", ""))),)),
        (SchemaKey("guid", GUID), b"\1" + bytes.fromhex(GUID.replace("-", "")) + ORDER_BYTES, ()),
        (SchemaKey("global_id", 9), b"\0" + (9).to_bytes(8, "big") + ORDER_BYTES, ()),
        (SchemaKey("global_id", 9), ORDER_BYTES, (("apicurio.value.globalId", (9).to_bytes(8, "big")),)),
        (SchemaKey("content_id", 9), ORDER_BYTES, (("apicurio.value.contentId", (9).to_bytes(8, "big")),)),
        (SchemaKey("glue", GUID), b"\3\0" + bytes.fromhex(GUID.replace("-", "")) + ORDER_BYTES, ()),
        (SchemaKey("glue", GUID), b"\3\5" + bytes.fromhex(GUID.replace("-", "")) + zlib.compress(ORDER_BYTES), ()),
        (SchemaKey("azure", "0" * 31 + "a"), ORDER_BYTES, (("content-type", b"avro/binary+" + b"0" * 31 + b"A"),)),
    ],
)
def test_value_in_another_envelope_is_decoded(
    key: SchemaKey, data: bytes, headers: tuple[tuple[str, bytes], ...]
) -> None:
    value = decode(data, context_with_schema(ORDER, key, headers=headers))
    assert (value.data, value.schema, value.problem) == (ORDER_DATA, key, None)
    assert schema_keys(data, ValueContext(headers=headers))[0] == key


@pytest.mark.parametrize(
    "data", [(1000).to_bytes(8, "big"), (1 << 40).to_bytes(8, "big"), b"\1" + bytes(30), b"\3\0" + bytes(30)]
)
def test_binary_data_needs_no_schema_lookup(data: bytes) -> None:
    assert schema_keys(data, ValueContext()) == []


def test_headers_of_the_value_do_not_apply_to_the_key() -> None:
    headers = (("__value_schema_id", b"\1" + bytes(16)), ("content-type", b"avro/binary+" + b"0" * 32))
    assert schema_keys(b"abc", ValueContext(is_key=True, headers=headers)) == []


def test_value_without_an_envelope_is_decoded_as_a_guess() -> None:
    value = decode(ORDER_BYTES, context_with_schema(ORDER, SchemaKey("subject", "orders-value")))
    assert (value.data, value.is_guess, value.subject) == (ORDER_DATA, True, "orders-value")
    assert decode(b"hello", context_with_schema(ORDER, SchemaKey("subject", "orders-value"))).format == "text"
    assert decode(ORDER_MESSAGE, context_with_schema(PROTO, SchemaKey("subject", "orders-value"))).type == "shop.Order"


@pytest.mark.parametrize(
    ("payload", "text", "offset", "data"),
    [
        (ORDER_BYTES[:5], "note: length 3 does not fit: 1 bytes left", 8, {"id": 17, "state": "PAID"}),
        (b"\x22\x08", "state: symbol 4 of an enum with 2", 6, {"id": 17}),
        (b"\x22\2\6", "note: branch 3 of a union with 2", 7, {"id": 17, "state": "PAID"}),
        (b"\xff" * 10, "id: a number has more than 64 bits", 5, {}),
        (ORDER_BYTES + b"xy", "2 bytes left after the value: probably another schema", 32, ORDER_DATA),
    ],
)
def test_invalid_avro_names_the_field_and_the_byte(payload: bytes, text: str, offset: int, data: Any) -> None:
    value = decode(confluent_envelope(payload), context_with_schema(ORDER))
    assert (value.problem, value.data, value.reencoding) == (ValueProblem(text, offset), data, None)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x01\x02\x02\x00", "an array or map has a block with its size in bytes, at byte 0 after the envelope"),
        (b"\x02\x02\x02\x04\x00", "an array or map is written in several blocks, at byte 2 after the envelope"),
        (b"\x82\x00\x02\x00", "a number takes more bytes than it needs, at byte 0 after the envelope"),
    ],
)
def test_different_avro_encoding_is_explained(payload: bytes, reason: str) -> None:
    value = decode(
        confluent_envelope(payload), context_with_schema(Schema("AVRO", '{"type": "array", "items": "int"}'))
    )
    assert value.problem is None
    assert value.reencoding == f"differs: {reason}"


def test_avro_uses_referenced_types() -> None:
    money = Schema("AVRO", '{"type": "fixed", "name": "shop.Money", "size": 2}')
    schema = Schema("AVRO", '{"type": "array", "items": "shop.Money"}', references={"shop.Money": money})
    assert decode(confluent_envelope(b"\x02ab\x00"), context_with_schema(schema)).data == [b"ab"]


@pytest.mark.parametrize("declared", ['"nobody"', "{", "[" * 9999, '{"type": "record", "name": "A"}', '{"a": 1}'])
def test_unusable_schema_is_a_problem(declared: str) -> None:
    value = decode(confluent_envelope(b"x"), context_with_schema(Schema("AVRO", declared)))
    assert value.problem is not None
    assert value.problem.text.startswith("the schema cannot be used: ")


def test_invalid_schema_is_parsed_once() -> None:
    calls = []

    @cached_parser
    def parse(schema: Schema) -> None:
        calls.append(schema)
        raise SchemaError("it is wrong")

    for _ in range(2):
        with pytest.raises(SchemaError, match="it is wrong"):
            parse(LIST)
    assert calls == [LIST]


LIST = Schema("AVRO", '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}')


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        (LIST, b"\2" * 100_000, "nested more than 64 levels deep"),
        (Schema("AVRO", '{"type": "array", "items": "null"}'), b"\xfe" + b"\xff" * 7 + b"\1", "elements does not fit"),
        (Schema("AVRO", '"bytes"'), b"\xfe" + b"\xff" * 7 + b"\1", "does not fit: 0 bytes left"),
    ],
)
def test_resource_exhausting_avro_is_a_problem(schema: Schema, payload: bytes, text: str) -> None:
    problem = decode(confluent_envelope(payload), context_with_schema(schema)).problem
    assert problem is not None
    assert problem.text.endswith(text)


PROTO = Schema(
    "PROTOBUF",
    """syntax = "proto3"; package shop; import "money.proto"; import "google/protobuf/timestamp.proto";
    import "nobody/has/this.proto";
    message Order {
      int64 id = 1; State state = 2; optional string note = 3; money.Money price = 4;
      google.protobuf.Timestamp at = 5; repeated int32 counts = 6; map<string, Line> lines = 7;
      oneof paid { string card = 8; bool cash = 9; }
      enum State { NEW = 0; PAID = 1; }
      message Line { uint32 amount = 1; message Inner { sint32 deep = 1; } }
    }
    message Second { bytes data = 1; }""",
    references={
        "money.proto": Schema("PROTOBUF", 'syntax = "proto3"; package money; message Money { double value = 1; }')
    },
)
ORDER_MESSAGE = bytes.fromhex("08111001220909000000000000e03f2a02080132020703" + "3a090a0378797a1202080542023432")


def test_protobuf_is_decoded() -> None:
    value = decode(confluent_envelope(b"\0" + ORDER_MESSAGE), context_with_schema(PROTO))
    assert value == DecodedValue(
        "protobuf",
        {
            "id": 17,
            "state": "PAID",
            "price": {"value": 0.5},
            "at": "1970-01-01T00:00:01Z",
            "counts": [7, 3],
            "lines": {"xyz": {"amount": 5}},
            "card": "42",
        },
        schema=ID,
        type="shop.Order",
        reencoding="equal",
    )


def test_protobuf_with_unordered_fields_is_decoded() -> None:
    value = decode(confluent_envelope(b"\0" + b"\x10\x01\x08\x11"), context_with_schema(PROTO))
    assert (value.data["id"], value.data["state"]) == (17, "PAID")
    assert value.reencoding == "differs: fields or map entries are in another order"


@pytest.mark.parametrize(
    ("payload", "type_", "text"),
    [
        (b"\2\2\x0a\1x", "shop.Second", None),
        (b"\6\0\0\0\x08\1", "shop.Order.Line.Inner", None),  # as Java counts
        (b"\6\0\2\0\x08\1", "shop.Order.Line.Inner", None),  # with the entries of maps, as Python counts
        (b"\2\4\x0a\1x", None, "the schema has no message with index 2; they fit shop.Second (index 1)"),
        (b"\2\2\x12\1x", "shop.Second", "fields that shop.Second does not have: 2; probably another message or schema"),
        (b"\0\x08", "shop.Order", "these bytes are not a shop.Order"),
        (b"\xff" * 5 + b"\x01", None, "a message index has more than 32 bits"),
        (b"\x06\0", None, "the bytes end inside the message indexes"),
    ],
)
def test_protobuf_message_indexes_select_the_type(payload: bytes, type_: str | None, text: str | None) -> None:
    value = decode(confluent_envelope(payload), context_with_schema(PROTO))
    if type_ == "shop.Order.Line.Inner":
        assert value.data == {"deep": -1}
    assert value.type == type_
    assert (value.problem and value.problem.text) == text


def test_message_indexes_may_follow_a_guid_in_a_header() -> None:
    header = b"\1" + bytes.fromhex(GUID.replace("-", "")) + b"\2\2"
    context = context_with_schema(PROTO, SchemaKey("guid", GUID), headers=(("__value_schema_id", header),))
    assert decode(b"\x0a\1x", context).data == {"data": b"x"}


JSON_SCHEMA = Schema(
    "JSON",
    '{"title": "Order", "properties": {"id": {"type": "integer"}, "by": {"$ref": "person.json"}}, "required": ["id"]}',
    references={"person.json": Schema("JSON", '{"properties": {"name": {"type": "string"}}}')},
)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b'{"id": 17, "by": {"name": "Ann"}}', None),
        (b'{"id": 17, "by": {"name": 5}}', ValueProblem("by.name violates 'type' of its JSON Schema")),
        (b'{"by": {}}', ValueProblem("the value violates 'required' of its JSON Schema")),
        (b"{", ValueProblem("the payload is not JSON", 5)),
    ],
)
def test_json_schema_violation_is_a_problem(payload: bytes, problem: ValueProblem | None) -> None:
    value = decode(confluent_envelope(payload), context_with_schema(JSON_SCHEMA))
    assert (value.format, value.problem) == ("json-schema", problem)


def test_json_schema_with_a_bad_reference_is_a_problem() -> None:
    for target in ("#", "gone.json"):
        problem = decode(
            confluent_envelope(b"{}"), context_with_schema(Schema("JSON", f'{{"allOf": [{{"$ref": "{target}"}}]}}'))
        ).problem
        assert problem is not None
        assert problem.text.startswith("the schema cannot be used: ")


def test_unregistered_id_is_a_problem() -> None:
    value = decode(
        confluent_envelope(b'{"a": 1}'), context_with_schema(NotRegistered("the registry has no schema with id 17"))
    )
    assert value == DecodedValue(
        "json", {"a": 1}, is_guess=True, schema=ID, problem=ValueProblem("the registry has no schema with id 17", 1)
    )
    assert value.problem is not None
    assert type(value.problem.text) is str  # encoders of JSON refuse subclasses


def violation_of(schema: dict[str, Any], value: Any) -> str | None:
    problem = decode(
        confluent_envelope(json.dumps(value).encode()), context_with_schema(Schema("JSON", json.dumps(schema)))
    ).problem
    return problem and problem.text.removesuffix(" of its JSON Schema")


SLOW = {"a": "a" * 45 + "!"}  # takes Python's re years with the pattern below
_OWN_DIALECT = {"$schema": "http://json-schema.org/draft-06/schema#", "pattern": "^(a+)+$"}
_DOUBLING = {f"d{i}": {"allOf": [{"$ref": f"#/definitions/d{i + 1}"}] * 2} for i in range(30)} | {
    "d30": {"type": "null"}
}


@pytest.mark.parametrize(
    ("schema", "value", "violation"),
    [
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, SLOW, "a violates 'pattern'"),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "aa"}, None),
        ({"properties": {"a": {"pattern": "(?=b)a"}}}, {"a": "a"}, None),  # lookaround is not checked
        ({"properties": {"a": _OWN_DIALECT}}, SLOW, "a violates 'pattern'"),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {SLOW["a"]: 1},
         "the value violates 'additionalProperties'"),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"b": 1, "ab": 1}, "ab violates 'type'"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, {"ab": 1, "b": 1},
         "b violates 'type'"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "unevaluatedProperties": False}, {"b": 1},
         "the value violates 'unevaluatedProperties'"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "unevaluatedProperties": False,
          "patternProperties": {"^(a+)+$": {}}}, {SLOW["a"]: 1}, None),
        ({"uniqueItems": True}, [{"a": i} for i in range(5000)], None),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, 1, {"b": 2, "a": 1}], "the value violates 'uniqueItems'"),
        ({"definitions": _DOUBLING, "$ref": "#/definitions/d0"}, None,
         "the schema cannot be used: validation takes too many steps"),
    ],
)  # fmt: skip
def test_json_schema_validation_takes_bounded_time(schema: dict[str, Any], value: Any, violation: str | None) -> None:
    assert violation_of(schema, value) == violation


def test_lone_surrogates_in_json_become_escapes() -> None:
    payload = rb'{"\ud800": "\udcff", "specversion": "1.0", "id": "1", "source": "s", "type": "\ud83d"}'
    value = decode(payload, ValueContext("orders"))
    assert value.type == r"\ud83d"
    assert msgspec.json.encode(value.data)
    assert value.data["\\ud800"] == r"\xff"


EVENT = (("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"/shop"), ("ce_type", b"order.paid"))


@pytest.mark.parametrize(
    ("data", "headers", "expected"),
    [
        (None, (), DecodedValue("null", None)),
        (b"", (), DecodedValue("empty", "")),
        (b'{"a": [1, null]}', (), DecodedValue("json", {"a": [1, None]})),
        (b"[NaN]", (), DecodedValue("text", "[NaN]", is_guess=True)),
        (b"17", (), DecodedValue("text", "17", is_guess=True)),
        ("Grüße\n".encode(), (), DecodedValue("text", "Grüße\n", is_guess=True)),
        (b"\x81\xa1a\x01", (), DecodedValue("msgpack", {"a": 1}, is_guess=True)),
        (b"\xa1\x61a\x01", (), DecodedValue("cbor", {"a": 1}, is_guess=True)),
        (b"\xd9\xd9\xf7\x01", (), DecodedValue("cbor", 1)),
        (b"\x00\x01\xff", (), DecodedValue("bytes", b"\x00\x01\xff", is_guess=True)),
        (
            b'{"schema": {"type": "struct", "name": "T"}, "payload": {"a": 1}}',
            (),
            DecodedValue("connect-json", {"a": 1}, type="T"),
        ),
        (
            b'{"op": "u", "before": null, "after": {"a": 1}, "source": {"connector": "mysql"}}',
            (),
            DecodedValue(
                "debezium",
                {"op": "u", "before": None, "after": {"a": 1}, "source": {"connector": "mysql"}},
                type="update",
            ),
        ),
        (
            b'{"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.paid"}',
            (),
            DecodedValue(
                "cloudevents",
                {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.paid"},
                type="order.paid",
            ),
        ),
        (
            b'{"a": 1}',
            EVENT,
            DecodedValue(
                "cloudevents",
                {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.paid", "data": {"a": 1}},
                type="order.paid",
            ),
        ),
    ],
)
def test_value_without_a_schema_is_decoded(
    data: bytes | None, headers: tuple[tuple[str, bytes], ...], expected: DecodedValue
) -> None:
    assert decode(data, ValueContext("orders", headers=headers)) == expected


def test_decoded_value_is_limited_in_size_depth_and_nodes() -> None:
    limits = ValueLimits(size=1000, depth=3, nodes=10)
    assert decode(b"x" * 1001, ValueContext(limits=limits)).is_cut
    deep_value = decode(b'{"a": {"b": {"c": {"d": 1}}}}', ValueContext(limits=limits))
    assert (deep_value.data, deep_value.is_cut) == ({"a": {"b": {"c": "(cut)"}}}, True)
    wide_value = decode(msgspec.json.encode([*range(99)]), ValueContext(limits=limits))
    assert (len(wide_value.data), wide_value.is_cut) == (9, True)


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    prefixes = [
        b"",
        confluent_envelope(b""),
        b"\1" + bytes(16),
        b"\3\5" + bytes(16),
        b"{",
        b"\xd9\xd9\xf7",
        confluent_envelope(b"\0"),
    ]
    keys = [ID, SchemaKey("guid", "00000000-0000-0000-0000-000000000000"), SchemaKey("subject", "orders-value")]
    for schema in (ORDER, LIST, PROTO, JSON_SCHEMA, Schema("NEW", ""), "there is none"):
        context = ValueContext("orders", schemas=dict.fromkeys(keys, schema))
        for valid_payload in (ORDER_BYTES, ORDER_MESSAGE, b'{"id": 17, "by": {}}'):
            for prefix in prefixes:
                damaged = bytearray(valid_payload)
                damaged[rng.randrange(len(valid_payload))] = rng.randrange(256)
                for payload in (bytes(damaged), rng.randbytes(rng.randrange(64))):
                    msgspec.json.encode(decode(prefix + payload, context).problem)
