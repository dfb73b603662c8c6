"""Trace lines as JSON."""

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


def encoded(line: object) -> bytes:
    out = bytearray()
    append_line(line, out)  # type: ignore[arg-type]
    return bytes(out)


def test_a_line_begins_with_its_kind_and_format_and_leaves_out_what_is_absent() -> None:
    assert encoded(REQUEST).startswith(b'{"kind":"request","v":1,"ts":"2026-11-21T03:41:00.000001Z"')
    assert b"null" not in encoded(REQUEST)
    assert "group_id" not in as_mapping(REQUEST)


def test_a_line_reads_back() -> None:
    assert parse_line(encoded(REQUEST)) == REQUEST


def test_bytes_in_a_body_are_base64_and_text_that_is_not_utf8_is_escaped() -> None:
    line = msgspec.structs.replace(REQUEST, client_id="\udcffx", body={"key": b"\x00\x01", "name": "\udcfe"})
    made = json.loads(encoded(line))
    assert made["client_id"] == "\\xffx"
    assert made["body"] == {"key": "AAE=", "name": "\\xfe"}


def test_a_line_that_cannot_be_written_as_it_is_leaves_the_lines_before_it_alone() -> None:
    out = bytearray()
    append_line(REQUEST, out)
    before = bytes(out)
    append_line(msgspec.structs.replace(REQUEST, client_id="\udcff"), out)
    assert bytes(out[: len(before)]) == before
    assert [json.loads(line)["size"] for line in out.splitlines()] == [100, 100]


def test_any_decoded_values_become_json() -> None:
    assert (
        encode_json({"a": b"\xff", "b": "\udcff", "c": [memoryview(b"x")]}) == rb'{"a":"/w==","b":"\\xff","c":["eA=="]}'
    )


def test_a_column_added_later_does_not_keep_a_line_from_opening() -> None:
    line = json.loads(encoded(REQUEST)) | {"added_in_2030": {"x": 1}}
    assert parse_line(json.dumps(line)) == REQUEST


def in_any_order(schema: Any) -> Any:
    """A schema with its lists in one order: msgspec before 0.22 has other orders of what may be null."""
    if isinstance(schema, dict):
        return {name: in_any_order(value) for name, value in schema.items()}
    return sorted(map(in_any_order, schema), key=repr) if isinstance(schema, list) else schema


def test_the_published_schema_is_that_of_the_lines() -> None:
    published = json.loads((DOCS / "trace-1.schema.json").read_text())
    assert in_any_order(published) == in_any_order(json_schema())


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
    jsonschema.Draft202012Validator(json_schema()).validate(json.loads(encoded(line)))


def test_the_schema_refuses_a_line_of_no_kind() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schema()).validate({"v": 1, "kind": "other"})


def test_every_kind_has_the_columns_that_identify_a_line() -> None:
    for kind in KINDS.values():
        assert {"v", "ts", "connection_id"} <= set(kind.__struct_fields__)


@pytest.mark.parametrize("name", ["orders", "bestellungen-für", "a\x7fb", "half \udce4", 'quo"te\n'])
def test_several_lines_are_those_encoded_one_by_one(name: str) -> None:
    lines = [REQUEST, msgspec.structs.replace(REQUEST, topics=[TopicEntry(name)]), REQUEST]
    out = bytearray(b"before\n")
    append_lines(lines, out)
    assert bytes(out) == b"before\n" + b"".join(map(encoded, lines))
