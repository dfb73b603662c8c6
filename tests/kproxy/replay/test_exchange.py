"""Values chosen by the live broker replace captured values in later requests; other differences are reported."""

from __future__ import annotations

import pytest

from dissectors import records
from dissectors.messages.message import read_request
from kproxy.replay.exchange import Replayer, ReplayOutcome
from tests.kproxy.replay.capture_stories import exchanges, replay_story

A, B = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"

#: Stories whose later requests repeat values from a response, with the captured values and those of the live broker.
MAPPED = {
    "member id and generation": (
        """
        > JoinGroup v5 {"group_id": "g"}
        < {"member_id": "%s", "leader": "%s", "generation_id": %d, "members": [
          {"member_id": "%s"}, {"member_id": "%s"}]}
        > SyncGroup v3 {"group_id": "g", "generation_id": %d, "member_id": "%s", "assignments": [{"member_id": "%s"}]}
        < {}
        """,
        ("app-1", "app-1", 7, "app-2", "app-1", 7, "app-1", "app-2"),
        ("x-1", "x-1", 1, "x-1", "x-2", 1, "x-1", "x-2"),
    ),
    "producer": (
        """
        > InitProducerId v4 {"transactional_id": "t"}
        < {"producer_id": %d, "producer_epoch": %d}
        > AddPartitionsToTxn v3 {"v3_and_below_producer_id": %d, "v3_and_below_producer_epoch": %d}
        < {}
        > Produce v9 {"acks": -1, "topic_data": [{"partition_data": [{"records": [{
          "producer_id": %d, "producer_epoch": %d,
          "base_sequence": 4, "records": [{"value": "v"}]}]}]}]}
        < {}
        > InitProducerId v4 {"transactional_id": "t", "producer_id": -1, "producer_epoch": -1}
        < {}
        """,
        (90, 0) * 3,
        (5, 3) * 3,
    ),
    "topic id": (
        """
        > CreateTopics v7 {"topics": [{"name": "orders"}]}
        < {"topics": [{"name": "orders", "topic_id": "%s"}]}
        > Fetch v13 {"topics": [{"topic_id": "%s"}]}
        < {}
        """,
        (A, A),
        (B, B),
    ),
    "fetch session": (
        '> Fetch v11 {}\n< {"session_id": %d}\n> Fetch v11 {"session_id": %d, "session_epoch": 1}\n< {}',
        (111, 111),
        (222, 222),
    ),
    "epoch of a member": (
        """
        > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "a"}
        < {"member_id": "a", "member_epoch": %d}
        2> ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "b"}
        2< {"member_id": "b", "member_epoch": %d}
        > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "a", "member_epoch": %d}
        < {"member_id": "a"}
        """,
        (2, 2, 2),
        (3, 4, 3),
    ),
    "leader epoch": (
        """
        > Metadata v9 {}
        < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "leader_epoch": %d}]}]}
        > ListOffsets v6 {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "current_leader_epoch": %d},
          {"partition_index": 1, "current_leader_epoch": 3}]}]}
        < {}
        """,
        (3, 3),
        (0, 0),
    ),
    "telemetry": (
        """
        > GetTelemetrySubscriptions v0 {}
        < {"client_instance_id": "%s", "subscription_id": %d}
        > PushTelemetry v0 {"client_instance_id": "%s", "subscription_id": %d}
        < {}
        """,
        (A, 1, A, 1),
        (B, 2, B, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPPED)
def test_values_chosen_by_the_broker_are_replaced(name: str) -> None:
    story, captured, live = MAPPED[name]
    sent, results = replay_story(story % captured, story % live)
    expected = [exchange.request.body for exchange in exchanges(story % live) if exchange.request]
    assert sent == expected
    assert sent != [exchange.request.body for exchange in exchanges(story % captured) if exchange.request]
    assert [result.outcome for result in results] == [ReplayOutcome.EQUAL] * len(results)


OFFSETS = """
> Produce v9 {"acks": -1}
< {"responses": [{"name": "t", "partition_responses": [{"index": 0, "base_offset": %d}]}]}
> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": %d},
  {"partition": 1, "fetch_offset": 5}]}]}
< {}
> OffsetCommit v7 {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": %d}]}]}
< {}
"""


def test_offsets_are_replaced_on_request() -> None:
    captured, live = OFFSETS % (10, 10, 12), OFFSETS % (100, 100, 102)
    sent, results = replay_story(captured, live, map_offsets=True)
    assert sent == [exchange.request.body for exchange in exchanges(live) if exchange.request]
    assert [result.outcome for result in results] == [ReplayOutcome.EQUAL] * 3
    sent, results = replay_story(captured, live)
    assert sent == [exchange.request.body for exchange in exchanges(captured) if exchange.request]
    assert [(difference.path, difference.a, difference.b) for difference in results[0].differences] == [
        ("responses[0].partition_responses[0].base_offset", 10, 100)
    ]


def test_record_and_offset_times_are_shifted_on_request() -> None:
    story = """
    > Produce v9 {"acks": -1, "topic_data": [{"partition_data": [{"records": [{"records": [{"timestamp": 1000}]}]}]}]}
    > ListOffsets v6 {"topics": [{"partitions": [{"timestamp": 1000}, {"timestamp": -1}]}]}
    """
    produce, list_offsets = [read_request(Replayer(shift_ms=5).frame(exchange)).body for exchange in exchanges(story)]
    [batch] = records.decode(bytes(produce["topic_data"][0]["partition_data"][0]["records"]))
    assert [record["timestamp"] for record in batch["records"]] == [1005]
    assert [partition["timestamp"] for partition in list_offsets["topics"][0]["partitions"]] == [1005, -1]


def test_other_frames_are_sent_unchanged() -> None:
    for story in ('> Heartbeat v4 {"group_id": "g", "member_id": "m"}', "> Metadata v9 {} with truncated:1"):
        [exchange] = exchanges(story)
        assert exchange.request is not None
        assert Replayer().frame(exchange) == exchange.request.frame


def test_members_are_compared_in_their_captured_order() -> None:
    story = """
    > JoinGroup v5 {"group_id": "g"}
    < {"error_code": 79, "member_id": "%s"}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 79, "member_id": "%s"}
    > DescribeGroups v5 {}
    < {"groups": [{"group_id": "g", "members": [{"member_id": "%s", "client_id": "%s"},
      {"member_id": "%s", "client_id": "%s"}]}]}
    """
    _, results = replay_story(
        story % ("a", "b", "a", "first", "b", "second"), story % ("x", "y", "y", "second", "x", "first")
    )
    assert [difference for result in results for difference in result.differences] == []


@pytest.mark.parametrize(
    ("captured", "live", "outcome", "sentence_start"),
    [
        ("{}", '{"error_code": 25}', ReplayOutcome.DIFFERENT, ""),
        ("{}", "{} with truncated:1", ReplayOutcome.DIFFERENT, "the response does not decode: "),
        ("{}", "#9 {}", ReplayOutcome.DIFFERENT, "the response has correlation id 9, not 1"),
        ("{} with truncated:1", "{}", ReplayOutcome.NOT_COMPARED, "the captured response does not decode"),
    ],
)
def test_responses_are_compared(captured: str, live: str, outcome: ReplayOutcome, sentence_start: str) -> None:
    [exchange] = exchanges(f"> #1 Heartbeat v4 {{}}\n< {captured}")
    live_exchanges = exchanges(
        f"> #9 Heartbeat v4 {{}}\n< {live}" if "#9" in live else f"> #1 Heartbeat v4 {{}}\n< {live}"
    )
    assert live_exchanges[0].response is not None
    result = Replayer().handle_response(exchange, live_exchanges[0].response.frame)
    assert (result.outcome, result.sentence[: len(sentence_start)]) == (outcome, sentence_start)


@pytest.mark.parametrize(
    ("api", "captured", "live", "is_retried"),
    [
        ("Heartbeat v4", "{}", '{"error_code": 16}', True),
        ("Heartbeat v4", "{}", '{"error_code": 25}', False),
        ("Fetch v11", "{}", '{"error_code": 100}', False),
        ("Produce v3", "{}", '{"responses": [{"partition_responses": [{"error_code": 3}]}]}', True),
        ("Produce v3", "{}", '{"responses": [{"partition_responses": [{"error_code": 25}, {}]}]}', False),
        ("Metadata v9", '{"topics": [{"error_code": 3}]}', '{"topics": [{"error_code": 3}]}', False),
    ],
)
def test_request_is_retried_if_the_broker_is_not_ready(api: str, captured: str, live: str, is_retried: bool) -> None:
    body = '{"acks": -1}' if "Produce" in api else "{}"
    [exchange] = exchanges(f"> {api} {body}\n< {captured}")
    [live_exchange] = exchanges(f"> {api} {body}\n< {live}")
    assert live_exchange.response is not None
    assert (Replayer().frame_to_resend(exchange, live_exchange.response.frame) is not None) is is_retried


PRODUCE = """
> Produce v13 {"acks": -1, "topic_data": [{"topic_id": "BBBBBBBBBBBBBBBBBBBBBA", "partition_data": [
  {"index": 0}, {"index": 1}]}, {"topic_id": "CCCCCCCCCCCCCCCCCCCCCA", "partition_data": [{"index": 0}]}]}
< {"responses": [{"topic_id": "BBBBBBBBBBBBBBBBBBBBBA", "partition_responses": [{"index": 0%s}, {"index": 1%s}]},
  {"topic_id": "CCCCCCCCCCCCCCCCCCCCCA", "partition_responses": [{"index": 0}]}]}
"""


def test_only_partitions_that_were_not_ready_are_retried() -> None:
    replayer = Replayer()
    [exchange], [first_attempt], [second_attempt] = (
        exchanges(PRODUCE % ("", "")),
        exchanges(PRODUCE % ("", ', "error_code": 6')),
        exchanges("""
    > Produce v13 {"acks": -1}
    < {"responses": [{"topic_id": "BBBBBBBBBBBBBBBBBBBBBA", "partition_responses": [{"index": 1}]}]}
    """),
    )
    assert first_attempt.response
    assert second_attempt.response
    retry = replayer.frame_to_resend(exchange, first_attempt.response.frame)
    assert retry is not None
    assert [
        (topic["topic_id"], [partition["index"] for partition in topic["partition_data"]])
        for topic in read_request(retry).body["topic_data"]
    ] == [("BBBBBBBBBBBBBBBBBBBBBA", [1])]
    assert replayer.frame_to_resend(exchange, second_attempt.response.frame) is None
    assert replayer.handle_response(exchange, second_attempt.response.frame).outcome is ReplayOutcome.EQUAL


def test_partitions_that_were_not_ready_in_the_capture_are_not_sent() -> None:
    replayer = Replayer()
    [exchange] = exchanges(PRODUCE % (', "error_code": 6', ""))
    body = read_request(replayer.frame(exchange)).body
    assert [[partition["index"] for partition in topic["partition_data"]] for topic in body["topic_data"]] == [[1], [0]]
    [live_exchange] = exchanges("""
    > Produce v13 {"acks": -1}
    < {"responses": [{"topic_id": "BBBBBBBBBBBBBBBBBBBBBA", "partition_responses": [{"index": 1}]},
      {"topic_id": "CCCCCCCCCCCCCCCCCCCCCA", "partition_responses": [{"index": 0}]}]}
    """)
    assert live_exchange.response is not None
    assert replayer.handle_response(exchange, live_exchange.response.frame).outcome is ReplayOutcome.EQUAL


def test_changed_record_batch_has_a_valid_crc() -> None:
    story, captured, live = MAPPED["producer"]
    sent, _ = replay_story(story % captured, story % live)
    [batch] = records.decode(bytes(sent[2]["topic_data"][0]["partition_data"][0]["records"]))
    assert (batch["producer_id"], batch["base_sequence"], batch["crc_valid"]) == (5, 4, True)
