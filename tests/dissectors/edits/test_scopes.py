"""Lengths of all strings, arrays or bytes of a body in another encoding or width, and wrong sizes of tags."""

import pytest

from dissectors.diagnosis import diagnose
from dissectors.edits import Edit, EditError, frame_layout, parse, write
from dissectors.messages.message import api_layouts, read_response
from dissectors.wire.decode import decode
from dissectors.wire.layout import Layout

METADATA = {
    "header": {"correlation_id": 3},
    "body": {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": 1, "host": "kafka-1.example", "port": 9092, "rack": "a"},
                    {"node_id": 2, "host": "kafka-2.example", "port": 9092, "rack": None}],
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
        "controller_id": 1,
        "topics": [{"name": "orders", "is_internal": False, "partitions": [
            {"partition_index": 0, "leader_id": 1, "replica_nodes": [1, 2], "isr_nodes": [1, 2]},
            {"partition_index": 1, "leader_id": 2, "replica_nodes": [2, 1], "isr_nodes": [2]}]}],
    },
}  # fmt: skip


def layout_of(version: int) -> Layout:
    known = api_layouts(3, version)
    assert known is not None
    return frame_layout(known.response_header, known.response)


SCOPES = [
    (5, "length_encoding", "*strings", {"written": "compact"}, -6),
    (5, "length_encoding", "*strings", {"written": "int32"}, 2 * 6),
    (5, "length_encoding", "*arrays", {"written": "compact"}, -3 * 9),
    (5, "length_encoding", "*arrays", {"written": "int16"}, -2 * 9),
    (9, "length_encoding", "*strings", {"written": "fixed"}, 6),
    (9, "length_encoding", "*arrays", {"written": "fixed"}, 3 * 9),
    (9, "length_off_by_one", "*strings", {"delta": -1}, 0),
    (9, "length_off_by_one", "*arrays", {"delta": 1}, 0),
]


@pytest.mark.parametrize(("version", "kind", "field", "detail", "longer"), SCOPES)
def test_a_scope_is_written_and_diagnosed(
    version: int, kind: str, field: str, detail: dict[str, object], longer: int
) -> None:
    edit, layout = Edit.of(kind, field, **detail), layout_of(version)
    right, broken = write(None, layout, METADATA), write(edit, layout, METADATA)
    assert broken != right
    assert len(broken) - len(right) == longer
    assert parse(edit.as_json()) == edit
    found = diagnose(read_response(broken, 3, version))
    assert found is not None
    assert write(found.edit, layout, METADATA) == broken, str(found.edit)
    assert found.confidence > 0.9


def test_a_width_that_is_none_is_an_edit_error() -> None:
    with pytest.raises(EditError, match="int16 or int32, not int64"):
        Edit.of("length_encoding", "*strings", written="int64").apply(layout_of(5))


@pytest.mark.parametrize("delta", [-2, 1, 3])
def test_the_size_of_a_tag_is_named_with_its_difference(delta: int) -> None:
    known = api_layouts(18, 3)
    assert known is not None
    layout = frame_layout(known.response_header, known.response)
    keys = [{"api_key": key, "min_version": 0, "max_version": 9} for key in (0, 1, 3, 18)]
    values = {"header": {"correlation_id": 1}, "body": {"api_keys": keys, "finalized_features_epoch": 7}}
    broken = write(Edit.of("tag_size", "_tags", tag=1, delta=delta), layout, values)
    found = diagnose(read_response(broken, 18, 3))
    assert found is not None
    assert found.edit == Edit.of("tag_size", "_tags", tag=1, delta=delta)
    assert f"{abs(delta)} too {'large' if delta > 0 else 'small'}" in found.sentence


def test_the_difference_of_a_size_may_be_left_out() -> None:
    edit = parse({"kind": "tag_size", "field": "_tags", "detail": {"tag": 0}})
    assert edit == Edit.of("tag_size", "_tags", tag=0, delta=1)
    with pytest.raises(EditError, match="wrong by 0 bytes"):
        Edit.of("tag_size", "_tags", tag=0, delta=0).apply(layout_of(9))


def test_a_string_of_a_flexible_version_is_written_with_the_lengths_of_the_message() -> None:
    known = api_layouts(14, 3)
    assert known is not None
    edit = Edit.of("field_from_version", "protocol_name", from_version=5, place=4)
    written = write(edit, known.request, {"group_id": "g", "member_id": "m", "protocol_name": "range"})
    assert b"\x00\x05range" in written
    assert decode(edit.apply(known.request), written).values["protocol_name"] == "range"
