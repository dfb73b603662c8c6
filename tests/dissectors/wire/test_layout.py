import dataclasses
import gc
import weakref

import pytest

from dissectors.wire.layout import Field, Layout, cached_on_owner, layout, resolve, snake_case


def find_field(shape: Layout, name: str) -> Field:
    return next(field for field in (*shape.fields, *shape.tagged) if field.name == name)


@pytest.mark.parametrize(
    ("camel", "snake"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("throttleTimeMs", "throttle_time_ms"),
        ("ISRSize", "isr_size"),
        ("V3AndBelowTransactionalId", "v3_and_below_transactional_id"),
        ("Name", "name"),
    ],
)
def test_camel_case_becomes_snake_case(camel: str, snake: str) -> None:
    assert snake_case(camel) == snake


def test_layout_has_the_fields_of_its_version_in_wire_order() -> None:
    assert [field.name for field in layout("MetadataRequest", 0).fields] == ["topics"]
    assert [field.name for field in layout("MetadataRequest", 8).fields] == [
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    ]


def test_length_prefixes_are_fixed_width_before_flexible_versions() -> None:
    fixed_layout, flexible_layout = layout("MetadataRequest", 8), layout("MetadataRequest", 9)
    assert (fixed_layout.flexible, find_field(fixed_layout, "topics").length) == (False, "int32")
    assert (flexible_layout.flexible, find_field(flexible_layout, "topics").length) == (True, "uvarint")
    fixed_topic = find_field(fixed_layout, "topics").struct
    flexible_topic = find_field(flexible_layout, "topics").struct
    assert fixed_topic is not None
    assert flexible_topic is not None
    assert (fixed_topic.flexible, find_field(fixed_topic, "name").length) == (False, "int16")
    assert (flexible_topic.flexible, find_field(flexible_topic, "name").length) == (True, "uvarint")


def test_array_elements_have_their_own_length_encoding() -> None:
    assert (find_field(layout("DescribeGroupsRequest", 4), "groups").length) == "int32"
    assert (find_field(layout("DescribeGroupsRequest", 4), "groups").element_length) == "int16"
    assert (find_field(layout("DescribeGroupsRequest", 5), "groups").element_length) == "uvarint"


def test_client_id_keeps_its_length_encoding_in_the_flexible_header() -> None:
    header = layout("RequestHeader", 2)
    assert header.flexible
    assert find_field(header, "client_id").length == "int16"


def test_nullability_depends_on_the_version() -> None:
    assert not find_field(layout("MetadataRequest", 0), "topics").nullable
    assert find_field(layout("MetadataRequest", 1), "topics").nullable


def test_nullable_struct_has_a_presence_marker() -> None:
    assert find_field(layout("DescribeTopicPartitionsRequest", 0), "cursor").length == "int8"
    assert find_field(layout("ConsumerGroupMemberMetadataValue", 0), "classic_member_metadata").length == "uvarint"
    replica_state = find_field(layout("FetchRequest", 15), "replica_state")
    assert (replica_state.type, replica_state.length, replica_state.tag) == ("struct", None, 1)


def test_tagged_fields_are_separate_and_ordered_by_tag() -> None:
    assert [(field.tag, field.name) for field in layout("FetchRequest", 15).tagged] == [
        (0, "cluster_id"),
        (1, "replica_state"),
    ]
    assert not layout("FetchRequest", 11).tagged


def test_entity_type_tells_what_a_string_names() -> None:
    topics = find_field(layout("MetadataRequest", 0), "topics").struct
    assert topics is not None
    assert find_field(topics, "name").entity == "topicName"


def test_default_comes_from_the_definition_or_the_type() -> None:
    fields = [
        {"name": "Says", "type": "int32", "versions": "0+", "default": -1},
        {"name": "Flag", "type": "bool", "versions": "0+"},
        {"name": "Name", "type": "string", "versions": "0+"},
        {"name": "Blob", "type": "bytes", "versions": "0+"},
        {"name": "Ratio", "type": "float64", "versions": "0+"},
        {"name": "Id", "type": "uuid", "versions": "0+"},
        {"name": "Count", "type": "int64", "versions": "0+"},
        {"name": "List", "type": "[]int32", "versions": "0+"},
        {"name": "Inner", "type": "Inner", "versions": "0+", "fields": []},
        {"name": "Batch", "type": "records", "versions": "0+"},
        {"name": "MaybeBatch", "type": "records", "versions": "0+", "nullableVersions": "0+"},
    ]
    shape = resolve({"name": "All", "flexible": "none", "fields": fields}, 0)
    assert {field.name: field.default for field in shape.fields} == {
        "says": -1,
        "flag": False,
        "name": "",
        "blob": b"",
        "ratio": 0.0,
        "id": "AAAAAAAAAAAAAAAAAAAAAA",
        "count": 0,
        "list": [],
        "inner": {},
        "batch": b"",
        "maybe_batch": None,
    }


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [("NoSuchRequest", 0, "no message NoSuchRequest"), ("MetadataRequest", 99, "MetadataRequest has no version 99")],
)
def test_unknown_message_or_version_raises_a_key_error(name: str, version: int, message: str) -> None:
    with pytest.raises(KeyError, match=message):
        layout(name, version)


@pytest.mark.slow
def test_cached_result_belongs_to_one_layout_and_is_freed_with_it() -> None:
    class Result:
        def __init__(self, owner: Layout) -> None:
            self.owner = owner

    cached = cached_on_owner(Result)
    first, equal = Layout("a", ()), Layout("a", ())
    assert first == equal
    assert cached(first) is cached(first)
    assert cached(first) is not cached(equal)
    assert cached(first).owner is first
    reference = weakref.ref(cached(first))
    del first
    gc.collect()
    assert reference() is None


def test_edited_layout_shares_no_results_with_its_original() -> None:
    original = layout("HeartbeatRequest", 0)
    edited = dataclasses.replace(original, fields=original.fields[:1])
    assert edited.derived is not original.derived
    assert edited != original
    assert dataclasses.replace(edited, fields=original.fields) == original
