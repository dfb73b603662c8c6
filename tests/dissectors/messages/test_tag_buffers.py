"""Find the structs with tagged fields, and the tagged fields that hold their default."""

from typing import Any

import pytest

from dissectors.messages.message import Message, read_response
from dissectors.messages.tag_buffers import is_default, structs_with_tags
from dissectors.wire.encode import encode
from dissectors.wire.layout import Layout, layout
from tests.kproxy.frames import with_length_prefix

FETCH = 1


def fetch_message(body: dict[str, Any], header: dict[str, Any] | None = None) -> Message:
    encoded_header = encode(layout("ResponseHeader", 1), {"correlation_id": 1} | (header or {}))
    return read_response(with_length_prefix(encoded_header + encode(layout("FetchResponse", 16), body)), FETCH, 16)


def partitions(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"responses": [{"partitions": list(rows)}]}


def tagged_paths(message: Message) -> list[tuple[str | int, ...]]:
    return [struct.path for struct in structs_with_tags(message)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, []),
        (partitions({}, {"aborted_transactions": [{"producer_id": 1}]}), []),
        ({"_tags": [[9, b"x"]]}, [()]),
        (partitions({}, {"_tags": [[9, b""]]}), [("responses", 0, "partitions", 1)]),
        (partitions({"snapshot_id": {"end_offset": 4}}), [("responses", 0, "partitions", 0)]),
        (
            partitions({"aborted_transactions": [{}, {"_tags": [[0, b""]]}]}),
            [("responses", 0, "partitions", 0, "aborted_transactions", 1)],
        ),
        (
            {"node_endpoints": [{"host": "a", "_tags": [[1, b""]]}]},
            [(), ("node_endpoints", 0)],
        ),
        (
            partitions({"current_leader": {"leader_id": 1, "_tags": [[1, b""]]}}),
            [("responses", 0, "partitions", 0), ("responses", 0, "partitions", 0, "current_leader")],
        ),
    ],
)
def test_every_struct_with_tagged_fields_is_found(body: dict[str, Any], expected: list[tuple[str | int, ...]]) -> None:
    assert tagged_paths(fetch_message(body)) == expected


def test_tagged_fields_in_the_header_are_found() -> None:
    assert tagged_paths(fetch_message({}, {"_tags": [[3, b""]]})) == [("header",)]


def test_message_without_tag_buffers_has_no_tagged_fields() -> None:
    frame = with_length_prefix(encode(layout("ResponseHeader", 0), {}) + encode(layout("FetchResponse", 11), {}))
    assert tagged_paths(read_response(frame, FETCH, 11)) == []


def find_field(struct: Layout, *names: str) -> Any:
    for name in names:
        named_field = next(field for field in (*struct.fields, *struct.tagged) if field.name == name)
        struct = named_field.struct or struct
    return named_field


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("current_leader", {"leader_id": -1, "leader_epoch": -1}, True),
        ("current_leader", {"leader_id": -1, "leader_epoch": 0}, False),
        ("current_leader", {"leader_id": -1, "leader_epoch": -1, "_tags": [[0, b""]]}, False),
        ("diverging_epoch", {"epoch": -1, "end_offset": -1}, True),
    ],
)
def test_struct_is_default_if_all_its_fields_are(name: str, value: Any, expected: bool) -> None:
    assert is_default(find_field(layout("FetchResponse", 16), "responses", "partitions", name), value) is expected


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("x", False), ("", False)])
def test_null_is_default_only_where_the_schema_says_so(value: str | None, expected: bool) -> None:
    assert is_default(find_field(layout("FetchRequest", 16), "cluster_id"), value) is expected
