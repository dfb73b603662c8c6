"""Trace lines are encoded as JSON."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from kproxy.trace.encoding import append_line, append_lines, as_mapping, encode_json, json_schema, parse_line
from kproxy.trace.lines import KINDS, CloseLine, GapLine, OpenLine, RequestLine, TopicEntry

DOCS = Path(__file__).parents[3] / "docs"

REQUEST = RequestLine(
    v=1,
    ts="2026-11-21T03:41:00.000001Z",
    connection_id="a-1",
    client="127.0.0.1:5",
    server="127.0.0.1:9092",
    api="Produce",
    api_key=0,
    api_version=9,
    correlation_id=7,
    size=100,
    offset=0,
    topics=[TopicEntry("orders", None, [0, 1], 70, 2)],
)


def encode(line: object) -> bytes:
    output = bytearray()
    append_line(line, output)  # type: ignore[arg-type]
    return bytes(output)


def test_line_starts_with_kind_and_format_and_omits_absent_columns() -> None:
    assert encode(REQUEST).startswith(b'{"kind":"request","v":1,"ts":"2026-11-21T03:41:00.000001Z"')
    assert b"null" not in encode(REQUEST)
    assert "group_id" not in as_mapping(REQUEST)


def test_encoded_line_parses_back() -> None:
    assert parse_line(encode(REQUEST)) == REQUEST


def test_bytes_are_encoded_as_base64_and_invalid_text_is_escaped() -> None:
    line = msgspec.structs.replace(REQUEST, client_id="\udcffx", body={"key": b"\x00\x01", "name": "\udcfe"})
    decoded = json.loads(encode(line))
    assert decoded["client_id"] == "\\xffx"
    assert decoded["body"] == {"key": "AAE=", "name": "\\xfe"}


def test_line_with_invalid_text_leaves_earlier_lines_intact() -> None:
    output = bytearray()
    append_line(REQUEST, output)
    first_line = bytes(output)
    append_line(msgspec.structs.replace(REQUEST, client_id="\udcff"), output)
    assert bytes(output[: len(first_line)]) == first_line
    assert [json.loads(line)["size"] for line in output.splitlines()] == [100, 100]


def test_any_decoded_values_can_be_encoded() -> None:
    assert (
        encode_json({"a": b"\xff", "b": "\udcff", "c": [memoryview(b"x")]}) == rb'{"a":"/w==","b":"\\xff","c":["eA=="]}'
    )


def test_line_with_an_unknown_column_can_be_parsed() -> None:
    line = json.loads(encode(REQUEST)) | {"added_in_2030": {"x": 1}}
    assert parse_line(json.dumps(line)) == REQUEST


def sort_lists(schema: Any) -> Any:
    """Return a schema with sorted lists, because msgspec before 0.22 orders nullable types differently."""
    if isinstance(schema, dict):
        return {name: sort_lists(value) for name, value in schema.items()}
    return sorted(map(sort_lists, schema), key=repr) if isinstance(schema, list) else schema


def test_published_schema_is_up_to_date() -> None:
    published = json.loads((DOCS / "trace-1.schema.json").read_text())
    assert sort_lists(published) == sort_lists(json_schema())


@pytest.mark.parametrize(
    "line",
    [
        REQUEST,
        OpenLine(v=1, ts=REQUEST.ts, connection_id="a-1", client="c", server="s", tls=True),
        GapLine(v=1, ts=REQUEST.ts, connection_id="a-1", direction="request", bytes=3, reason="why"),
        CloseLine(v=1, ts=REQUEST.ts, connection_id="a-1", client="c", server="s"),
    ],
)
def test_lines_are_valid_against_the_published_schema(line: object) -> None:
    jsonschema.Draft202012Validator(json_schema()).validate(json.loads(encode(line)))


def test_schema_rejects_a_line_of_unknown_kind() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schema()).validate({"v": 1, "kind": "other"})


def test_every_kind_has_the_columns_that_identify_a_line() -> None:
    for kind in KINDS.values():
        assert {"v", "ts", "connection_id"} <= set(kind.__struct_fields__)


@pytest.mark.parametrize("name", ["orders", "bestellungen-für", "a\x7fb", "half \udce4", 'quo"te\n'])
def test_several_lines_are_encoded_like_single_ones(name: str) -> None:
    lines = [REQUEST, msgspec.structs.replace(REQUEST, topics=[TopicEntry(name)]), REQUEST]
    output = bytearray(b"before\n")
    append_lines(lines, output)
    assert bytes(output) == b"before\n" + b"".join(map(encode, lines))
