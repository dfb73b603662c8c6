"""Edits of one element, pairs of edits, and edits that the bytes do not reveal, which have a low confidence."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.diagnosis import Diagnosis, diagnose
from dissectors.edits import Edit, frame_layout, parse, write
from dissectors.messages.message import read_request, read_response
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


def diagnose_metadata(edit: Edit, version: int = 4, body: dict[str, Any] = METADATA) -> Diagnosis | None:
    """Return the diagnosis of a Metadata response written with an edit."""
    kafka_layout = frame_layout(layout("ResponseHeader", int(version >= 9)), layout("MetadataResponse", version))
    frame = write(edit, kafka_layout, {"header": {"correlation_id": 7}, "body": body})
    return diagnose(read_response(frame, 3, version))


@pytest.mark.parametrize("index", range(3))
def test_field_missing_in_one_element_is_named_with_its_index(index: int) -> None:
    edit = Edit.of("field_missing", f"topics[{index}].is_internal", where=2)
    diagnosis = diagnose_metadata(edit)
    assert diagnosis is not None
    assert (diagnosis.edit, diagnosis.path) == (edit, f"topics[{index}].is_internal")


def test_edit_of_one_element_leaves_the_others_unchanged() -> None:
    edit = parse({"kind": "field_missing", "field": "topics[1].name", "detail": {"where": 1}})
    written = edit.apply(layout("MetadataResponse", 4))
    [topics] = [field for field in written.fields if field.name == "topics"]
    assert topics.struct == layout("MetadataResponse", 4).fields[-1].struct
    assert topics.deviating_element is not None
    assert [field.name for field in topics.deviating_element[1].fields] == ["error_code", "is_internal", "partitions"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Edit.of("header_version", "header", written=0), Edit.of("flexibility", "*", written="fixed")),
        (
            Edit.of("body_version", "*", body_version=1, header=None),
            Edit.of("field_from_version", "throttle_time_ms", from_version=3, place=0),
        ),
    ],
    ids=["an old header before an old body", "version 1 with throttle_time_ms first"],
)
def test_both_edits_of_a_pair_are_named(first: Edit, second: Edit) -> None:
    version = 9 if first.kind == "header_version" else 6
    diagnosis = diagnose_metadata(first.followed_by(second), version)
    assert diagnosis is not None
    named_edits = [diagnosis.edit, *diagnosis.also]
    kafka_layout = frame_layout(layout("ResponseHeader", int(version >= 9)), layout("MetadataResponse", version))
    assert first.followed_by(second).apply(kafka_layout) in [edit.apply(kafka_layout) for edit in named_edits]
    assert diagnosis.confidence > 0.5


def test_placeholder_without_its_tag_buffer_is_named() -> None:
    """franz-go#1359: a failed batch becomes null, and the tag buffer of its partition is left out."""
    batch = bytes.fromhex(
        "0000000000000000 0000003a ffffffff 02 a7a1b2c3 0000 00000000 00000190a1b2c3d4 00000190a1b2c3d4"
        "ffffffffffffffff ffff ffffffff 00000001 10 00 00 00 01 04 6869 00"
    )
    partitions = [{"index": index, "records": None if index == 1 else batch} for index in range(3)]
    body = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": "orders", "partition_data": partitions}]}
    edit = Edit.of("tag_buffer_missing", "topic_data[0].partition_data[1]._tags")
    kafka_layout = frame_layout(layout("RequestHeader", 2), layout("ProduceRequest", 11))
    header = {"request_api_key": 0, "request_api_version": 11, "correlation_id": 7, "client_id": "a"}
    diagnosis = diagnose(read_request(write(edit, kafka_layout, {"header": header, "body": body})))
    assert diagnosis is not None
    assert diagnosis.edit == edit
    assert "topic_data[0].partition_data[1] has no tag buffer" in diagnosis.sentence


def test_same_field_in_two_structs_is_one_edit() -> None:
    """franz-go#1265: both error codes of DescribeTopicPartitions are int32."""
    edit = Edit.of("int_width", "topics[].error_code", written="int32").followed_by(
        Edit.of("int_width", "topics[].partitions[].error_code", written="int32")
    )
    partitions = [
        {"partition_index": index, "leader_id": 1, "leader_epoch": 4, "replica_nodes": [1, 2, 3],
         "isr_nodes": [1, 2, 3], "eligible_leader_replicas": None, "last_known_elr": None, "offline_replicas": []}
        for index in range(3)
    ]  # fmt: skip
    topic = {"name": "orders", "topic_id": "J8mAkzRyS6yJkB4mHqQxVA", "partitions": partitions}
    kafka_layout = frame_layout(layout("ResponseHeader", 1), layout("DescribeTopicPartitionsResponse", 0))
    frame = write(edit, kafka_layout, {"header": {"correlation_id": 7}, "body": {"topics": [topic]}})
    diagnosis = diagnose(read_response(frame, 75, 0))
    assert diagnosis is not None
    assert diagnosis.edit == edit


@pytest.mark.parametrize(("indexes", "is_sure"), [((0, 1, 2), True), ((1, 4001, 2), False), ((3, 3, 4), False)])
def test_reading_with_implausible_values_is_uncertain(indexes: tuple[int, ...], is_sure: bool) -> None:
    kafka_layout = frame_layout(layout("ResponseHeader", 1), layout("OffsetCommitResponse", 9))
    partitions = [{"partition_index": index, "error_code": 0} for index in indexes]
    body = {"topics": [{"name": "orders", "partitions": partitions}]}
    edit = Edit.of("flexibility", "*", written="fixed")
    diagnosis = diagnose(
        read_response(write(edit, kafka_layout, {"header": {"correlation_id": 7}, "body": body}), 8, 9)
    )
    assert diagnosis is not None
    assert diagnosis.edit == edit
    assert (diagnosis.confidence >= 0.95) is is_sure


def test_edit_of_elements_is_not_detected_in_an_empty_array() -> None:
    edit = Edit.of("field_missing", "topics[].name", where=1)
    assert diagnose_metadata(edit, body=METADATA | {"topics": []}) is None


def test_legal_null_is_not_a_deviation() -> None:
    assert (
        diagnose_metadata(
            Edit.of("null_as_empty", "cluster_id", nullable_from=None), body=METADATA | {"cluster_id": None}
        )
        is None
    )


def test_ambiguous_edit_is_uncertain_and_has_rivals() -> None:
    kafka_layout = frame_layout(layout("ResponseHeader", 1), layout("HeartbeatResponse", 4))
    frame = write(Edit.of("tag_buffer_missing", "_tags"), kafka_layout, {"header": {"correlation_id": 7}, "body": {}})
    diagnosis = diagnose(read_response(frame, 12, 4))
    assert diagnosis is not None
    assert diagnosis.confidence < 0.95  # or L034 would not list the others
    assert diagnosis.rivals


def test_client_id_with_a_one_byte_length_is_named() -> None:
    """KAFKA-14935; the hint names the length prefix of the right header."""
    header = {"request_api_key": 18, "request_api_version": 3, "correlation_id": 0, "client_id": "admin-1"}
    body = {"client_software_name": "apache-kafka-java", "client_software_version": "3.3.1"}
    edit = Edit.of("length_encoding", "header.client_id", written="int8")
    kafka_layout = frame_layout(layout("RequestHeader", 2), layout("ApiVersionsRequest", 3))
    frame = write(edit, kafka_layout, {"header": header, "body": body})
    assert frame[12:20] == b"\x07admin-1"
    diagnosis = diagnose(read_request(frame))
    assert diagnosis is not None
    assert (diagnosis.edit, diagnosis.path, diagnosis.start) == (edit, "header.client_id", 12)
    assert "int16" in diagnosis.hint
