"""Layouts after edits of nested fields, headers, tagged structs and all fields of a kind; edits that do not fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.diagnosis.candidates import single_edits
from dissectors.diagnosis.diagnose import right_layout
from dissectors.edits import KINDS, Edit, EditError, frame_layout, parse, write
from dissectors.messages.message import read_request, read_response
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Field, Layout, layout
from dissectors.wire.walk import walk
from tests.dissectors.edits.test_notation import COMPOSED, TABLE
from tests.strategies import layouts

METADATA_1 = layout("MetadataResponse", 1)
METADATA_12 = frame_layout(layout("ResponseHeader", 1), layout("MetadataResponse", 12))


def struct_at(shape: Layout, *path: str) -> Layout:
    for name in path:
        struct = next(field.struct for field in (*shape.fields, *shape.tagged) if field.name == name)
        assert struct is not None
        shape = struct
    return shape


def field_names(shape: Layout, *path: str) -> list[str]:
    return [field.name for field in struct_at(shape, *path).fields]


def field_at(shape: Layout, *path: str) -> Field:
    *parents, name = path
    return next(
        field
        for field in (*struct_at(shape, *parents).fields, *struct_at(shape, *parents).tagged)
        if field.name == name
    )


def test_field_of_a_struct_in_nested_arrays_is_moved() -> None:
    edit = Edit.of("field_moved", "topics[].partitions[].leader_epoch", from_=3, to=0)
    original_names = field_names(METADATA_12, "body", "topics", "partitions")
    edited_names = field_names(edit.apply(METADATA_12), "body", "topics", "partitions")
    assert edited_names == ["leader_epoch", *(name for name in original_names if name != "leader_epoch")]


def test_edit_applies_equally_to_a_body_and_to_a_whole_frame() -> None:
    frame = frame_layout(layout("ResponseHeader", 0), METADATA_1)
    for edit in (Edit.of("field_missing", "brokers[].rack", where=3), Edit.of("flexibility", written="compact")):
        assert struct_at(edit.apply(frame), "body") == edit.apply(METADATA_1)


def test_field_from_another_version_is_added_with_its_struct() -> None:
    edit = Edit.of("field_from_version", "responses[].partitions[].aborted_transactions", from_version=4, place=3)
    edited = edit.apply(layout("FetchResponse", 3))
    assert field_names(edited, "responses", "partitions")[3] == "aborted_transactions"
    assert field_names(edited, "responses", "partitions", "aborted_transactions") == ["producer_id", "first_offset"]


def test_field_in_a_tagged_struct_is_removed() -> None:
    edit = Edit.of("field_missing", "node_endpoints[].rack", where=3)
    edited = edit.apply(layout("ProduceResponse", 10))
    assert field_names(edited, "node_endpoints") == ["node_id", "host", "port"]
    values = {"responses": [], "node_endpoints": [{"node_id": 1, "host": "a", "port": 9092}]}
    data = write(edit, layout("ProduceResponse", 10), values)
    assert walk(edited, data).values["node_endpoints"] == values["node_endpoints"]


def test_edits_apply_to_fields_and_tags_of_the_header() -> None:
    frame = frame_layout(layout("RequestHeader", 2), layout("MetadataRequest", 12))
    assert "client_id" not in field_names(Edit.of("field_missing", "header.client_id", where=3).apply(frame), "header")
    compact = Edit.of("length_encoding", "header.client_id", written="compact").apply(frame)
    assert field_at(compact, "header", "client_id").length == "uvarint"
    assert not struct_at(Edit.of("tag_buffer_missing", "header._tags").apply(frame), "header").flexible
    assert struct_at(Edit.of("header_version", "header", written=1).apply(frame), "header") == layout(
        "RequestHeader", 1
    )


def test_lengths_of_an_array_and_of_its_elements_are_edited_separately() -> None:
    shape = layout("DeleteTopicsRequest", 5)
    array_field = field_at(Edit.of("length_encoding", "topic_names", written="fixed").apply(shape), "topic_names")
    element_field = field_at(Edit.of("length_encoding", "topic_names[]", written="fixed").apply(shape), "topic_names")
    assert (array_field.length, array_field.element_length) == ("int32", "uvarint")
    assert (element_field.length, element_field.element_length) == ("uvarint", "int16")


def test_star_selects_all_fields_of_a_kind() -> None:
    fixed = Edit.of("length_encoding", "*", written="fixed").apply(METADATA_12)
    assert field_at(fixed, "body", "topics").length == "int32"
    assert field_at(fixed, "body", "topics", "name").length == "int16"
    assert struct_at(fixed, "body", "topics").flexible  # the tag buffers stay
    assert field_at(fixed, "header", "correlation_id") == field_at(METADATA_12, "header", "correlation_id")
    off_by_one = Edit.of("length_off_by_one", "*", delta=1).apply(METADATA_12)
    assert field_at(off_by_one, "body", "brokers", "host").length == "uvarint+1"
    assert field_at(off_by_one, "body", "topics", "partitions", "isr_nodes").length == "uvarint+1"


def test_flexibility_edit_makes_the_layout_of_the_neighbouring_version() -> None:
    fixed, compact = layout("HeartbeatRequest", 3), layout("HeartbeatRequest", 4)
    assert Edit.of("flexibility", written="fixed").apply(compact) == fixed
    assert Edit.of("flexibility", written="compact").apply(fixed) == compact


def test_second_edit_is_applied_on_top_of_the_first() -> None:
    combined_edit = Edit.of("body_version", "*", body_version=8, header=0).followed_by(
        Edit.of("field_moved", "throttle_time_ms", from_=0, to=3)
    )
    edited = combined_edit.apply(METADATA_12)
    body = field_names(layout("MetadataResponse", 8))
    assert field_names(edited, "body")[:4] == [*body[1:4], "throttle_time_ms"]
    assert not struct_at(edited, "header").flexible
    data = write(combined_edit, METADATA_12, {"header": {"correlation_id": 7}, "body": {"throttle_time_ms": 5}})
    assert walk(edited, data, 4).values["body"]["throttle_time_ms"] == 5


def test_second_edit_refers_to_the_layout_after_the_first() -> None:
    missing = Edit.of("field_missing", "throttle_time_ms", where=0)
    moved = Edit.of("field_moved", "cluster_id", from_=1, to=0)  # 2 in the right layout
    assert field_names(missing.followed_by(moved).apply(METADATA_12), "body")[:2] == ["cluster_id", "brokers"]
    with pytest.raises(EditError):
        moved.apply(METADATA_12)


def test_null_edits_override_the_given_value() -> None:
    null = Edit.of("null_in_non_nullable", "topics", nullable_from=1)
    empty = Edit.of("null_as_empty", "topics", nullable_from=1)
    assert write(null, layout("MetadataRequest", 0), {"topics": [{"name": "a"}]}) == b"\xff\xff\xff\xff"
    assert write(empty, layout("MetadataRequest", 1), {"topics": None}) == bytes(4)


def test_tag_buffer_edits_write_the_expected_bytes() -> None:
    shape = layout("FetchResponse", 12)  # no tags in the elements, diverging_epoch and others in partitions
    values = {"_tags": [[5, b"a"], [77, b"bc"]]}
    unedited = write(None, shape, values)
    assert write(Edit.of("tag_order", "_tags", tag=5), shape, values) == unedited[:-7] + bytes.fromhex(
        "4d 02 6263 05 01 61"
    )
    assert write(Edit.of("tag_buffer_extra", "_tags"), shape, values) == unedited + b"\0"
    assert write(Edit.of("tag_buffer_missing", "_tags"), shape, values) == unedited[:-8]
    tagged = layout("ProduceResponse", 10)
    assert write(Edit.of("tag_size", "_tags", tag=0), tagged, {"node_endpoints": []}).endswith(
        bytes.fromhex("01 00 02 01")
    )


def test_duplicated_prefixes_are_written_twice() -> None:
    frame = frame_layout(layout("ResponseHeader", 0), layout("HeartbeatResponse", 0))
    values: dict[str, Any] = {"header": {"correlation_id": 7}, "body": {}}
    duplicated_id = Edit.of("duplicated_prefix", "header.correlation_id", prefix="correlation_id")
    duplicated_size = Edit.of("duplicated_prefix", "size", prefix="size")
    assert write(None, frame, values) == bytes.fromhex("00000006 00000007 0000")
    assert write(duplicated_id, frame, values) == bytes.fromhex("0000000a 00000007 00000007 0000")
    assert write(duplicated_size, frame, values) == bytes.fromhex("0000000a 00000006 00000007 0000")


def test_body_of_another_api_is_written() -> None:
    frame = frame_layout(layout("ResponseHeader", 0), layout("AddOffsetsToTxnResponse", 1))
    edit = Edit.of("body_of_api", api="Heartbeat", body_version=1)
    written = write(edit, frame, {"header": {"correlation_id": 7}, "body": {"throttle_time_ms": 1, "error_code": 27}})
    assert written == bytes.fromhex("0000000a 00000007 00000001 001b")


def test_payload_is_written_without_its_length() -> None:
    payload = bytes.fromhex("0000 00000001 0001 74 ffffffff")
    edit = Edit.of("length_missing", "protocols[].metadata", payload="ConsumerProtocolSubscription", payload_version=0)
    shape, values = layout("JoinGroupRequest", 0), {"protocols": [{"name": "range", "metadata": payload}]}
    unedited = write(None, shape, values)
    assert unedited.endswith(len(payload).to_bytes(4, "big") + payload)
    assert write(edit, shape, values) == unedited.removesuffix(len(payload).to_bytes(4, "big") + payload) + payload
    with pytest.raises(EncodeError):
        write(edit, shape, {"protocols": [{"name": "range", "metadata": b"x"}]})


def test_truncated_and_trailing_bytes_are_written() -> None:
    shape = layout("HeartbeatResponse", 1)
    assert write(Edit.of("truncated", "*", bytes=2), shape, {"throttle_time_ms": 1}) == bytes.fromhex("00000001")
    assert write(Edit.of("trailing_bytes", "*", bytes=2), shape, {}) == bytes(8)


@pytest.mark.parametrize(
    "edit",
    [
        Edit.of("field_moved", "throttle_time_ms", from_=1, to=0),
        Edit.of("field_moved", "throttle_time_ms", from_=0, to=99),
        Edit.of("field_moved", "throttle_time_ms", from_=-5, to=0),
        Edit.of("field_moved", "*", from_=0, to=1),
        Edit.of("field_missing", "nothing", where=0),
        Edit.of("field_missing", "topics[].partitions", where=0),
        Edit.of("field_missing", "topics[].name[].deeper", where=0),
        Edit.of("field_missing", "", where=0),
        Edit.of("field_duplicated", "topics", where=99),
        Edit.of("field_duplicated", "*", where=0),
        Edit.of("field_from_version", "brokers[].rack", from_version=99, place=0),
        Edit.of("field_from_version", "brokers[].rack", from_version=0, place=0),
        Edit.of("field_from_version", "brokers[].rack", from_version=1, place=-1),
        Edit.of("field_from_version", "header.client_id", from_version=1, place=0),
        Edit.of("int_width", "cluster_id", written="int32"),
        Edit.of("int_width", "controller_id", written="int31"),
        Edit.of("int_width", "controller_id", written="int32"),
        Edit.of("int_width", "*", written="int64"),
        Edit.of("body_version", "*", body_version=99, header=None),
        Edit.of("body_version", "*", body_version=1, header=9),
        Edit.of("body_of_api", "*", api="Metadata", body_version=99),
        Edit.of("body_of_api", "*", api="NoSuch", body_version=0),
        Edit.of("length_missing", "topics[].name", payload="ConsumerProtocolSubscription", payload_version=0),
        Edit.of("length_missing", "topics[].name", payload="ConsumerProtocolSubscription", payload_version=99),
        Edit.of("length_missing", "topics[].name", payload="NoSuch", payload_version=0),
        Edit.of("header_version", "header", written=9),
        Edit.of("duplicated_prefix", "header", prefix="client_id"),
        Edit.of("flexibility", "*", written="wide"),
        Edit.of("length_encoding", "cluster_id", written="compact"),
        Edit.of("length_encoding", "controller_id", written="compact"),
        Edit.of("length_encoding", "cluster_id", written="wide"),
        Edit.of("length_off_by_one", "cluster_id", delta=2),
        Edit.of("length_off_by_one", "controller_id", delta=1),
        Edit.of("null_in_non_nullable", "controller_id", nullable_from=None),
        Edit.of("null_as_empty", "*", nullable_from=None),
        Edit.of("tag_buffer_missing", "topics", ),
        Edit.of("tag_buffer_missing", "*"),
        Edit.of("tag_buffer_extra", "topics[].name._tags"),
        Edit.of("tag_below_version", "topics", tag=0),
        Edit.of("tag_below_version", "*", tag=0),
        Edit.of("tag_size", "_tags", tag=5),
        Edit.of("truncated", "*", bytes=0),
        Edit.of("trailing_bytes", "*", bytes=-1),
        Edit.of("record_encoding", "cluster_id", written="lengths_int32"),
        Edit.of("record_encoding", "cluster_id", written="backwards"),
        Edit.of("embedded_layout", "cluster_id", payload="ConsumerProtocolSubscription",
                edit=Edit.of("generic_error_body")),
        Edit.of("embedded_layout", "cluster_id", payload="NoSuch", edit=Edit.of("generic_error_body")),
    ],
    ids=str,
)  # fmt: skip
def test_edits_that_do_not_fit_the_layout_are_rejected(edit: Edit) -> None:
    with pytest.raises(EditError) as raised:
        edit.apply(METADATA_12)
    assert len(str(raised.value)) > 10
    with pytest.raises(EditError):
        Edit.of("flexibility", written="compact").followed_by(edit).apply(METADATA_12)


@pytest.mark.parametrize(
    "edit",
    [
        Edit.of("header_version", "header", written=0),
        Edit.of("duplicated_prefix", "header", prefix="correlation_id"),
        Edit.of("body_version", "*", body_version=0, header=0),
        Edit.of("tag_buffer_missing", "header._tags"),
        Edit.of("tag_buffer_missing", "_tags"),
        Edit.of("tag_order", "_tags", tag=1),
    ],
    ids=str,
)
def test_header_and_tag_edits_of_a_body_without_them_are_rejected(edit: Edit) -> None:
    with pytest.raises(EditError):
        edit.apply(METADATA_1)


def test_edits_that_leave_a_struct_empty_are_rejected() -> None:
    shape = layout("MetadataRequest", 0)
    with pytest.raises(EditError, match="nothing would be left of MetadataRequestTopic"):
        Edit.of("field_missing", "topics[].name", where=0).apply(shape)
    flexible = Edit.of("flexibility", written="compact").followed_by(Edit.of("field_missing", "topics[].name", where=0))
    assert not struct_at(flexible.apply(shape), "topics").fields
    with pytest.raises(EditError, match="nothing would be left"):
        flexible.followed_by(Edit.of("tag_buffer_missing", "topics[]._tags")).apply(shape)
    assert not Edit.of("field_missing", "topics", where=0).apply(shape).fields  # a body may be empty


def test_layout_outside_the_schemas_has_no_other_versions() -> None:
    shape = Layout("Mine", (Field("a", "int32", default=0),))
    for edit in (
        Edit.of("field_from_version", "b", from_version=0, place=0),
        Edit.of("tag_below_version", "b", tag=0),
        Edit.of("body_version", "*", body_version=0, header=None),
        Edit.of("body_of_api", "*", api="Metadata", body_version=0),
    ):
        with pytest.raises(EditError):
            edit.apply(shape)
    assert Edit.of("field_duplicated", "a", where=1).apply(shape).fields == 2 * shape.fields


PATHS = st.sampled_from(
    ["*", "", ".", "[]", "_tags", "header", "header._tags", "body", "topics[]", "topics[]._tags", "topics[].name",
     "topics[].partitions[].isr_nodes", "topics[].partitions[].isr_nodes[]", "throttle_time_ms", "a.b.c", "topics..x"]
) | st.text(max_size=6)  # fmt: skip


@given(st.sampled_from([edit_json for edit_json, _ in TABLE]), PATHS, st.integers(-2, 9), layouts(), st.booleans())
def test_any_path_is_applied_or_rejected(
    edit_json: dict[str, Any], path: str, number: int, shape: Layout, has_header: bool
) -> None:
    detail = {name: number if isinstance(value, int) else value for name, value in edit_json["detail"].items()}
    shape = frame_layout(layout("ResponseHeader", 1), shape) if has_header else shape
    edit = parse(edit_json | {"field": path, "detail": detail})
    try:
        edit.apply(shape)
        write(edit, shape, {"header": {}, "body": {}} if has_header else {})
    except (EditError, EncodeError) as error:
        message = str(error)
        assert message[:1] != "'"  # as in the message of a KeyError


@given(COMPOSED, layouts())
def test_edits_leave_the_original_layout_unchanged(edit: Edit, shape: Layout) -> None:
    original_repr = repr(shape)
    frame = frame_layout(layout("ResponseHeader", 1), shape)
    try:
        edited = edit.apply(frame)
    except EditError:
        pass
    else:
        assert edited is frame or edited.derived is not frame.derived
    assert repr(shape) == original_repr
    assert frame == frame_layout(layout("ResponseHeader", 1), shape)


def test_candidates_leave_the_original_layout_unchanged() -> None:
    for message in (read_response(bytes(8), 3, 12), read_request(bytes.fromhex("0000000a 0001 000b 00000000 ffff"))):
        kafka_layout = right_layout(message)
        assert kafka_layout is not None
        original_repr = repr(kafka_layout)
        for candidate in single_edits(kafka_layout, message.version):
            assert candidate.layout is not kafka_layout
        assert repr(kafka_layout) == original_repr


def test_edit_details_use_only_the_known_types() -> None:
    assert {str(type_) for kind in KINDS.values() for type_ in kind.details.values()} == {
        "<class 'int'>",
        "<class 'str'>",
        "int | None",
        "<class 'dissectors.wire.edit.Edit'>",
    }
