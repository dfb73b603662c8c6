"""Edits in one element, two at once, and what hides: named where the bytes tell, else with little confidence."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.diagnosis import Diagnosis, diagnose
from dissectors.edits import Edit, frame_layout, parse, write
from dissectors.messages.message import read_response
from dissectors.wire.layout import layout

TOPICS = [
    {
        "error_code": 0,
        "name": name,
        "is_internal": False,
        "partitions": [
            {"error_code": 0, "partition_index": index, "leader_id": 2, "replica_nodes": [2, 3], "isr_nodes": [2, 3]}
            for index in range(2)
        ],
    }
    for name in ("orders", "payments", "users")
]
BROKERS = [{"node_id": node, "host": f"b{node}.example.com", "port": 9092, "rack": None} for node in (2, 3)]
METADATA = {"throttle_time_ms": 0, "brokers": BROKERS, "cluster_id": "c", "controller_id": 2, "topics": TOPICS}


def diagnosed(edit: Edit, version: int = 4, body: dict[str, Any] = METADATA) -> Diagnosis | None:
    """What diagnosis says of a Metadata response written under an edit."""
    right = frame_layout(layout("ResponseHeader", int(version >= 9)), layout("MetadataResponse", version))
    frame = write(edit, right, {"header": {"correlation_id": 7}, "body": body})
    return diagnose(read_response(frame, 3, version))


@pytest.mark.parametrize("index", range(3))
def test_a_field_that_one_element_lacks_is_named_with_its_index(index: int) -> None:
    edit = Edit.of("field_missing", f"topics[{index}].is_internal", where=2)
    found = diagnosed(edit)
    assert found is not None
    assert (found.edit, found.path) == (edit, f"topics[{index}].is_internal")


def test_an_edit_of_one_element_is_applied_to_no_other() -> None:
    edit = parse({"kind": "field_missing", "field": "topics[1].name", "detail": {"where": 1}})
    written = edit.apply(layout("MetadataResponse", 4))
    [topics] = [one for one in written.fields if one.name == "topics"]
    assert topics.struct == layout("MetadataResponse", 4).fields[-1].struct
    assert topics.exception is not None
    assert [one.name for one in topics.exception[1].fields] == ["error_code", "is_internal", "partitions"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (Edit.of("header_version", "header", written=0), Edit.of("flexibility", "*", written="fixed")),
        (
            Edit.of("body_version", "*", body_version=1, header=None),
            Edit.of("field_from_version", "throttle_time_ms", from_version=3, place=0),
        ),
    ],
    ids=["an old header before an old body", "version 1 with throttle_time_ms first"],
)
def test_two_edits_at_once_are_both_named(first: Edit, then: Edit) -> None:
    version = 9 if first.kind == "header_version" else 6
    found = diagnosed(first.followed_by(then), version)
    assert found is not None
    names = [found.edit, *found.also]
    right = frame_layout(layout("ResponseHeader", int(version >= 9)), layout("MetadataResponse", version))
    assert first.followed_by(then).apply(right) in [each.apply(right) for each in names]
    assert found.confidence > 0.5


def test_an_edit_that_hides_in_an_empty_array_is_not_seen() -> None:
    edit = Edit.of("field_missing", "topics[].name", where=1)
    assert diagnosed(edit, body=METADATA | {"topics": []}) is None


def test_a_null_where_it_is_legal_is_no_departure() -> None:
    assert (
        diagnosed(Edit.of("null_as_empty", "cluster_id", nullable_from=None), body=METADATA | {"cluster_id": None})
        is None
    )


def test_what_could_be_one_of_several_is_not_certain() -> None:
    right = frame_layout(layout("ResponseHeader", 1), layout("HeartbeatResponse", 4))
    frame = write(Edit.of("tag_buffer_missing", "_tags"), right, {"header": {"correlation_id": 7}, "body": {}})
    found = diagnose(read_response(frame, 12, 4))
    assert found is not None
    assert found.confidence < 0.95  # or L034 would not list the others
    assert found.rivals
    assert found.rivals
