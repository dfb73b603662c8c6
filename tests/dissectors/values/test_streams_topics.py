"""Records of Kafka Streams' internal topics; Kafka's own classes wrote those in `kafka_streams`."""

from __future__ import annotations

import ast
import base64
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from dissectors.values import ProblemKind, Schema, SchemaKey, ValueContext, decode, schema_keys
from tests.cpu_time import cpu_seconds

WRITTEN = Path(__file__).with_name("kafka_streams") / "records.jsonl"
RECORDS = [json.loads(line) for line in WRITTEN.read_text().splitlines()]

START, END = 1795444800000, 1795444801206
AVRO = Schema("AVRO", '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}', "orders-value")
SCHEMAS: dict[SchemaKey, Schema | str] = {SchemaKey("id", 17): AVRO}
ORDER = bytes.fromhex("0000000011 22")
NUMBER = struct.pack(">q", 500)


def as_hex_values(tree: Any) -> Any:
    """Return a tree with its bytes as hex, as in the fixtures."""
    if isinstance(tree, dict):
        return {name: as_hex_values(inner) for name, inner in tree.items()}
    return tree.hex() if isinstance(tree, bytes) else tree


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['topic']}-{record['type']}")
def test_records_written_by_kafka_are_decoded(record: dict[str, str]) -> None:
    decoded_value = decode(
        base64.b64decode(record["data"]), ValueContext(record["topic"], is_key=record["part"] == "key")
    )
    assert (decoded_value.format, decoded_value.type, decoded_value.is_guess, decoded_value.problem) == (
        "kafka-streams",
        record["type"],
        True,
        None,
    )
    expected = ast.literal_eval(record["shown"])
    assert as_hex_values(decoded_value.data) == expected
    assert list(decoded_value.data) == list(expected)


def window_key(key: bytes, start: int = START, sequence: int = 0) -> bytes:
    return key + struct.pack(">qi", start, sequence)


def session_key(key: bytes, start: int = START, end: int = END) -> bytes:
    return key + struct.pack(">qq", end, start)


@pytest.mark.parametrize(
    ("topic", "is_key", "data"),
    [
        ("app-s-changelog", True, NUMBER),
        ("app-s-changelog", True, struct.pack(">q", START)),
        ("app-s-changelog", True, struct.pack(">qq", START, 7)),
        ("app-s-changelog", True, struct.pack(">qi", START, 7)),  # nothing is left for the key
        ("app-s-changelog", True, b"customer-17 of the north"),
        ("app-s-changelog", True, b'{"id": 17, "region": "north"}'),
        ("app-s-changelog", True, b"customer" + bytes(12)),  # padded text
        ("app-s-changelog", True, window_key(NUMBER, start=17)),
        ("app-s-changelog", True, window_key(NUMBER, sequence=-1)),
        ("app-s-changelog", True, session_key(NUMBER, END, START)),  # ends before it starts
        ("app-s-changelog", True, bytes(range(1, 17))),
        ("app-s-changelog", False, window_key(b"text")),  # a value
        ("app-s-repartition", True, struct.pack(">q", START)),
        ("app-s-repartition", True, b"\x92\1\xcf" + struct.pack(">q", START)),  # MessagePack
        ("app-s-repartition", False, struct.pack(">q", 5)),
        ("app-s-repartition", False, struct.pack(">i", 1)),
        ("app-s-repartition", False, b'{"card": "x"}'),
        ("app-s-repartition", False, b"\x05"),
        ("app-KTABLE-AGGREGATE-STATE-STORE-0000000003-repartition", False, b"abc\x06"),
        ("app-KTABLE-AGGREGATE-STATE-STORE-0000000003-repartition", False, b"\x7fabc\x02"),
        ("app-KTABLE-AGGREGATE-STATE-STORE-0000000003-repartition", False, b"abc\x02\x04"),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic", False, b"\x82\0pk"),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic", False, b"\1\0short"),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic", False, b"\0short"),
        ("news-subscription-registration-topic", False, ORDER + bytes(30)),
        ("orders", True, window_key(b"text")),
        ("x" * 300 + "-changelog", True, window_key(b"text")),
    ],
)
def test_other_keys_and_values_are_not_special(topic: str, is_key: bool, data: bytes) -> None:
    assert decode(data, ValueContext(topic, is_key)).format != "kafka-streams"


def test_tombstone_is_null() -> None:
    assert decode(None, ValueContext("app-s-changelog")).format == "null"


@pytest.mark.parametrize(("flag", "members"), [(3, {"old"}), (4, {"new"}), (5, {"new", "old"})])
def test_change_with_a_latest_flag_is_decoded(flag: int, members: set[str]) -> None:
    data = (b"\4" if flag == 5 else b"") + b"{}" + (b"[]" if flag == 5 else b"") + bytes([1, flag])
    decoded_value = decode(data, ValueContext("app-s-repartition"))
    assert decoded_value.data["latest"] is True
    assert {name for name in ("new", "old") if decoded_value.data[name] is not None} == members


@pytest.mark.parametrize("start", [START, 0])
def test_inner_key_is_decoded_with_its_schema(start: int) -> None:
    """A known schema makes early times, as in tests, plausible."""
    decoded_value = decode(window_key(ORDER, start), ValueContext("app-s-changelog", is_key=True, schemas=SCHEMAS))
    assert decoded_value.data == {"key": {"id": 17}, "window_start": start, "sequence": 0}
    assert (decoded_value.schema, decoded_value.subject, decoded_value.problem) == (
        SchemaKey("id", 17),
        "orders-value",
        None,
    )


def test_change_with_an_unknown_schema_is_a_problem() -> None:
    context = ValueContext("app-KTABLE-REDUCE-STATE-STORE-0000000003-repartition")
    data = bytes([2 * len(ORDER)]) + ORDER + ORDER + b"\2"
    assert schema_keys(data, context).count(SchemaKey("id", 17)) == 2
    decoded_value = decode(data, context)
    assert (decoded_value.type, decoded_value.schema) == ("change", SchemaKey("id", 17))
    assert decoded_value.problem is not None
    assert (decoded_value.problem.offset, decoded_value.problem.kind) == (2, ProblemKind.NO_SCHEMA)
    assert decoded_value.with_schema("value").type is None


def test_schema_of_an_inner_key_is_not_used_for_the_value() -> None:
    topic = "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic"
    data = b"\x80\1" + ORDER
    assert SchemaKey("id", 17) in schema_keys(data, ValueContext(topic))
    decoded_value = decode(data, ValueContext(topic, schemas=SCHEMAS))
    assert decoded_value.data["primary_key"] == {"id": 17}
    assert decoded_value.schema is None


def test_arbitrary_bytes_are_decoded_quickly_without_exception() -> None:
    rng = random.Random(7)
    topics = sorted({record["topic"] for record in RECORDS})
    for record in RECORDS:
        data = bytearray(base64.b64decode(record["data"]))
        for _ in range(4):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 5, 0x7F, 0x80, 0xFF))
            context = ValueContext(rng.choice(topics), is_key=rng.random() < 0.5, schemas=SCHEMAS)
            truncated = bytes(data[: rng.randrange(len(data) + 1)])
            decode(truncated, context)
            schema_keys(truncated, context)
    assert cpu_seconds(lambda: decode(b"\0" * 30, ValueContext("-changelog" * 6000, is_key=True))) < 1
