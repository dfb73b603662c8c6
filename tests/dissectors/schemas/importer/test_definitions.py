"""Read a definition file, as Kafka writes it, without its comments and descriptions."""

import json
from typing import Any

import pytest

from dissectors.schemas.importer.definitions import Message, parse, read_definition

LICENCE = '// Licensed to the ASF under one or more agreements. // "None" of this is JSON.\n'


def read_message(text: str) -> Message:
    message = read_definition(text, "kafka-clients", "4.4.0")
    assert message is not None
    return message


def definition(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({
        "apiKey": 3, "type": "request", "name": "CatRequest", "validVersions": "0-3", "flexibleVersions": "2+",
        "fields": fields, **more,
    })  # fmt: skip


def read_field(**source: Any) -> dict[str, Any]:
    [field] = read_message(definition({"name": "Cat", "type": "string", "versions": "0+", **source}))["fields"]
    assert isinstance(field, dict)
    return field


def test_comments_are_removed_and_strings_kept() -> None:
    text = LICENCE + '{"a": "http://x", /* two\n lines */ "b": "\\"// no comment", // yes\n "c": "/* no */"}'
    assert parse(text) == {"a": "http://x", "b": '"// no comment', "c": "/* no */"}


def test_message_is_read_without_its_comments_and_descriptions() -> None:
    text = (
        LICENCE
        + """{
      "apiKey": 3, "type": "request", "listeners": ["broker"], "name": "CatRequest",
      // Version 1 has a colour.
      "validVersions": "0-3", "deprecatedVersions": "0", "flexibleVersions": "2+",
      "fields": [
        { "name": "Colour", "type": "string", "versions": "1+", "nullableVersions": "1+", "about": "Of the cat.",
          "mapKey": true, "ignorable": false, "entityType": "colourName", "default": "null" }
      ]
    }"""
    )
    assert read_message(text) == {
        "name": "CatRequest", "type": "request", "component": "kafka-clients", "versions": {0, 1, 2, 3}, "apiKey": 3,
        "served": {"4.4.0": "0-3"}, "flexible": "2+", "deprecated": {"4.4.0": "0"},
        "fields": [{
            "name": "Colour", "type": "string", "versions": {1, 2, 3}, "nullableVersions": {1, 2, 3},
            "taggedVersions": set(), "entityType": "colourName", "default": None, "mapKey": True,
        }],
    }  # fmt: skip


def test_removed_message_is_read_as_none() -> None:
    removed = '{"apiKey": 4, "type": "request", "name": "LeaderAndIsrRequest", "validVersions": "none"}'
    assert read_definition(removed, "kafka-clients", "4.4.0") is None


def test_field_without_a_valid_version_is_left_out() -> None:
    cat_request = read_message(definition({"name": "Old", "type": "int8", "versions": "0-2"}, validVersions="3"))
    assert cat_request["fields"] == []


def test_field_may_give_only_its_tagged_versions() -> None:
    [field] = read_message(definition({"name": "Cat", "type": "int8", "taggedVersions": "2+", "tag": "0"}))["fields"]
    assert (field["versions"], field["taggedVersions"], field["tag"]) == ({2, 3}, {2, 3}, 0)


def test_shared_struct_is_copied_to_each_field() -> None:
    cursor = {"name": "Cursor", "versions": "0+", "fields": [{"name": "At", "type": "int32", "versions": "0+"}]}
    fields = [
        {"name": "First", "type": "Cursor", "versions": "0+"},
        {"name": "Rest", "type": "[]Cursor", "versions": "1+"},
    ]
    first, rest = read_message(definition(*fields, commonStructs=[cursor]))["fields"]
    assert [inner["name"] for inner in first["fields"]] == ["At"]
    assert [inner["versions"] for inner in rest["fields"]] == [{1, 2, 3}], "no version has the field without its struct"


@pytest.mark.parametrize(
    ("type_name", "default_text", "value"),
    [
        ("string", "", ""),
        ("string", "null", None),
        ("string", "7", "7"),
        ("int32", "0x7fffffff", 0x7FFFFFFF),
        ("int64", "-1", -1),
        ("int8", 16, 16),
        ("bool", "true", True),
        ("bool", False, False),
        ("float64", "0.5", 0.5),
        ("[]int32", None, None),
        ("Cursor", "null", None),
    ],
)
def test_default_has_the_type_of_its_field(type_name: str, default_text: object, value: object) -> None:
    default = read_field(type=type_name, default=default_text)["default"]
    assert (default, type(default)) == (value, type(value))


def test_field_without_a_default_has_no_such_key() -> None:
    assert "default" not in read_field()


def test_definition_without_a_required_key_is_rejected() -> None:
    with pytest.raises(KeyError, match="validVersions"):
        read_definition('{"name": "CatRequest", "type": "request"}', "kafka-clients", "4.4.0")
