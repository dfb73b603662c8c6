"""Edits of the lengths of all strings, arrays or bytes in a body, and of the sizes of tags."""

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


def response_layout(version: int) -> Layout:
    layouts = api_layouts(3, version)
    assert layouts is not None
    return frame_layout(layouts.response_header, layouts.response)


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


@pytest.mark.parametrize(("version", "kind", "field", "detail", "growth"), SCOPES)
def test_length_edit_of_a_scope_is_written_and_diagnosed(
    version: int, kind: str, field: str, detail: dict[str, object], growth: int
) -> None:
    edit, layout = Edit.of(kind, field, **detail), response_layout(version)
    unedited, broken = write(None, layout, METADATA), write(edit, layout, METADATA)
    assert broken != unedited
    assert len(broken) - len(unedited) == growth
    assert parse(edit.as_json()) == edit
    diagnosis = diagnose(read_response(broken, 3, version))
    assert diagnosis is not None
    assert write(diagnosis.edit, layout, METADATA) == broken, str(diagnosis.edit)
    assert diagnosis.confidence > 0.9


def test_unknown_length_width_is_rejected() -> None:
    with pytest.raises(EditError, match="int16 or int32, not int64"):
        Edit.of("length_encoding", "*strings", written="int64").apply(response_layout(5))


@pytest.mark.parametrize("delta", [-2, 1, 3])
def test_wrong_tag_size_is_diagnosed_with_its_delta(delta: int) -> None:
    layouts = api_layouts(18, 3)
    assert layouts is not None
    layout = frame_layout(layouts.response_header, layouts.response)
    keys = [{"api_key": key, "min_version": 0, "max_version": 9} for key in (0, 1, 3, 18)]
    values = {"header": {"correlation_id": 1}, "body": {"api_keys": keys, "finalized_features_epoch": 7}}
    broken = write(Edit.of("tag_size", "_tags", tag=1, delta=delta), layout, values)
    diagnosis = diagnose(read_response(broken, 18, 3))
    assert diagnosis is not None
    assert diagnosis.edit == Edit.of("tag_size", "_tags", tag=1, delta=delta)
    assert f"{abs(delta)} too {'large' if delta > 0 else 'small'}" in diagnosis.sentence


def test_tag_size_delta_defaults_to_one() -> None:
    edit = parse({"kind": "tag_size", "field": "_tags", "detail": {"tag": 0}})
    assert edit == Edit.of("tag_size", "_tags", tag=0, delta=1)
    with pytest.raises(EditError, match="wrong by 0 bytes"):
        Edit.of("tag_size", "_tags", tag=0, delta=0).apply(response_layout(9))


def test_added_string_has_the_length_encoding_of_its_message() -> None:
    layouts = api_layouts(14, 3)
    assert layouts is not None
    edit = Edit.of("field_from_version", "protocol_name", from_version=5, place=4)
    written = write(edit, layouts.request, {"group_id": "g", "member_id": "m", "protocol_name": "range"})
    assert b"\x00\x05range" in written
    assert decode(edit.apply(layouts.request), written).values["protocol_name"] == "range"
