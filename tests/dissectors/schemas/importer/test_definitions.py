"""One definition file, as Kafka writes it, read without its sentences."""

import json
from typing import Any

import pytest

from dissectors.schemas.importer.definitions import Message, parse, read

LICENCE = '// Licensed to the ASF under one or more agreements. // "None" of this is JSON.\n'


def message(text: str) -> Message:
    message = read(text, "kafka-clients", "4.4.0")
    assert message is not None
    return message


def definition(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({
        "apiKey": 3, "type": "request", "name": "CatRequest", "validVersions": "0-3", "flexibleVersions": "2+",
        "fields": fields, **more,
    })  # fmt: skip


def field(**source: Any) -> dict[str, Any]:
    [field] = message(definition({"name": "Cat", "type": "string", "versions": "0+", **source}))["fields"]
    assert isinstance(field, dict)
    return field


def test_comments_go_and_strings_stay() -> None:
    text = LICENCE + '{"a": "http://x", /* two\n lines */ "b": "\\"// no comment", // yes\n "c": "/* no */"}'
    assert parse(text) == {"a": "http://x", "b": '"// no comment', "c": "/* no */"}


def test_a_message_keeps_facts_and_loses_sentences() -> None:
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
    assert message(text) == {
        "name": "CatRequest", "type": "request", "component": "kafka-clients", "versions": {0, 1, 2, 3}, "apiKey": 3,
        "served": {"4.4.0": "0-3"}, "flexible": "2+", "deprecated": {"4.4.0": "0"},
        "fields": [{
            "name": "Colour", "type": "string", "versions": {1, 2, 3}, "nullableVersions": {1, 2, 3},
            "taggedVersions": set(), "entityType": "colourName", "default": None, "mapKey": True,
        }],
    }  # fmt: skip


def test_a_message_that_the_release_gave_up_is_none() -> None:
    gone = '{"apiKey": 4, "type": "request", "name": "LeaderAndIsrRequest", "validVersions": "none"}'
    assert read(gone, "kafka-clients", "4.4.0") is None


def test_a_field_that_no_valid_version_has_is_left_out() -> None:
    made = message(definition({"name": "Old", "type": "int8", "versions": "0-2"}, validVersions="3"))
    assert made["fields"] == []


def test_a_field_may_name_only_the_versions_in_which_it_is_tagged() -> None:
    [field] = message(definition({"name": "Cat", "type": "int8", "taggedVersions": "2+", "tag": "0"}))["fields"]
    assert (field["versions"], field["taggedVersions"], field["tag"]) == ({2, 3}, {2, 3}, 0)


def test_a_struct_that_is_shared_stands_where_it_is_used() -> None:
    cursor = {"name": "Cursor", "versions": "0+", "fields": [{"name": "At", "type": "int32", "versions": "0+"}]}
    fields = [
        {"name": "First", "type": "Cursor", "versions": "0+"},
        {"name": "Rest", "type": "[]Cursor", "versions": "1+"},
    ]
    first, rest = message(definition(*fields, commonStructs=[cursor]))["fields"]
    assert [inner["name"] for inner in first["fields"]] == ["At"]
    assert [inner["versions"] for inner in rest["fields"]] == [{1, 2, 3}], "no version has it without its struct"


@pytest.mark.parametrize(
    ("kind", "written", "value"),
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
def test_a_default_has_its_type(kind: str, written: object, value: object) -> None:
    default = field(type=kind, default=written)["default"]
    assert (default, type(default)) == (value, type(value))


def test_no_default_is_no_key() -> None:
    assert "default" not in field()


def test_a_definition_that_lacks_what_it_must_have_is_refused() -> None:
    with pytest.raises(KeyError, match="validVersions"):
        read('{"name": "CatRequest", "type": "request"}', "kafka-clients", "4.4.0")
