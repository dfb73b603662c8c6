"""Rules say nothing of what a client did not do if frames of it were not read."""

from __future__ import annotations

import pytest

from kproxy.live.message_inspection import run_gap
from tests.kproxy.stories import Teller, findings

ADDED = (
    '{"v3_and_below_transactional_id": "pay", "v3_and_below_producer_id": 3, "v3_and_below_producer_epoch": 0, '
    '"v3_and_below_topics": [{"name": "t", "partitions": [0]}]}'
)
REFUSED = '{"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_error_code": 51}]}]}'
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

#: Code -> a story after which it is reported, as time passes.
WAITING = {
    "E006": f"> AddPartitionsToTxn v0 {ADDED}\n< {REFUSED}\n",
    "E005": f"> Produce v9 {WRITTEN}\n< {OUT_OF_ORDER}\n",
    "S013": JOINED,
    "S014": ASKED_TO_JOIN,
}
#: What may have hidden the request: on the same connection, or on another one of the client.
LOSSES = (
    "> skipped AddPartitionsToTxn v0 " + ADDED,
    "lose > 100 frames=1 behind",
    "lose > 100 frames=1",
    "2 lose > 100 frames=1 behind",
)
SAME_HOST = "open 1 client=10.0.0.7:50001\nopen 2 client=10.0.0.7:50002\nopen 3 client=10.0.0.8:50003\n"


@pytest.mark.parametrize("code", WAITING)
def test_what_is_reported_if_everything_was_read(code: str) -> None:
    assert findings(SAME_HOST + WAITING[code] + "+12s\n", code)
    assert findings(SAME_HOST + WAITING[code] + "3 lose > 100 frames=1\n+12s\n", code), "of another host"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("code", WAITING)
def test_the_request_that_is_missing_may_not_have_been_read(code: str, loss: str) -> None:
    assert not findings(SAME_HOST + WAITING[code] + f"{loss}\n+12s\n", code)


@pytest.mark.parametrize("code", WAITING)
def test_the_request_may_have_been_on_a_connection_that_was_not_observed(code: str) -> None:
    teller = Teller()
    teller.tell(WAITING[code])
    teller.inspector.lose_connections(run_gap(teller.at, "behind"), at=teller.at)
    teller.tell("+12s")
    assert not [line for line in teller.lines if getattr(line, "code", None) == code]


@pytest.mark.parametrize(("sample", "reported"), [(None, True), (1.0, True), (0.1, False)])
def test_a_sample_does_not_show_what_clients_have_not_done(sample: float | None, *, reported: bool) -> None:
    teller = Teller()
    teller.inspector.open(9, "10.0.0.9:50000", "10.0.0.1:9092", at=teller.at, sample=sample)
    teller.tell(WAITING["E006"] + "+12s")
    assert any(getattr(line, "code", None) == "E006" for line in teller.lines) is reported


def test_a_request_that_does_not_decode_is_no_missing_one() -> None:
    sync = '> SyncGroup v3 {"group_id": "g", "member_id": "m-1"} with missing:generation_id\n'
    assert not findings(JOINED + sync + "+12s\n", "S013")


def test_a_streak_of_refusals_may_have_ended_in_what_was_not_read() -> None:
    refused = '{"responses": [{"name": "t", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}'
    once = f"> Produce v9 {WRITTEN}\n< {refused}\n"
    assert findings(3 * once + "+8s\n", "E002")
    assert not findings(3 * once + f"> Produce v9 {WRITTEN}\n< skipped {refused}\n+8s\n", "E002")


OPEN = (
    '> InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 10000}\n'
    '< {"producer_id": 3, "producer_epoch": 0}\n'
    f"> AddPartitionsToTxn v0 {ADDED}\n"
    '< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_error_code": 0}]}]}\n'
)
END = 'EndTxn v1 {"transactional_id": "pay", "producer_id": 3, "producer_epoch": 0, "committed": true}\n'


def test_a_transaction_may_have_ended_in_what_was_not_read() -> None:
    assert findings(OPEN + "+9s\n", "T002")
    assert not findings(OPEN + f"> skipped {END}< {{}}\n+9s\n", "T002")
    assert not findings(OPEN + f"> {END}< skipped {{}}\n+9s\n", "T002")


def test_ends_of_partitions_are_unknown_after_fetches_that_were_not_read() -> None:
    asked = '> {}Fetch v11 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 5}}]}}]}}\n'
    end = '{{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": {}, "records": ""}}]}}]}}\n'
    commit = (
        '> OffsetCommit v7 {{"group_id": "g", "topics": [{{"name": "t", "partitions": [{{"committed_offset": {}}}]}}]}}'
        '\n< {{"topics": [{{"name": "t", "partitions": [{{}}]}}]}}\n'
    )
    before = commit.format(1) + asked.format("") + "< " + end.format(7)
    assert findings(before + commit.format(9), "S043")
    assert not findings(before + asked.format("") + "< skipped " + end.format(9) + "+11s\n" + commit.format(9), "S043")


def test_sequences_may_have_been_sent_in_what_was_not_read() -> None:
    batch = (
        'Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{{"records": [{{'
        '"producer_id": 4000, "producer_epoch": 0, "base_sequence": {}, "records": [{{"value": "a"}}]}}]}}]}}]}}\n'
    )
    written = '< {"responses": [{"name": "t", "partition_responses": [{}]}]}\n'
    story = f"> {batch.format(0)}{written}{{}}> {batch.format(2)}< {OUT_OF_ORDER}\n"
    assert any("sequence 2" in finding.message for finding in findings(story.replace("{}>", ">", 1), "S032"))
    hidden = story.replace("{}>", f"> skipped {batch.format(1)}{written}>", 1)
    assert not any("sequence 2 to" in finding.message for finding in findings(hidden, "S032"))


@pytest.mark.parametrize("group", ["g", 60 * "g"], ids=["in the head", "behind the head"])
def test_a_group_is_not_stalled_by_what_was_not_read(group: str) -> None:
    joined = (
        f'> JoinGroup v5 {{"group_id": "{group}", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, '
        '"member_id": "a"}\n< {"generation_id": 1, "leader": "a", "member_id": "a"}\n'
    )
    sync = f'> skipped SyncGroup v3 {{"group_id": "{group}", "generation_id": 1, "member_id": "a"}}\n< skipped {{}}\n'
    assert findings(joined + "+20s\n", "G003")
    assert not findings(joined + sync + "+20s\n", "G003")
