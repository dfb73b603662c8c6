"""Untrusted schemas: nothing is fetched, and no schema or value takes long to process."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from dissectors.values import DecodedValue, Schema, SchemaKey, ValueContext, decode
from tests.cpu_time import cpu_seconds


def decode_quickly(type_: str, text: str, payload: bytes) -> DecodedValue:
    """Decode a value with a schema in less than two CPU seconds."""
    context = ValueContext("t", schemas={SchemaKey("id", 1): Schema(type_, text)})
    values: list[DecodedValue] = []
    assert cpu_seconds(lambda: values.append(decode(b"\0\0\0\0\1" + payload, context))) < 2
    return values[0]


def problem_text(value: DecodedValue) -> str:
    assert value.problem is not None
    return value.problem.text


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("target_kind", ["http", "file", "relative"])
def test_references_are_not_fetched(
    keyword: str, target_kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[object] = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda *args, **_: requests.append(args))
    monkeypatch.setattr("socket.socket.connect", lambda *args: requests.append(args))
    file = tmp_path / "string.json"
    file.write_text('{"type": "string"}')
    target = {"http": "http://127.0.0.1:9/string.json", "file": file.as_uri(), "relative": "string.json"}[target_kind]
    dialects = {"$recursiveRef": "2019-09"}
    schema = {
        "$schema": f"https://json-schema.org/draft/{dialects.get(keyword, '2020-12')}/schema",
        "$id": f"{tmp_path.as_uri()}/this.json",
        "properties": {"first": {"type": "integer"}, "second": {keyword: target}},
    }
    text = json.dumps(schema)
    assert "first violates 'type'" in problem_text(decode_quickly("JSON", text, b'{"first": "x"}'))  # it is validated
    value = decode_quickly("JSON", text, b'{"first": 1, "second": 1}')
    assert "violates" not in (value.problem.text if value.problem else "")  # as it would if the file were read
    assert requests == []


@pytest.mark.parametrize("pattern", ["(a+)+$", "((a+)+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_backtracking_patterns_are_searched_in_bounded_time(pattern: str) -> None:
    text = "a" * 100_000 + "!"
    assert "'pattern'" in problem_text(
        decode_quickly("JSON", json.dumps({"pattern": pattern}), json.dumps(text).encode())
    )
    property_names = json.dumps({"propertyNames": {"pattern": pattern}})
    assert "'pattern'" in problem_text(decode_quickly("JSON", property_names, json.dumps({text: 1}).encode()))
    properties = json.dumps({"patternProperties": {pattern: {"type": "integer"}}})
    assert decode_quickly("JSON", properties, json.dumps({text: "x"}).encode()).problem is None


@pytest.mark.parametrize("pattern", ["a{1,1000}{1,1000}", "(?=a)(a+)+$", "(((a{1,100}){1,100}){1,100})$"])
def test_unsupported_patterns_are_not_checked(pattern: str) -> None:
    text = json.dumps("a" * 100_000 + "!").encode()
    assert decode_quickly("JSON", json.dumps({"pattern": pattern}), text).problem is None


@pytest.mark.slow
def test_exponential_references_end_with_an_error() -> None:
    definitions = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)} | {"d40": {}}
    assert "too many steps" in problem_text(
        decode_quickly("JSON", json.dumps({"$defs": definitions, "$ref": "#/$defs/d0"}), b"1")
    )
    assert "RecursionError" in problem_text(decode_quickly("JSON", '{"$ref": "#"}', b"1"))


RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (RECURSIVE, b"\2" * 100_000),
        ({**RECURSIVE, "fields": [{"name": "next", "type": "R"}]}, b"\2" * 1000),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, b"\xfe\xff\xff\xff\xff\x7f"),
        ({"type": "fixed", "name": "F", "size": 10**12}, b"abc"),
    ],
)
def test_hostile_avro_is_reported_as_a_problem(schema: Any, payload: bytes) -> None:
    assert problem_text(decode_quickly("AVRO", json.dumps(schema), payload))


def test_avro_defaults_are_not_copied_into_values() -> None:
    fields = [{"name": "a", "type": "string", "default": "x" * 1_000_000}]
    schema = {"type": "record", "name": "R", "fields": fields}
    assert decode_quickly("AVRO", json.dumps(schema), b"\2a").data == {"a": "a"}


@pytest.mark.parametrize("payload", [b"\x0a\x7f" * 20_000, b"\x0b" * 500_000])
def test_deeply_nested_protobuf_is_reported_as_a_problem(payload: bytes) -> None:
    assert problem_text(decode_quickly("PROTOBUF", 'syntax = "proto3"; message A { A a = 1; }', b"\0" + payload))


@pytest.mark.slow
def test_protobuf_imports_and_large_defaults_are_harmless() -> None:
    imports = 'syntax = "proto3"; import "../../etc/passwd"; message A { string a = 1; }'
    assert "root:" not in str(decode_quickly("PROTOBUF", imports, b"\0"))
    default = f'syntax = "proto2"; message A {{ optional string a = 1 [default = "{"x" * 300_000}"]; }}'
    assert len(str(decode_quickly("PROTOBUF", default, b"\0").data)) < 400_000
