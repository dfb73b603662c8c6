"""S032 to S035: cases that the stories on their pages do not show."""

from __future__ import annotations

import json

import pytest

from dissectors.records.record_checks import BatchSpan
from tests.kproxy.stories import BEGIN, MS, findings


def produce_batch(sequence: int, *, epoch: int = 0, value: str = "a", count: int = 1, producer: int = 4000) -> str:
    records = [{"value": value, "timestamp": BEGIN // MS}] * count
    batch = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence, "records": records}
    topics = [{"name": "t", "partition_data": [{"records": [batch]}]}]
    return f"> Produce v9 {json.dumps({'acks': -1, 'topic_data': topics})}\n"


def produce_response(code: int = 0) -> str:
    return f'< {{"responses": [{{"name": "t", "partition_responses": [{{"error_code": {code}}}]}}]}}\n'


def test_repeatedly_refused_batch_is_reported() -> None:
    refused_batch = produce_batch(4) + produce_response(45)
    assert not findings(2 * refused_batch, "S032")
    [finding] = findings(3 * refused_batch, "S032")
    assert "repeatedly; the broker has refused it 3 times" in finding.message
    assert finding.path == "responses[0].partition_responses[0].error_code"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 2


def test_sequence_gap_is_remembered_while_later_batches_are_in_flight() -> None:
    [finding] = findings(
        produce_batch(0) + produce_response() + produce_batch(5) + produce_batch(6) + produce_response(45), "S032"
    )
    assert (finding.expected, finding.got) == ("sequence 1", "5")


def test_sequence_gap_accepted_by_the_broker_is_not_reported() -> None:
    assert not findings(produce_batch(0) + produce_response() + produce_batch(5) + produce_response(), "S032")


def test_sequences_wrap_at_the_maximum() -> None:
    assert BatchSpan(0, 61, 0, 49, -1, 2, 0, 0, base_sequence=2**31 - 1, records_count=2).next_sequence == 1
    assert not findings(
        produce_batch(2**31 - 1, count=2) + produce_response() + produce_batch(1) + produce_response(45), "S032"
    )


@pytest.mark.parametrize(
    ("first_reply", "reason"),
    [
        ("close\n", "the first attempt has no observed response"),
        (produce_response(7), "the first attempt was answered with REQUEST_TIMED_OUT"),
        (produce_response(), "the first attempt was answered without error"),
        ("< hex 00 00 00 06 00 00 00 01 00 00\n", "the first attempt was answered in a layout that it cannot read"),
    ],
)
def test_retry_is_reported_with_its_reason(first_reply: str, reason: str) -> None:
    [finding] = findings(produce_batch(0) + first_reply + produce_batch(0), "S033")
    assert finding.severity == "info"
    assert finding.message.endswith(reason)


def test_different_records_with_one_sequence_are_an_error() -> None:
    [finding] = findings(produce_batch(0) + produce_response() + produce_batch(0, value="b"), "S033")
    assert finding.severity == "error"
    assert finding.path == "topic_data[0].partition_data[0].records"


def test_reassigned_producer_id_restarts_its_sequences() -> None:
    init = '> InitProducerId v1 {}\n< {"producer_id": 4000}\n'
    assert not findings(init + produce_batch(0) + produce_response() + init + produce_batch(0, value="b"), "S033")
    assert not findings(produce_batch(0) + produce_response() + "+11m\n" + produce_batch(0, value="b"), "S033")


def test_repeated_produce_without_acks_is_not_a_retry() -> None:
    produce = produce_batch(-1, producer=-1).replace('"acks": -1', '"acks": 0')
    assert not findings(produce + "+1s\n" + produce, "S034")


def test_refused_producer_id_does_not_restart_sequences() -> None:
    refused = '> InitProducerId v1 {}\n< {"error_code": 15, "producer_id": 4000}\n'
    assert findings(produce_batch(0) + produce_response() + refused + produce_batch(0, value="b"), "S033")


def test_retry_after_a_lost_response_has_no_known_reason() -> None:
    [finding] = findings(produce_batch(0) + "lose < 60 frames=1\n" + produce_batch(0), "S033")
    assert finding.message.endswith("the first attempt has no observed response")


def test_zombie_producer_has_its_own_sequences() -> None:
    assert not findings(
        produce_batch(0, epoch=1) + produce_response() + produce_batch(0, epoch=0, value="b") + produce_response(47),
        "S033",
    )


def test_retry_of_an_unanswered_batch_is_reported_as_information() -> None:
    [finding] = findings(produce_batch(-1, producer=-1) + "close\n+1s\n" + produce_batch(-1, producer=-1), "S034")
    assert finding.severity == "info"


def test_retry_of_a_batch_with_an_undecodable_response_is_a_warning() -> None:
    reply = "< hex 00 00 00 06 00 00 00 01 00 00\n"
    [finding] = findings(produce_batch(-1, producer=-1) + reply + "+1s\n" + produce_batch(-1, producer=-1), "S034")
    assert finding.severity == "warning"
    assert (
        "1.0 s after the first attempt, which was answered in a layout that it cannot read: its records are"
        in finding.message
    )


def test_same_value_produced_twice_at_once_is_not_a_retry() -> None:
    assert not findings(3 * (produce_batch(-1, producer=-1) + produce_response()), "S034")


def test_unknown_producer_is_reported_the_third_time() -> None:
    refused_batch = produce_batch(0) + produce_response(59)
    assert not findings(2 * refused_batch, "S035")
    [finding] = findings(3 * refused_batch, "S035")
    assert finding.message.startswith("producer 4000 got UNKNOWN_PRODUCER_ID for 3 requests in a row")


def test_producers_that_fence_each_other_are_reported() -> None:
    story = "".join(
        f'{connection}> AddPartitionsToTxn v3 {{"v3_and_below_transactional_id": "pay", '
        f'"v3_and_below_producer_epoch": {epoch}, '
        '"v3_and_below_topics": [{"name": "t", "partitions": [0]}]}\n'
        f'{connection}< {{"results_by_topic_v3_and_below": [{{"name": "t", "results_by_partition": ['
        '{"partition_error_code": 90}]}]}\n'
        for epoch, connection in enumerate((1, 2, 1))
    )
    [finding] = findings(story, "S035")
    assert finding.message.startswith("transactional producer 'pay' got PRODUCER_FENCED for 3 requests in a row")


def test_producer_fenced_once_an_hour_is_not_reported() -> None:
    assert not findings(4 * (produce_batch(0) + produce_response(47) + "+60m\n"), "S035")


def test_broker_that_forgot_an_idle_producer_is_blamed() -> None:
    idle_story = produce_batch(0) + produce_response() + "+605s\n" + produce_batch(1, value="b") + produce_response(45)
    [finding] = findings(idle_story, "S032")
    assert "the one after those that the broker has accepted" in finding.message
    assert "which sent nothing there for 605" in finding.message
    assert finding.blame == "broker"
    assert not findings(idle_story.replace("+605s", "+5s"), "S032")  # too soon to tell
    gap = findings(
        produce_batch(0) + produce_response() + "+605s\n" + produce_batch(2, value="b") + produce_response(45), "S032"
    )
    assert [finding.expected for finding in gap] == ["sequence 1"]
    refused = produce_batch(0) + produce_response(7) + "+605s\n" + produce_batch(1, value="b") + produce_response(45)
    assert not findings(refused, "S032")


@pytest.mark.parametrize(
    ("sequence", "epoch", "description"),
    [
        (-(2**31), 0, "base_sequence -2147483648: it has overflowed"),
        (0, -(2**15), "producer_epoch -32768: it has overflowed"),
        (-1, 0, "base_sequence -1, although it has a producer id"),
        (2**31 - 1, 2**15 - 1, None),
    ],
)
def test_negative_producer_counters_are_reported(sequence: int, epoch: int, description: str | None) -> None:
    story = 3 * (produce_batch(sequence, epoch=epoch) + produce_response(87))
    assert [finding.message for finding in findings(story, "S084")] == (
        [] if description is None else [f"producer 4000 sends t[0] a batch with {description}"]
    )
    assert bool(findings(story, "E001")) is (description is None)  # S084 explains the refusal
    assert not findings(story.replace('"producer_id": 4000', '"producer_id": -1'), "S084")
