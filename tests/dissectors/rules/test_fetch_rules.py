"""S024 to S030: cases that the stories on their pages do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.connections.events import RequestReceived
from dissectors.messages.message import read_request
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.state import ConnectionState
from tests.kproxy.frames import request
from tests.kproxy.stories import StoryPlayer, findings


def fetch_request(offset: int = 5, *, version: int = 12, topic: str = "t", **fields: Any) -> str:
    name = "topic_id" if version >= 13 else "topic"
    topics = [{name: topic, "partitions": [{"partition": 0, "fetch_offset": offset}]}]
    return f"> Fetch v{version} {json.dumps({'topics': topics} | fields)}\n"


def fetch_response(
    *, topic: str = "t", name: str = "topic", fields: dict[str, Any] | None = None, **partition_fields: Any
) -> str:
    partition_entry = {"partition_index": 0, "high_watermark": 9, "records": ""} | partition_fields
    return f"< {json.dumps({'responses': [{name: topic, 'partitions': [partition_entry]}]} | (fields or {}))}\n"


def session_fetch(epoch: int, **fields: Any) -> str:
    return f"> Fetch v12 {json.dumps({'session_id': 7, 'session_epoch': epoch} | fields)}\n" + '< {"session_id": 7}\n'


SESSION_OPENED = fetch_request(session_epoch=0) + fetch_response(fields={"session_id": 7})


def test_fifth_empty_fetch_is_reported_at_the_records() -> None:
    exchange = fetch_request() + fetch_response()
    assert not findings(4 * exchange, "S024")
    [finding] = findings(5 * exchange, "S024")
    assert finding.path == "responses[0].partitions[0].records"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 1  # a compact length without data
    assert "t[0] stays empty at offset 5 below the high watermark of 9: 5 responses" in finding.message


@pytest.mark.parametrize(
    ("request_fields", "response_fields"),
    [
        ({"replica_id": 2}, {}),  # a follower, which may be throttled partition by partition
        ({}, {"preferred_read_replica": 3}),
        ({}, {"error_code": 6}),
        ({}, {"high_watermark": 5}),
        ({"isolation_level": 1}, {"last_stable_offset": -1}),
    ],
)
def test_fetch_that_is_empty_for_a_reason_is_not_reported(
    request_fields: dict[str, Any], response_fields: dict[str, Any]
) -> None:
    assert not findings(8 * (fetch_request(**request_fields) + fetch_response(**response_fields)), "S024")


def test_follower_fetch_of_later_versions_is_recognised_by_its_tag() -> None:
    exchange = fetch_request(
        version=15, topic="AAAAAAAAAAAAAAAAAAAAAQ", replica_state={"replica_id": 2, "replica_epoch": 1}
    )
    assert not findings(8 * (exchange + fetch_response(topic="AAAAAAAAAAAAAAAAAAAAAQ", name="topic_id")), "S024")


@pytest.mark.parametrize(("limit", "message_end"), [(1000, ", and with it 1 more partition"), (1, "and no error")])
def test_starving_partitions_are_reported_together(
    limit: int, message_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissectors.rules.behaviour.fetch_starved._MAX_PARTITIONS", limit)
    topics = [
        {"topic": topic, "partitions": [{"partition": index, "fetch_offset": 5} for index in (0, 1)]} for topic in "tu"
    ]
    partitions = [{"partition_index": 0, "high_watermark": 5, "records": ""},
            {"partition_index": 1, "high_watermark": 9, "records": ""}]  # fmt: skip
    response = {"responses": [{"topic": topic, "partitions": partitions} for topic in "tu"]}
    exchange = f"> Fetch v12 {json.dumps({'topics': topics})}\n< {json.dumps(response)}\n"
    [finding] = findings(5 * exchange, "S024")
    assert finding.message.startswith("t[1] ")
    assert finding.message.endswith(message_end)
    assert finding.path == "responses[0].partitions[1].records"


def test_partition_added_to_a_starving_session_is_not_reported() -> None:
    other_topic = {"topic": "u", "partitions": [{"partition": 0, "fetch_offset": 1}]}
    other_response = {"topic": "u", "partitions": [{"partition_index": 0, "high_watermark": 4, "records": ""}]}
    session = SESSION_OPENED + "".join(session_fetch(epoch) for epoch in (1, 2, 3))
    last_fetch = f"> Fetch v12 {json.dumps({'session_id': 7, 'session_epoch': 4, 'topics': [other_topic]})}\n"
    last_fetch += f"< {json.dumps({'session_id': 7, 'responses': [other_response]})}\n"
    [finding] = findings(session + last_fetch, "S024")
    assert finding.message.startswith("t[0] ")
    assert finding.path == "responses"


def test_responses_with_other_records_do_not_count() -> None:
    # The other partition may have used up the limits of the request.
    topics = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}, {"partition": 1, "fetch_offset": 5}]}]
    partitions = [{"partition_index": 0, "high_watermark": 9, "records": ""},
            {"partition_index": 1, "high_watermark": 9, "records": [{"records": [{}]}]}]  # fmt: skip
    response = {"responses": [{"topic": "t", "partitions": partitions}]}
    exchange = f"> Fetch v12 {json.dumps({'topics': topics})}\n< {json.dumps(response)}\n"
    assert not findings(8 * exchange, "S024")


def test_forgotten_partition_is_not_reported() -> None:
    forgetting_fetch = session_fetch(1, forgotten_topics_data=[{"topic": "t", "partitions": [0]}])
    assert not findings(
        SESSION_OPENED + forgetting_fetch + "".join(session_fetch(epoch) for epoch in range(2, 9)), "S024"
    )


def test_reader_that_starves_after_its_first_records_is_reported() -> None:
    # Only the response with the records reports the high watermark.
    records = [{"records": [{"value": "a"}]}]
    next_fetch = session_fetch(1, topics=[{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 6}]}])
    first_fetches = (
        fetch_request(session_epoch=0) + fetch_response(records=records, fields={"session_id": 7}) + next_fetch
    )
    assert not findings(first_fetches + "".join(session_fetch(epoch) for epoch in range(2, 5)), "S024")
    [finding] = findings(first_fetches + "".join(session_fetch(epoch) for epoch in range(2, 6)), "S024")
    assert finding.path == "responses"
    assert "at offset 6 below the high watermark of 9" in finding.message


def test_reader_at_the_end_of_the_partition_is_not_reported() -> None:
    next_fetch = session_fetch(1, topics=[{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 9}]}])
    assert not findings(SESSION_OPENED + next_fetch + "".join(session_fetch(epoch) for epoch in range(2, 9)), "S024")


def test_lost_bytes_discard_the_session() -> None:
    later_fetches = "".join(session_fetch(epoch) for epoch in range(1, 9))
    assert findings(SESSION_OPENED + later_fetches, "S024")
    assert not findings(SESSION_OPENED + "lose > 50 frames=1\n" + later_fetches, "S024")


def test_topic_id_is_shown_with_its_known_name() -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    metadata = f'> Metadata v12 {{}}\n< {{"topics": [{{"name": "orders", "topic_id": "{topic_id}"}}]}}\n'
    exchange = fetch_request(version=13, topic=topic_id) + fetch_response(topic=topic_id, name="topic_id")
    [finding] = findings(metadata + 5 * exchange, "S024")
    assert finding.message.startswith("orders[0] ")


@pytest.mark.parametrize("limit", [0, 1])
def test_session_with_too_many_partitions_is_not_tracked(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissectors.trackers.fetch_sessions._MAX_PARTITIONS", limit)
    player = StoryPlayer()
    player.play(
        SESSION_OPENED + session_fetch(1, topics=[{"topic": "u", "partitions": [{"partition": 0, "fetch_offset": 1}]}])
    )
    [state] = player.inspector._connections.values()
    connection: ConnectionState = state.connection_state
    fetch = read_request(request("Fetch", 11, {"session_id": 7, "session_epoch": 2}))
    assert connection.state(Fetches).sessions.offsets(RequestReceived(0, 0, 0, fetch)) == {}


def test_too_small_fetch_size_is_reported_at_its_field() -> None:
    story = """
        > Fetch v2 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 20}]}]}
        < {"responses": [{"topic": "t", "partitions": [{"records": "0000000000000005 00000100 12345678 01 00 0000"}]}]}
        > Fetch v2 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 20}]}]}
    """
    [finding] = findings(story, "S025")
    assert finding.path == "topics[0].partitions[0].partition_max_bytes"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 4
    assert (finding.expected, finding.got) == ("at least 268", "20")


def test_partial_batch_after_a_whole_one_is_normal() -> None:
    records = "0000000000000004 0000000e 00000000 00 00 ffffffff ffffffff 0000000000000005 00000100 12345678"
    story = f"""
        > Fetch v2 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 4, "partition_max_bytes": 50}}]}}]}}
        < {{"responses": [{{"topic": "t", "partitions": [{{"records": "{records}"}}]}}]}}
        > Fetch v2 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 4, "partition_max_bytes": 50}}]}}]}}
    """
    assert not findings(story, "S025")


def test_third_out_of_range_error_is_reported() -> None:
    exchange = fetch_request() + fetch_response(error_code=1)
    assert not findings(2 * exchange, "S026")
    [finding] = findings(3 * exchange, "S026")
    assert finding.path == "responses[0].partitions[0].error_code"


def test_out_of_range_errors_in_a_session_are_reported() -> None:
    error_response = fetch_response(error_code=1, fields={"session_id": 7})
    retries = "".join(
        f'> Fetch v12 {{"session_id": 7, "session_epoch": {epoch}}}\n{error_response}' for epoch in (1, 2, 3)
    )
    assert findings(SESSION_OPENED + retries, "S026")


def test_offset_reset_is_reported_with_its_distance() -> None:
    out_of_range = fetch_request(50) + fetch_response(error_code=1)
    [forward] = findings(out_of_range + fetch_request(90), "S027")
    [backward] = findings(out_of_range + fetch_request(49), "S027")
    assert forward.message.endswith("the client continues at 90: it skips 40 offsets")
    assert backward.message.endswith("the client continues at 49: it goes back 1 offset")
    assert forward.path == "topics[0].partitions[0].fetch_offset"


def test_used_sessions_do_not_count_as_leaked() -> None:
    new_session = '> Fetch v7 {"session_id": 0, "session_epoch": 0}\n< {"session_id": 7}\n'
    session_use = '> Fetch v7 {"session_id": 7, "session_epoch": 1}\n< {"session_id": 7}\n'
    assert findings(6 * new_session, "S028")
    assert not findings(4 * new_session + session_use + 4 * new_session, "S028")


def test_lost_sessions_are_blamed_on_the_network() -> None:
    loop = (
        '> Fetch v7 {"session_id": 0, "session_epoch": 0}\n< {"session_id": 9}\n'
        '> Fetch v7 {"session_id": 9, "session_epoch": 1}\n< {"error_code": 70}\n'
    )
    assert [finding.blame for finding in findings(5 * loop, "S029")] == ["network"]
    assert not findings(5 * (loop + "+2m\n"), "S029")


def test_recreated_topic_is_named_with_its_new_id() -> None:
    old_id, new_id = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
    metadata = "".join(
        f'> Metadata v12 {{}}\n< {{"topics": [{{"name": "orders", "topic_id": "{topic}"}}]}}\n'
        for topic in (old_id, new_id)
    )
    refused = (
        fetch_request(version=13, topic=old_id)
        + fetch_response(topic=old_id, name="topic_id", error_code=100)
        + "+3s\n"
    )
    [finding] = findings(metadata + 3 * refused, "S030")
    assert f"topic id {old_id} of 'orders', which now has the id {new_id}" in finding.message


def test_produce_to_a_recreated_topic_is_reported() -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    refused = (
        f'> Produce v13 {{"acks": 1, "topic_data": [{{"topic_id": "{topic_id}", "partition_data": [{{}}]}}]}}\n'
        f'< {{"responses": [{{"topic_id": "{topic_id}", "partition_responses": [{{"error_code": 100}}]}}]}}\n+3s\n'
    )
    [finding] = findings(3 * refused, "S030")
    assert finding.path == "responses[0].partition_responses[0].error_code"


OUT_OF_RANGE = fetch_response(error_code=1, high_watermark=-1)


TWO_BROKERS = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092\nopen 2 client=10.0.0.9:50002 server=10.0.0.2:9092\n"


def from_follower(exchange: str) -> str:
    return exchange.replace("> ", "2> ").replace("< ", "2< ")


@pytest.mark.parametrize(("watermark", "is_blamed_on_the_follower"), [(9, True), (5, False)])
def test_out_of_range_at_a_follower_is_explained_if_the_offset_exists(
    watermark: int, is_blamed_on_the_follower: bool
) -> None:
    redirect = fetch_request() + fetch_response(preferred_read_replica=2, high_watermark=watermark) + "+250ms\n"
    story = TWO_BROKERS
    story += 3 * (redirect + from_follower(fetch_request() + OUT_OF_RANGE))
    [finding] = findings(story, "S026")
    assert ("10.0.0.1:9092 sends the consumer of t[0] to replica 2" in finding.message) is is_blamed_on_the_follower
    assert ("auto.offset.reset" in (finding.hint or "")) is not is_blamed_on_the_follower


def test_old_redirect_explains_nothing_and_is_forgotten() -> None:
    redirect = fetch_request() + fetch_response(preferred_read_replica=2) + "+250ms\n"
    story = TWO_BROKERS + from_follower(fetch_request() + OUT_OF_RANGE)
    story += redirect + "+31s\n" + 2 * from_follower(fetch_request() + OUT_OF_RANGE)
    [finding] = findings(story, "S026")
    assert "auto.offset.reset" in (finding.hint or "")
    player = StoryPlayer()
    player.play(story + "+31s\n" + from_follower(fetch_request() + fetch_response()))
    assert "S026" not in player.inspector._inspection.run_state.subscribed


@pytest.mark.parametrize(
    ("latency", "changes", "response_fields", "is_correct"),
    [
        ("1ms", {}, {}, False),
        ("200ms", {}, {}, True),
        ("1ms", {"max_wait_ms": 0}, {}, True),
        ("1ms", {"min_bytes": 0}, {}, True),
        ("1ms", {"topics": []}, {}, True),
        ("1ms", {}, {"preferred_read_replica": 2}, True),
        ("1ms", {}, {"error_code": 5}, True),
        ("1ms", {}, {"high_watermark": 8}, True),  # a new leader that does not know the end yet
        ("1ms", {"isolation_level": 1}, {"last_stable_offset": 8}, True),
        ("1ms", {}, {"fields": {"throttle_time_ms": 9}}, True),
    ],
)
def test_broker_must_wait_for_records(
    latency: str, changes: dict[str, Any], response_fields: dict[str, Any], is_correct: bool
) -> None:
    exchange = (
        fetch_request(9, **{"max_wait_ms": 500, "min_bytes": 1} | changes)
        + f"+{latency}\n"
        + fetch_response(**response_fields)
    )  # fmt: skip
    assert not findings(19 * exchange, "S088")
    reported = findings(20 * exchange, "S088")
    assert bool(reported) is not is_correct
    assert all("although they ask it to wait 500 ms for 1 byte" in finding.message for finding in reported)
    assert not findings(10 * exchange + fetch_request(9) + fetch_response(records="00") + 10 * exchange, "S088")
    assert not findings(20 * (exchange + "+4s\n"), "S088")


@pytest.mark.parametrize(("watermark", "is_correct"), [(8, True), (9, False)])
def test_broker_must_wait_at_the_end_of_a_partition_in_a_session(watermark: int, is_correct: bool) -> None:
    opening = fetch_request(9, session_epoch=0) + fetch_response(high_watermark=watermark, fields={"session_id": 7})
    fetches = "".join(session_fetch(epoch, max_wait_ms=500, min_bytes=1) for epoch in range(1, 41))
    assert bool(findings(opening + fetches, "S088")) is not is_correct
