"""Schemas are read from files: file names, references, and unusable files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dissectors.values import Schema, SchemaKey, ValueContext, decode
from kproxy.errors import UserError
from kproxy.registry.directory import SchemaDirectory

GUID = "89791762-2336-4186-9674-299b90a802e2"


def write_directory(path: Path, **files: str) -> SchemaDirectory:
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return SchemaDirectory(path)


@pytest.mark.parametrize(
    ("name", "keys", "subject"),
    [
        ("17.avsc", [SchemaKey("id", 17), SchemaKey("global_id", 17)], None),
        ("17.orders-value.avsc", [SchemaKey("id", 17)], "orders-value"),
        ("shop.orders-value.avsc", [SchemaKey("subject", "shop.orders-value")], "shop.orders-value"),
        (f"{GUID}.avsc", [SchemaKey("guid", GUID), SchemaKey("glue", GUID)], None),
        ("00ff" * 8 + ".avsc", [SchemaKey("azure", "00ff" * 8)], None),
    ],
)
def test_schema_is_found_by_the_id_and_subject_in_its_file_name(
    tmp_path: Path, name: str, keys: list[SchemaKey], subject: str | None
) -> None:
    for schema in write_directory(tmp_path, **{name: '"string"'}).lookup(keys).values():
        assert isinstance(schema, Schema)
        assert (schema.type, schema.text, schema.subject) == ("AVRO", '"string"', subject)


def test_missing_schema_is_reported(tmp_path: Path) -> None:
    key = SchemaKey("id", 18)
    assert write_directory(tmp_path, **{"17.avsc": "{}"}).lookup([key]) == {key: f"{tmp_path} has no schema with id 18"}


def test_schemas_in_files_can_reference_each_other(tmp_path: Path) -> None:
    source = write_directory(
        tmp_path,
        **{
            "money.avsc": '{"type": "fixed", "name": "Money", "namespace": "shop", "size": 1}',
            "1.avsc": '{"type": "array", "items": "shop.Money"}',
            "common/money.proto": 'syntax = "proto3"; message Money { int32 value = 1; }',
            "2.proto": 'syntax = "proto3"; import "common/money.proto"; message Order { Money price = 1; }',
            "common/person.json": '{"type": "string"}',
            "3.json": '{"properties": {"by": {"$ref": "common/person.json"}}}',
        },
    )
    schemas = source.lookup([SchemaKey("id", number) for number in (1, 2, 3)])
    payloads = {1: b"\2x\0", 2: b"\0\x0a\2\x08\7", 3: b'{"by": 5}'}
    values = [
        decode(b"\0" + number.to_bytes(4, "big") + payload, ValueContext(schemas=schemas))
        for number, payload in payloads.items()
    ]
    assert [value.data for value in values] == [[b"x"], {"price": {"value": 7}}, {"by": 5}]
    assert [value.problem and value.problem.text for value in values] == [
        None,
        None,
        "by violates 'type' of its JSON Schema",
    ]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "--schemas {}: no .avsc, .proto or .json file in this directory"),
        ({"7.avsc": "{}", "b/7.avsc": "{}"}, "--schemas {}: two files have the id 7; rename one of them"),
    ],
)
def test_unusable_directories_are_rejected(tmp_path: Path, files: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(sentence.format(tmp_path))}$"):
        write_directory(tmp_path, **files)


def test_file_that_is_not_text_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not text in UTF-8"):
        SchemaDirectory(tmp_path)
