"""Conversations turn the bytes of connections into judged events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dissectors import (
    ConnectionEnded,
    Conversation,
    Direction,
    EncodeError,
    Finding,
    Problem,
    check_exchange,
    encode_request,
    encode_response,
    new_run,
    read_request,
    read_response,
)
from dissectors.connections.events import DeadlinePassed
from dissectors.conversation import Judged
from dissectors.edits import Edit, EditError

SECOND = 1_000_000_000

REQUEST = encode_request("Metadata", 9, {"topics": [{"name": "orders"}]}, correlation_id=7, client_id="app")
BODY = {
    "brokers": [{"node_id": 1, "host": "localhost", "port": 9092}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [{"name": "orders", "partitions": [{"leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}]}],
}


def codes(judged: list[Judged]) -> list[str]:
    return [finding.code for event in judged for finding in event.findings]


def test_valid_exchange_has_no_findings() -> None:
    assert check_exchange(REQUEST) == []
    assert check_exchange(REQUEST, encode_response("Metadata", 9, BODY, correlation_id=7)) == []


@pytest.mark.parametrize("edit", ["missing:throttle_time_ms", Edit.of("field_missing", "throttle_time_ms", where=0)])
def test_missing_field_is_named(edit: str | Edit) -> None:
    [finding] = check_exchange(REQUEST, encode_response("Metadata", 9, BODY, correlation_id=7, edit=edit))
    assert finding.path == "throttle_time_ms"
    assert finding.hint == finding.problem.hint
    assert finding.hint
    assert str(finding).startswith("error L004 field-missing-for-version at throttle_time_ms: Metadata v9 response: ")


def test_repr_of_a_finding_ends_with_its_bytes_and_hint() -> None:
    [finding] = check_exchange(REQUEST, encode_response("Metadata", 9, BODY, correlation_id=7)[:-1])
    assert repr(finding) == f"<{finding} (bytes 0..87); fix: {finding.hint}>"
    [finding] = check_exchange(b"")
    assert repr(replace(finding, problem=Problem("it is wrong"))) == "<error M005 stalled-frame: it is wrong>"


def test_finding_without_a_field_is_printed() -> None:
    [finding] = check_exchange(REQUEST, b"HTTP/1.1 400 Bad Request")
    assert isinstance(finding, Finding)
    assert str(finding).startswith("error X003 http-to-kafka: the server answers in HTTP")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: b"", "the response is empty"),
        (lambda frame: frame[:3], "the response is only 3 bytes long: a frame begins with four bytes of length"),
        (lambda frame: frame[:-1], "the response is cut off: its length prefix says 84 bytes, and 83 follow"),
        (lambda frame: frame + b"\0", "the response is longer than its length prefix says: 1 byte more"),
        (
            lambda frame: len(frame).to_bytes(4, "big") + frame[4:],
            "the length prefix of Metadata v9 is 4 too large: the response is complete without 4 more bytes, and none "
            "follows",
        ),
    ],
    ids=["empty", "within the prefix", "cut off", "longer", "wrong prefix"],
)
def test_frame_of_another_size_than_its_prefix_says_is_an_error(change: Callable[[bytes], bytes], message: str) -> None:
    frame = encode_response("Metadata", 9, BODY, correlation_id=7)
    assert check_exchange(REQUEST, frame) == []
    [finding] = check_exchange(REQUEST, change(frame))
    assert (finding.code, finding.severity, finding.blame) == ("M005", "error", "broker")
    assert finding.problem.message == message


def test_empty_request_is_an_error_of_the_client() -> None:
    [finding] = check_exchange(b"")
    assert (finding.severity, finding.blame, finding.problem.message) == ("error", "client", "the request is empty")


def test_encoded_frames_can_be_read_back() -> None:
    message = read_request(REQUEST)
    assert (message.api, message.version, message.correlation_id, message.client_id) == ("Metadata", 9, 7, "app")
    assert message.body["topics"] == [{"name": "orders"}]
    assert read_response(encode_response("Heartbeat", 0, {"error_code": 27}), 12, 0).body == {"error_code": 27}


def test_invalid_arguments_are_explained() -> None:
    with pytest.raises(ValueError, match="unknown API 'Metdata': did you mean Metadata"):
        encode_request("Metdata", 1)
    with pytest.raises(ValueError, match="unknown API 'metadata': did you mean Metadata"):
        encode_request("metadata", 1)
    with pytest.raises(ValueError, match=r"unknown API 'xyz': dissectors\.schemas\.apis"):
        encode_request("xyz", 1)
    with pytest.raises(ValueError, match="Heartbeat has no version 9: use 0 to 4"):
        encode_response("Heartbeat", 9)
    with pytest.raises(EncodeError, match="generation_id"):
        encode_request("Heartbeat", 0, {"generation_id": "one"})
    with pytest.raises(EditError, match="unknown kind 'lost'"):
        encode_request("Heartbeat", 0, edit="lost:group_id")


@pytest.mark.parametrize(
    ("version", "body", "message"),
    [
        (12, {"topic": []}, r"body: MetadataRequest v12 has no field 'topic'; did you mean topics\?"),
        (
            12,
            {"topics": [{"nam": "a"}]},
            r"body\.topics\[0\]: MetadataRequest v12 has no field 'nam'; did you mean name",
        ),
        (0, {"zzz": 1}, "v0 has no field 'zzz'; its fields are topics"),
        (0, {"allow_auto_topic_creation": False}, "no field 'allow_auto_topic_creation'; versions 4 to 13 have it"),
    ],
)
def test_unknown_field_is_an_error(version: int, body: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_request("Metadata", version, body)


def test_field_of_another_version_may_have_its_default_or_be_written_by_an_edit() -> None:
    body = {"topics": [{"name": "a", "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}]}
    assert encode_request("Metadata", 4, {"topics": [{"name": "a"}], "include_topic_authorized_operations": False})
    with pytest.raises(ValueError, match="versions 10 to 13 have it"):
        encode_request("Metadata", 9, {"topics": [{"name": "a", "topic_id": "X3yPRBERQiKDM0REREREAA"}]})
    edit = Edit.of("body_version", "*", body_version=1, header=None)
    assert encode_response("ApiVersions", 0, {"throttle_time_ms": 5}, edit=edit)
    assert encode_request("Metadata", 12, body)


@pytest.mark.parametrize("chunk_size", [1, 7, 1000])
def test_events_do_not_depend_on_the_chunk_size(chunk_size: int) -> None:
    conversation = Conversation(at=0)
    response = encode_response("Metadata", 9, BODY, correlation_id=8)
    judged = [
        event
        for direction, data in ((Direction.REQUEST, REQUEST), (Direction.RESPONSE, response))
        for start in range(0, len(data), chunk_size)
        for event in conversation.receive_data(direction, data[start : start + chunk_size], at=SECOND)
    ]
    assert [event.message and event.message.api for event in judged] == ["Metadata", None]
    assert codes(judged) == ["C001"]


@pytest.mark.parametrize(
    ("version", "written", "code", "hint"),
    [
        (
            9,
            0,
            "L008",
            "write a tag buffer (one byte 0) after correlation_id: version 9 of this API is flexible (KIP-482)",
        ),
        (8, 1, "L008", "write no tag buffer after correlation_id: version 8 of this API is not flexible (KIP-482)"),
        (9, 1, "L009", "write a tag buffer (one byte 0) after client_id: version 9 of this API is flexible (KIP-482)"),
        (8, 2, "L009", "write no tag buffer after client_id: version 8 of this API is not flexible (KIP-482)"),
        (9, 0, "L009", "write the header that version 9 of this API has"),
    ],
)
def test_wrong_header_version_says_what_to_change(version: int, written: int, code: str, hint: str) -> None:
    edit = Edit.of("header_version", "header", written=written)
    request_edit, response_edit = (None, edit) if code == "L008" else (edit, None)
    topics = {"topics": [{"name": "orders"}]}
    request = encode_request("Metadata", version, topics, correlation_id=7, client_id="app", edit=request_edit)
    response = encode_response("Metadata", version, BODY, correlation_id=7, edit=response_edit)
    [finding] = check_exchange(request, response if code == "L008" else None)
    assert (finding.code, finding.hint) == (code, hint)


def test_connections_of_a_run_report_a_cause_once() -> None:
    run = new_run()
    conversations = [Conversation(run, client=f"10.0.0.1:{port}") for port in (50000, 50001)]
    stray_response = encode_response("Metadata", 9, BODY, correlation_id=8)
    judged = [
        conversation.receive_data(Direction.REQUEST, REQUEST, at=SECOND)
        + conversation.receive_data(Direction.RESPONSE, stray_response, at=SECOND)
        for conversation in conversations
    ]
    assert [codes(events) for events in judged] == [["C001"], []]


def test_time_is_given_by_the_caller() -> None:
    run = new_run()
    conversation = Conversation(run, at=0)
    conversation.receive_data(Direction.REQUEST, REQUEST, at=0)
    assert conversation.tick(at=SECOND) == []
    events = conversation.tick(at=3600 * SECOND)
    assert "C020" in codes(events)
    assert {type(event.event) for event in events} == {DeadlinePassed}
    conversation.receive_data(Direction.REQUEST, REQUEST, at=3600 * SECOND)
    second_conversation = Conversation(run, at=3600 * SECOND)
    events = second_conversation.receive_data(Direction.REQUEST, REQUEST, at=7100 * SECOND)
    assert DeadlinePassed in {type(event.event) for event in events[:-1]}
    *_, end_event = conversation.close(at=7200 * SECOND)
    assert isinstance(end_event.event, ConnectionEnded)
    assert end_event.message is None
