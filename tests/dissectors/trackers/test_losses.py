"""Rules report no missing requests from a client if some of its frames were not read."""

from __future__ import annotations

import pytest

from kproxy.live.message_inspection import run_gap
from tests.kproxy.stories import StoryPlayer, findings

PARTITION_TO_ADD = (
    '{"v3_and_below_transactional_id": "pay", "v3_and_below_producer_id": 3, "v3_and_below_producer_epoch": 0, '
    '"v3_and_below_topics": [{"name": "t", "partitions": [0]}]}'
)
REFUSAL = '{"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_error_code": 51}]}]}'
JOINED = """
> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 10000}
< {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
"""
ASKED_TO_JOIN = """
> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 10000}
< {"error_code": 79, "member_id": "m-1"}
"""
WRITTEN = '{"acks": -1, "topic_data": [{"name": "t", "partition_data": [{}]}]}'
OUT_OF_ORDER = '{"responses": [{"name": "t", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}'

#: Code -> a story after which the rule reports a missing request as time passes.
WAITING_STORIES = {
    "E006": f"> AddPartitionsToTxn v0 {PARTITION_TO_ADD}\n< {REFUSAL}\n",
    "E005": f"> Produce v9 {WRITTEN}\n< {OUT_OF_ORDER}\n",
    "S013": JOINED,
    "S014": ASKED_TO_JOIN,
}
#: Losses that may have hidden the request, on the same connection or on another one of the client.
LOSSES = (
    "> skipped AddPartitionsToTxn v0 " + PARTITION_TO_ADD,
    "lose > 100 frames=1 behind",
    "lose > 100 frames=1",
    "2 lose > 100 frames=1 behind",
)
SAME_HOST = "open 1 client=10.0.0.7:50001\nopen 2 client=10.0.0.7:50002\nopen 3 client=10.0.0.8:50003\n"


@pytest.mark.parametrize("code", WAITING_STORIES)
def test_missing_request_is_reported_if_nothing_was_lost(code: str) -> None:
    assert findings(SAME_HOST + WAITING_STORIES[code] + "+12s\n", code)
    assert findings(SAME_HOST + WAITING_STORIES[code] + "3 lose > 100 frames=1\n+12s\n", code), "of another host"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("code", WAITING_STORIES)
def test_missing_request_may_be_in_skipped_or_lost_frames(code: str, loss: str) -> None:
    assert not findings(SAME_HOST + WAITING_STORIES[code] + f"{loss}\n+12s\n", code)


@pytest.mark.parametrize("code", WAITING_STORIES)
def test_missing_request_may_be_on_an_unobserved_connection(code: str) -> None:
    player = StoryPlayer()
    player.play(WAITING_STORIES[code])
    player.inspector.lose_connections(run_gap(player.at, "behind"), at=player.at)
    player.play("+12s")
    assert not [line for line in player.lines if getattr(line, "code", None) == code]


@pytest.mark.parametrize(("sample", "is_reported"), [(None, True), (1.0, True), (0.1, False)])
def test_small_sample_reports_no_missing_requests(sample: float | None, *, is_reported: bool) -> None:
    player = StoryPlayer()
    player.inspector.open(9, "10.0.0.9:50000", "10.0.0.1:9092", at=player.at, sample=sample)
    player.play(WAITING_STORIES["E006"] + "+12s")
    assert any(getattr(line, "code", None) == "E006" for line in player.lines) is is_reported


def test_undecodable_request_is_not_missing() -> None:
    sync = '> SyncGroup v3 {"group_id": "g", "member_id": "m-1"} with missing:generation_id\n'
    assert not findings(JOINED + sync + "+12s\n", "S013")


def test_refusals_may_have_ended_with_a_skipped_response() -> None:
    refused_body = '{"responses": [{"name": "t", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}'
    refused_produce = f"> Produce v9 {WRITTEN}\n< {refused_body}\n"
    assert findings(3 * refused_produce + "+8s\n", "E002")
    assert not findings(3 * refused_produce + f"> Produce v9 {WRITTEN}\n< skipped {refused_body}\n+8s\n", "E002")


OPEN = (
    '> InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 10000}\n'
    '< {"producer_id": 3, "producer_epoch": 0}\n'
    f"> AddPartitionsToTxn v0 {PARTITION_TO_ADD}\n"
    '< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_error_code": 0}]}]}\n'
)
END = 'EndTxn v1 {"transactional_id": "pay", "producer_id": 3, "producer_epoch": 0, "committed": true}\n'


def test_transaction_may_have_ended_with_a_skipped_request() -> None:
    assert findings(OPEN + "+9s\n", "T002")
    assert not findings(OPEN + f"> skipped {END}< {{}}\n+9s\n", "T002")
    assert not findings(OPEN + f"> {END}< skipped {{}}\n+9s\n", "T002")


def test_partition_ends_are_unknown_after_skipped_fetches() -> None:
    fetch = '> {}Fetch v11 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 5}}]}}]}}\n'
    fetch_body = '{{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": {}, "records": ""}}]}}]}}\n'
    commit = (
        '> OffsetCommit v7 {{"group_id": "g", "topics": [{{"name": "t", "partitions": [{{"committed_offset": {}}}]}}]}}'
        '\n< {{"topics": [{{"name": "t", "partitions": [{{}}]}}]}}\n'
    )
    setup = commit.format(1) + fetch.format("") + "< " + fetch_body.format(7)
    assert findings(setup + commit.format(9), "S043")
    assert not findings(
        setup + fetch.format("") + "< skipped " + fetch_body.format(9) + "+11s\n" + commit.format(9), "S043"
    )


def test_missing_sequences_may_be_in_skipped_frames() -> None:
    batch = (
        'Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{{"records": [{{'
        '"producer_id": 4000, "producer_epoch": 0, "base_sequence": {}, "records": [{{"value": "a"}}]}}]}}]}}]}}\n'
    )
    accepted = '< {"responses": [{"name": "t", "partition_responses": [{}]}]}\n'
    story = f"> {batch.format(0)}{accepted}{{}}> {batch.format(2)}< {OUT_OF_ORDER}\n"
    assert any("sequence 2" in finding.message for finding in findings(story.replace("{}>", ">", 1), "S032"))
    with_skipped_batch = story.replace("{}>", f"> skipped {batch.format(1)}{accepted}>", 1)
    assert not any("sequence 2 to" in finding.message for finding in findings(with_skipped_batch, "S032"))


@pytest.mark.parametrize("group", ["g", 60 * "g"], ids=["in the head", "behind the head"])
def test_group_with_skipped_frames_is_not_stalled(group: str) -> None:
    join = (
        f'> JoinGroup v5 {{"group_id": "{group}", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, '
        '"member_id": "a"}\n< {"generation_id": 1, "leader": "a", "member_id": "a"}\n'
    )
    sync = f'> skipped SyncGroup v3 {{"group_id": "{group}", "generation_id": 1, "member_id": "a"}}\n< skipped {{}}\n'
    assert findings(join + "+20s\n", "G003")
    assert not findings(join + sync + "+20s\n", "G003")
