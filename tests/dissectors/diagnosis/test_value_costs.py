"""Evidence: the cost of values in their fields, and of contradictions between fields."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.diagnosis import diagnose
from dissectors.diagnosis.best_explanation import writes_same_bytes
from dissectors.diagnosis.diagnose import right_layout
from dissectors.diagnosis.integer_costs import integer_cost
from dissectors.diagnosis.relation_costs import relation_cost
from dissectors.diagnosis.string_costs import text_cost
from dissectors.edits import Edit, frame_layout, write
from dissectors.messages.message import Message, read_request, read_response
from dissectors.wire.encode import encode
from dissectors.wire.layout import Field, layout

MEMBER = "shop-5b776efe-8e7e-4a5d-9f89-641f34d89cbe"


@pytest.mark.parametrize(
    ("name", "type", "likely", "unlikely"),
    [
        ("partition_index", "int32", 3, -1),
        ("leader_epoch", "int32", -1, 70_000_000),
        ("session_timeout_ms", "int32", 45_000, 3),
        ("session_id", "int32", 0, 5),
        ("max_bytes", "int32", 52_428_800, 2),
        ("permission_type", "int8", 3, 77),
        ("resource_type", "int8", 32, 33),
        ("api_key", "int16", 18, 4_000),
        ("port", "int32", 9092, 151_552),
        ("timestamp", "int64", -2, -200),
    ],
)
def test_plausible_numbers_cost_less_than_implausible_ones(name: str, type: str, likely: int, unlikely: int) -> None:
    cost = integer_cost(Field(name, type))
    assert cost(likely) < cost(unlikely)


@pytest.mark.parametrize(
    ("raw", "likely", "unlikely"),
    [
        (b"Stable", "group_state", "group_id"),
        (b"billing", "group_id", "group_state"),
        (b"User:alice", "principal", "host"),
        (b"User", "principal_type", "principal_name"),
        (b"/10.0.0.7", "client_host", "client_id"),
        (b"10.0.0.7", "host", "principal"),
        (b"4.1.0", "client_software_version", "client_software_name"),
        (MEMBER.encode(), "member_id", "group_id"),
        (b"console-consumer-48121", "group_id", "member_id"),
        (b"Unknown topic.", "error_message", "member_id"),
    ],
)
def test_string_costs_less_in_a_field_where_it_is_common(raw: bytes, likely: str, unlikely: str) -> None:
    assert text_cost(Field(likely, "string"))(raw) < text_cost(Field(unlikely, "string"))(raw)


def test_typical_value_of_a_field_saves_only_a_few_bits() -> None:
    """A long string in the right field is not cheap: it must not outweigh the rest of the frame."""
    raw = MEMBER.encode()
    assert text_cost(Field("group_id", "string"))(raw) - text_cost(Field("member_id", "string"))(raw) < 16


def test_control_characters_are_expensive_in_any_field() -> None:
    assert text_cost(Field("member_id", "string"))(b"\x17" + MEMBER.encode()) > 1.5 * text_cost(
        Field("topic", "string")
    )(MEMBER.encode())


@pytest.mark.parametrize(
    ("consistent", "contradictory"),
    [
        ({"replica_nodes": [2, 3], "leader_id": 2}, {"replica_nodes": [2, 3], "leader_id": 7}),
        ({"replica_nodes": [2, 3], "isr_nodes": [3]}, {"replica_nodes": [2, 3], "isr_nodes": [0]}),
        ({"log_start_offset": 3, "high_watermark": 9}, {"log_start_offset": 9, "high_watermark": 3}),
        ({"producer_id": -1, "producer_epoch": -1}, {"producer_id": 7, "producer_epoch": -1}),
        ({"error_code": 3, "error_message": "no"}, {"error_code": 0, "error_message": "no"}),
        ({"topics": [{"name": "a"}, {"name": "b"}]}, {"topics": [{"name": "a"}, {"name": "a"}]}),
        ({"topics": [{"index": 0}, {"index": 1}]}, {"topics": [{"index": 0}, {"index": 5}]}),
        ({"brokers": [{"node_id": 1}], "controller_id": 1}, {"brokers": [{"node_id": 1}], "controller_id": 9}),
        ({"config_type": 1, "value": "true"}, {"config_type": 5, "value": "true"}),
        (
            {"leader": MEMBER, "members": [{"member_id": MEMBER}]},
            {"leader": "range", "members": [{"member_id": MEMBER}]},
        ),
        ({"member_id": MEMBER}, {"member_id": "range"}),
    ],
)
def test_contradictory_fields_cost_more(consistent: dict[str, Any], contradictory: dict[str, Any]) -> None:
    header = {"client_id": "shop"}
    assert relation_cost(header, consistent) < relation_cost(header, contradictory)


def test_edits_that_write_the_same_bytes_are_equivalent() -> None:
    kafka_layout = frame_layout(layout("ResponseHeader", 0), layout("OffsetCommitResponse", 3))
    moved_last = Edit.of("field_moved", "throttle_time_ms", from_=0, to=1).apply(kafka_layout)
    values = {"header": {"correlation_id": 7}, "body": {"throttle_time_ms": 0, "topics": []}}
    assert writes_same_bytes(kafka_layout, moved_last, values, kafka_layout, values)
    assert not writes_same_bytes(
        kafka_layout, moved_last, values, kafka_layout, {**values, "body": {"throttle_time_ms": 0}}
    )  # topics could hold anything
    assert not writes_same_bytes(
        kafka_layout, moved_last, values, kafka_layout, {**values, "body": {"throttle_time_ms": 9, "topics": []}}
    )


def _response(key: int, version: int, body: dict[str, Any], edit: Edit) -> Message:
    probe = read_response(bytes((0, 0, 0, 4, 0, 0, 0, 1)), key, version)
    kafka_layout = right_layout(probe)
    assert kafka_layout is not None
    return read_response(write(edit, kafka_layout, {"header": {"correlation_id": 1}, "body": body}), key, version)


def test_interchangeable_arrays_of_numbers_are_rivals() -> None:
    """Elements are named by index in either array, but that does not make the two readings the same."""
    partition = {"partition_index": 4, "replicas": [2], "adding_replicas": [5, 1, 3], "removing_replicas": []}
    body = {"topics": [{"name": "orders", "partitions": [partition]}]}
    field = "topics[].partitions[].adding_replicas"
    diagnosis = diagnose(_response(46, 0, body, Edit.of("field_duplicated", field, where=1)))
    assert diagnosis is not None
    assert diagnosis.confidence < 0.95
    assert field in (diagnosis.edit.field, *(rival.edit.field for rival in diagnosis.rivals))


def test_known_strings_reveal_which_of_two_fields_is_missing() -> None:
    body = {"groups": [{"group_id": "billing", "group_state": "Stable", "protocol_type": "consumer"}]}
    diagnosis = diagnose(_response(15, 1, body, Edit.of("field_missing", "groups[].group_state", where=2)))
    assert diagnosis is not None
    assert diagnosis.edit == Edit.of("field_missing", "groups[].group_state", where=2)


def test_member_id_is_recognised_by_the_client_id_in_it() -> None:
    kafka_layout = frame_layout(layout("RequestHeader", 1), layout("HeartbeatRequest", 0))
    header = {"request_api_key": 12, "request_api_version": 0, "correlation_id": 1, "client_id": "shop"}
    body = {"group_id": "billing", "generation_id": 3, "member_id": MEMBER}
    edit = Edit.of("field_moved", "member_id", from_=2, to=0)
    diagnosis = diagnose(read_request(write(edit, kafka_layout, {"header": header, "body": body})))
    assert diagnosis is not None
    assert edit in (diagnosis.edit, *diagnosis.also)


def test_superficial_reading_is_not_preferred() -> None:
    """The values contradict each other in every reading: leaders are not among the replicas."""
    partitions = [
        {
            "partition_index": index,
            "leader_id": 101,
            "replica_nodes": [1, 1],
            "isr_nodes": [101, 2],
            "offline_replicas": [3],
        }
        for index in range(4)
    ]
    body = {"throttle_time_ms": 640, "controller_id": 1, "topics": [{"name": "orders", "partitions": partitions}]}
    edit = Edit.of("field_moved", "throttle_time_ms", from_=0, to=1)
    diagnosis = diagnose(_response(3, 9, body, edit))
    assert diagnosis is not None
    assert edit in (diagnosis.edit, *diagnosis.also)


def test_missing_field_is_located_before_the_first_implausible_byte() -> None:
    keys = [{"api_key": index, "min_version": 0, "max_version": index % 4} for index in range(60)]
    edit = Edit.of("field_missing", "api_keys[19].api_key", where=0)
    diagnosis = diagnose(_response(18, 3, {"api_keys": keys}, edit))
    assert diagnosis is not None
    assert diagnosis.edit == edit


def test_missing_field_before_a_payload_is_not_taken_for_its_length() -> None:
    payload = bytes.fromhex("0000 00000001 0006 6f7264657273 00000002 00000000 00000001 ffffffff")
    body = bytes(2) + len(payload).to_bytes(4, "big") + payload
    frame = (4 + len(body)).to_bytes(4, "big") + (7).to_bytes(4, "big") + body
    diagnosis = diagnose(read_response(frame, 14, 3))
    assert diagnosis is not None
    assert (diagnosis.edit.kind, diagnosis.edit.field) == ("field_missing", "throttle_time_ms")
    zeros = bytes(6) + payload  # if the length is what is missing, that is found
    frame = (4 + len(zeros)).to_bytes(4, "big") + (7).to_bytes(4, "big") + zeros
    diagnosis = diagnose(read_response(frame, 14, 3))
    assert diagnosis is not None
    assert (diagnosis.edit.kind, diagnosis.edit.field) == ("length_missing", "assignment")


def test_equally_likely_missing_fields_are_all_named() -> None:
    row = {"high_watermark": 5, "last_stable_offset": 5, "log_start_offset": 5, "aborted_transactions": None}
    body = {"responses": [{"topic": "orders", "partitions": [row]}]}
    kafka_layout = layout("FetchResponse", 11)
    edited = Edit.of("field_missing", "responses[].partitions[].log_start_offset", where=4).apply(kafka_layout)
    written = bytes(4) + encode(edited, body)
    frame = (len(written)).to_bytes(4, "big") + written
    diagnosis = diagnose(read_response(frame, 1, 11))
    assert diagnosis is not None
    assert diagnosis.confidence < 0.5
    assert all(name in diagnosis.sentence for name in row if name != "aborted_transactions"), diagnosis.sentence
    assert "these bytes do not show which" in diagnosis.sentence
