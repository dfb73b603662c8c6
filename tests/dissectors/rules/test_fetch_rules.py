"""S024 to S030: what the stories on their pages do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.connections.events import RequestReceived
from dissectors.messages.message import read_request
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.state import ConnectionState
from tests.kproxy.frames import request
from tests.kproxy.stories import Teller, findings


def asked(offset: int = 5, *, version: int = 12, topic: str = "t", **more: Any) -> str:
    name = "topic_id" if version >= 13 else "topic"
    topics = [{name: topic, "partitions": [{"partition": 0, "fetch_offset": offset}]}]
    return f"> Fetch v{version} {json.dumps({'topics': topics} | more)}\n"


def answered(*, topic: str = "t", name: str = "topic", more: dict[str, Any] | None = None, **partition: Any) -> str:
    row = {"partition_index": 0, "high_watermark": 9, "records": ""} | partition
    return f"< {json.dumps({'responses': [{name: topic, 'partitions': [row]}]} | (more or {}))}\n"


def in_session(epoch: int, **more: Any) -> str:
    return f"> Fetch v12 {json.dumps({'session_id': 7, 'session_epoch': epoch} | more)}\n" + '< {"session_id": 7}\n'


OPENED = asked(session_epoch=0) + answered(more={"session_id": 7})


def test_four_empty_fetches_are_not_enough_and_the_fifth_points_at_the_records() -> None:
    exchange = asked() + answered()
    assert not findings(4 * exchange, "S024")
    [finding] = findings(5 * exchange, "S024")
    assert finding.path == "responses[0].partitions[0].records"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 1  # a compact length, and nothing after it
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
def test_empty_for_a_reason(request_fields: dict[str, Any], response_fields: dict[str, Any]) -> None:
    assert not findings(8 * (asked(**request_fields) + answered(**response_fields)), "S024")


def test_a_follower_of_the_later_versions_says_so_in_a_tag() -> None:
    exchange = asked(version=15, topic="AAAAAAAAAAAAAAAAAAAAAQ", replica_state={"replica_id": 2, "replica_epoch": 1})
    assert not findings(8 * (exchange + answered(topic="AAAAAAAAAAAAAAAAAAAAAQ", name="topic_id")), "S024")


@pytest.mark.parametrize(("most", "said"), [(1000, ", and with it 1 more partition"), (1, "and no error")])
def test_partitions_that_starve_together(most: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissectors.rules.behaviour.fetch_starved._MAX_PARTITIONS", most)
    topics = [{"topic": topic, "partitions": [{"partition": n, "fetch_offset": 5} for n in (0, 1)]} for topic in "tu"]
    rows = [{"partition_index": 0, "high_watermark": 5, "records": ""},
            {"partition_index": 1, "high_watermark": 9, "records": ""}]  # fmt: skip
    response = {"responses": [{"topic": topic, "partitions": rows} for topic in "tu"]}
    exchange = f"> Fetch v12 {json.dumps({'topics': topics})}\n< {json.dumps(response)}\n"
    [finding] = findings(5 * exchange, "S024")
    assert finding.message.startswith("t[1] ")
    assert finding.message.endswith(said)
    assert finding.path == "responses[0].partitions[1].records"


def test_a_partition_that_is_read_on_after_the_others_starve() -> None:
    other = {"topic": "u", "partitions": [{"partition": 0, "fetch_offset": 1}]}
    row = {"topic": "u", "partitions": [{"partition_index": 0, "high_watermark": 4, "records": ""}]}
    session = OPENED + "".join(in_session(epoch) for epoch in (1, 2, 3))
    last = f"> Fetch v12 {json.dumps({'session_id': 7, 'session_epoch': 4, 'topics': [other]})}\n"
    last += f"< {json.dumps({'session_id': 7, 'responses': [row]})}\n"
    [finding] = findings(session + last, "S024")
    assert finding.message.startswith("t[0] ")
    assert finding.path == "responses"


def test_responses_that_bring_something_else_do_not_count() -> None:
    # The other partition may have used up the limits of the request.
    both = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}, {"partition": 1, "fetch_offset": 5}]}]
    rows = [{"partition_index": 0, "high_watermark": 9, "records": ""},
            {"partition_index": 1, "high_watermark": 9, "records": [{"records": [{}]}]}]  # fmt: skip
    response = {"responses": [{"topic": "t", "partitions": rows}]}
    exchange = f"> Fetch v12 {json.dumps({'topics': both})}\n< {json.dumps(response)}\n"
    assert not findings(8 * exchange, "S024")


def test_a_partition_that_the_session_forgets_is_not_waited_for() -> None:
    forgets = in_session(1, forgotten_topics_data=[{"topic": "t", "partitions": [0]}])
    assert not findings(OPENED + forgets + "".join(in_session(epoch) for epoch in range(2, 9)), "S024")


def test_a_reader_that_starves_after_its_first_records() -> None:
    # The high watermark was told with the records, and is not told again.
    records = [{"records": [{"value": "a"}]}]
    reads_on = in_session(1, topics=[{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 6}]}])
    begins = asked(session_epoch=0) + answered(records=records, more={"session_id": 7}) + reads_on
    assert not findings(begins + "".join(in_session(epoch) for epoch in range(2, 5)), "S024")
    [finding] = findings(begins + "".join(in_session(epoch) for epoch in range(2, 6)), "S024")
    assert finding.path == "responses"
    assert "at offset 6 below the high watermark of 9" in finding.message


def test_a_reader_that_has_come_to_the_end_is_not_waited_for() -> None:
    reads_on = in_session(1, topics=[{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 9}]}])
    assert not findings(OPENED + reads_on + "".join(in_session(epoch) for epoch in range(2, 9)), "S024")


def test_a_session_is_forgotten_with_lost_bytes() -> None:
    rest = "".join(in_session(epoch) for epoch in range(1, 9))
    assert findings(OPENED + rest, "S024")
    assert not findings(OPENED + "lose > 50 frames=1\n" + rest, "S024")


def test_topics_by_id_are_named_where_the_name_is_known() -> None:
    topic = "AAAAAAAAAAAAAAAAAAAAAQ"
    named = f'> Metadata v12 {{}}\n< {{"topics": [{{"name": "orders", "topic_id": "{topic}"}}]}}\n'
    exchange = asked(version=13, topic=topic) + answered(topic=topic, name="topic_id")
    [finding] = findings(named + 5 * exchange, "S024")
    assert finding.message.startswith("orders[0] ")


@pytest.mark.parametrize("most", [0, 1])
def test_a_session_with_too_many_partitions_is_not_followed(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissectors.trackers.fetches._MAX_PARTITIONS", most)
    teller = Teller()
    teller.tell(OPENED + in_session(1, topics=[{"topic": "u", "partitions": [{"partition": 0, "fetch_offset": 1}]}]))
    [state] = teller.inspector._connections.values()
    connection: ConnectionState = state.connection_state
    following = read_request(request("Fetch", 11, {"session_id": 7, "session_epoch": 2}))
    assert connection.state(Fetches).offsets(RequestReceived(0, 0, 0, following)) == {}


def test_a_fetch_size_that_is_too_small_points_at_it() -> None:
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


def test_a_piece_after_a_whole_batch_is_no_matter() -> None:
    records = "0000000000000004 0000000e 00000000 00 00 ffffffff ffffffff 0000000000000005 00000100 12345678"
    story = f"""
        > Fetch v2 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 4, "partition_max_bytes": 50}}]}}]}}
        < {{"responses": [{{"topic": "t", "partitions": [{{"records": "{records}"}}]}}]}}
        > Fetch v2 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 4, "partition_max_bytes": 50}}]}}]}}
    """
    assert not findings(story, "S025")


def test_out_of_range_twice_is_patience() -> None:
    exchange = asked() + answered(error_code=1)
    assert not findings(2 * exchange, "S026")
    [finding] = findings(3 * exchange, "S026")
    assert finding.path == "responses[0].partitions[0].error_code"


def test_out_of_range_in_a_session() -> None:
    refused = answered(error_code=1, more={"session_id": 7})
    again = "".join(f'> Fetch v12 {{"session_id": 7, "session_epoch": {epoch}}}\n{refused}' for epoch in (1, 2, 3))
    assert findings(OPENED + again, "S026")


def test_a_reset_says_how_far_it_goes() -> None:
    refused = asked(50) + answered(error_code=1)
    [skips] = findings(refused + asked(90), "S027")
    [repeats] = findings(refused + asked(49), "S027")
    assert skips.message.endswith("the client continues at 90: it skips 40 offsets")
    assert repeats.message.endswith("the client continues at 49: it goes back 1 offset")
    assert skips.path == "topics[0].partitions[0].fetch_offset"


def test_sessions_that_are_used_are_no_leak() -> None:
    opens = '> Fetch v7 {"session_id": 0, "session_epoch": 0}\n< {"session_id": 7}\n'
    uses = '> Fetch v7 {"session_id": 7, "session_epoch": 1}\n< {"session_id": 7}\n'
    assert findings(6 * opens, "S028")
    assert not findings(4 * opens + uses + 4 * opens, "S028")


def test_sessions_that_never_hold_are_the_networks() -> None:
    loop = (
        '> Fetch v7 {"session_id": 0, "session_epoch": 0}\n< {"session_id": 9}\n'
        '> Fetch v7 {"session_id": 9, "session_epoch": 1}\n< {"error_code": 70}\n'
    )
    assert [finding.blame for finding in findings(5 * loop, "S029")] == ["network"]
    assert not findings(5 * (loop + "+2m\n"), "S029")


def test_a_recreated_topic_is_named_with_its_new_id() -> None:
    old, new = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
    told = "".join(
        f'> Metadata v12 {{}}\n< {{"topics": [{{"name": "orders", "topic_id": "{topic}"}}]}}\n' for topic in (old, new)
    )
    refused = asked(version=13, topic=old) + answered(topic=old, name="topic_id", error_code=100) + "+3s\n"
    [finding] = findings(told + 3 * refused, "S030")
    assert f"topic id {old} of 'orders', which now has the id {new}" in finding.message


def test_a_producer_of_a_recreated_topic() -> None:
    topic = "AAAAAAAAAAAAAAAAAAAAAQ"
    refused = (
        f'> Produce v13 {{"acks": 1, "topic_data": [{{"topic_id": "{topic}", "partition_data": [{{}}]}}]}}\n'
        f'< {{"responses": [{{"topic_id": "{topic}", "partition_responses": [{{"error_code": 100}}]}}]}}\n+3s\n'
    )
    [finding] = findings(3 * refused, "S030")
    assert finding.path == "responses[0].partition_responses[0].error_code"


OUT_OF_RANGE = answered(error_code=1, high_watermark=-1)


TWO_BROKERS = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092\nopen 2 client=10.0.0.9:50002 server=10.0.0.2:9092\n"


def from_follower(exchange: str) -> str:
    return exchange.replace("> ", "2> ").replace("< ", "2< ")


@pytest.mark.parametrize(("watermark", "is_the_followers"), [(9, True), (5, False)])
def test_a_follower_that_does_not_have_the_offset(watermark: int, is_the_followers: bool) -> None:
    redirect = asked() + answered(preferred_read_replica=2, high_watermark=watermark) + "+250ms\n"
    told = TWO_BROKERS
    told += 3 * (redirect + from_follower(asked() + OUT_OF_RANGE))
    [finding] = findings(told, "S026")
    assert ("10.0.0.1:9092 sends the consumer of t[0] to replica 2" in finding.message) is is_the_followers
    assert ("auto.offset.reset" in (finding.hint or "")) is not is_the_followers


def test_a_redirect_long_ago_explains_nothing_and_is_no_longer_observed() -> None:
    redirect = asked() + answered(preferred_read_replica=2) + "+250ms\n"
    told = TWO_BROKERS + from_follower(asked() + OUT_OF_RANGE)
    told += redirect + "+31s\n" + 2 * from_follower(asked() + OUT_OF_RANGE)
    [finding] = findings(told, "S026")
    assert "auto.offset.reset" in (finding.hint or "")
    teller = Teller()
    teller.tell(told + "+31s\n" + from_follower(asked() + answered()))
    assert "S026" not in teller.inspector._inspection.run_state.subscribed


@pytest.mark.parametrize(
    ("latency", "changes", "answer", "is_right"),
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
        ("1ms", {}, {"more": {"throttle_time_ms": 9}}, True),
    ],
)
def test_a_broker_waits_for_records(
    latency: str, changes: dict[str, Any], answer: dict[str, Any], is_right: bool
) -> None:
    exchange = (
        asked(9, **{"max_wait_ms": 500, "min_bytes": 1} | changes)
        + f"+{latency}\n"
        + answered(**answer)
    )  # fmt: skip
    assert not findings(19 * exchange, "S088")
    found = findings(20 * exchange, "S088")
    assert bool(found) is not is_right
    assert all("although they ask it to wait 500 ms for 1 byte" in finding.message for finding in found)
    assert not findings(10 * exchange + asked(9) + answered(records="00") + 10 * exchange, "S088")
    assert not findings(20 * (exchange + "+4s\n"), "S088")


@pytest.mark.parametrize(("watermark", "is_right"), [(8, True), (9, False)])
def test_a_broker_does_not_wait_past_the_end_of_a_session_either(watermark: int, is_right: bool) -> None:
    opening = asked(9, session_epoch=0) + answered(high_watermark=watermark, more={"session_id": 7})
    fetches = "".join(in_session(epoch, max_wait_ms=500, min_bytes=1) for epoch in range(1, 41))
    assert bool(findings(opening + fetches, "S088")) is not is_right
