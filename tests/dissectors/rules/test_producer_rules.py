"""S032 to S035: what the stories on their pages do not show."""

from __future__ import annotations

import json

import pytest

from dissectors.records.record_checks import BatchSpan
from tests.kproxy.stories import BEGIN, MS, findings


def sent(sequence: int, *, epoch: int = 0, value: str = "a", count: int = 1, producer: int = 4000) -> str:
    records = [{"value": value, "timestamp": BEGIN // MS}] * count
    batch = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence, "records": records}
    topics = [{"name": "t", "partition_data": [{"records": [batch]}]}]
    return f"> Produce v9 {json.dumps({'acks': -1, 'topic_data': topics})}\n"


def answer(code: int = 0) -> str:
    return f'< {{"responses": [{{"name": "t", "partition_responses": [{{"error_code": {code}}}]}}]}}\n'


def test_a_batch_that_is_refused_for_ever() -> None:
    again = sent(4) + answer(45)
    assert not findings(2 * again, "S032")
    [finding] = findings(3 * again, "S032")
    assert "repeatedly; the broker has refused it 3 times" in finding.message
    assert finding.path == "responses[0].partition_responses[0].error_code"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 2


def test_a_gap_is_remembered_while_later_batches_are_in_flight() -> None:
    [finding] = findings(sent(0) + answer() + sent(5) + sent(6) + answer(45), "S032")
    assert (finding.expected, finding.got) == ("sequence 1", "5")


def test_a_gap_that_the_broker_accepts_was_lost_by_the_capture() -> None:
    assert not findings(sent(0) + answer() + sent(5) + answer(), "S032")


def test_sequences_begin_again_at_their_end() -> None:
    assert BatchSpan(0, 61, 0, 49, -1, 2, 0, 0, base_sequence=2**31 - 1, records_count=2).next_sequence == 1
    assert not findings(sent(2**31 - 1, count=2) + answer() + sent(1) + answer(45), "S032")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("close\n", "the first attempt has no observed response"),
        (answer(7), "the first attempt was answered with REQUEST_TIMED_OUT"),
        (answer(), "the first attempt was answered without error"),
        ("< hex 00 00 00 06 00 00 00 01 00 00\n", "the first attempt was answered in a layout that it cannot read"),
    ],
)
def test_a_retry_is_told_with_its_reason(reply: str, said: str) -> None:
    [finding] = findings(sent(0) + reply + sent(0), "S033")
    assert finding.severity == "info"
    assert finding.message.endswith(said)


def test_other_records_under_one_sequence() -> None:
    [finding] = findings(sent(0) + answer() + sent(0, value="b"), "S033")
    assert finding.severity == "error"
    assert finding.path == "topic_data[0].partition_data[0].records"


def test_ids_that_a_cluster_gives_anew_begin_anew() -> None:
    given = '> InitProducerId v1 {}\n< {"producer_id": 4000}\n'
    assert not findings(given + sent(0) + answer() + given + sent(0, value="b"), "S033")
    assert not findings(sent(0) + answer() + "+11m\n" + sent(0, value="b"), "S033")


def test_without_acks_there_is_no_retry() -> None:
    one = sent(-1, producer=-1).replace('"acks": -1', '"acks": 0')
    assert not findings(one + "+1s\n" + one, "S034")


def test_an_id_that_is_refused_begins_nothing() -> None:
    refused = '> InitProducerId v1 {}\n< {"error_code": 15, "producer_id": 4000}\n'
    assert findings(sent(0) + answer() + refused + sent(0, value="b"), "S033")


def test_an_answer_that_was_not_decoded_says_nothing() -> None:
    [finding] = findings(sent(0) + "lose < 60 frames=1\n" + sent(0), "S033")
    assert finding.message.endswith("the first attempt has no observed response")


def test_the_sequences_of_a_zombie_are_its_own() -> None:
    assert not findings(sent(0, epoch=1) + answer() + sent(0, epoch=0, value="b") + answer(47), "S033")


def test_a_batch_that_was_not_answered_is_told_for_information() -> None:
    [finding] = findings(sent(-1, producer=-1) + "close\n+1s\n" + sent(-1, producer=-1), "S034")
    assert finding.severity == "info"


def test_a_batch_whose_answer_could_not_be_read() -> None:
    reply = "< hex 00 00 00 06 00 00 00 01 00 00\n"
    [finding] = findings(sent(-1, producer=-1) + reply + "+1s\n" + sent(-1, producer=-1), "S034")
    assert finding.severity == "warning"
    assert (
        "1.0 s after the first attempt, which was answered in a layout that it cannot read: its records are"
        in finding.message
    )


def test_the_same_value_written_twice_at_once_is_no_retry() -> None:
    assert not findings(3 * (sent(-1, producer=-1) + answer()), "S034")


def test_a_producer_that_the_broker_does_not_know() -> None:
    again = sent(0) + answer(59)
    assert not findings(2 * again, "S035")
    [finding] = findings(3 * again, "S035")
    assert finding.message.startswith("producer 4000 got UNKNOWN_PRODUCER_ID for 3 requests in a row")


def test_two_instances_that_fence_each_other() -> None:
    story = "".join(
        f'{who}> AddPartitionsToTxn v3 {{"v3_and_below_transactional_id": "pay", '
        f'"v3_and_below_producer_epoch": {epoch}, '
        '"v3_and_below_topics": [{"name": "t", "partitions": [0]}]}\n'
        f'{who}< {{"results_by_topic_v3_and_below": [{{"name": "t", "results_by_partition": ['
        '{"partition_error_code": 90}]}]}\n'
        for epoch, who in enumerate((1, 2, 1))
    )
    [finding] = findings(story, "S035")
    assert finding.message.startswith("transactional producer 'pay' got PRODUCER_FENCED for 3 requests in a row")


def test_a_producer_that_is_fenced_once_a_day_is_right() -> None:
    assert not findings(4 * (sent(0) + answer(47) + "+60m\n"), "S035")


def test_a_broker_that_forgets_an_idle_producer() -> None:
    idle = sent(0) + answer() + "+605s\n" + sent(1, value="b") + answer(45)
    [finding] = findings(idle, "S032")
    assert "the one after those that the broker has accepted" in finding.message
    assert "which sent nothing there for 605" in finding.message
    assert finding.blame == "broker"
    assert not findings(idle.replace("+605s", "+5s"), "S032")  # too soon to tell
    gap = findings(sent(0) + answer() + "+605s\n" + sent(2, value="b") + answer(45), "S032")
    assert [finding.expected for finding in gap] == ["sequence 1"]
    refused = sent(0) + answer(7) + "+605s\n" + sent(1, value="b") + answer(45)
    assert not findings(refused, "S032")


@pytest.mark.parametrize(
    ("sequence", "epoch", "said"),
    [
        (-(2**31), 0, "base_sequence -2147483648: it has overflowed"),
        (0, -(2**15), "producer_epoch -32768: it has overflowed"),
        (-1, 0, "base_sequence -1, although it has a producer id"),
        (2**31 - 1, 2**15 - 1, None),
    ],
)
def test_counters_of_a_producer_are_not_negative(sequence: int, epoch: int, said: str | None) -> None:
    story = 3 * (sent(sequence, epoch=epoch) + answer(87))
    assert [finding.message for finding in findings(story, "S084")] == (
        [] if said is None else [f"producer 4000 sends t[0] a batch with {said}"]
    )
    assert bool(findings(story, "E001")) is (said is None)  # it explains the refusal
    assert not findings(story.replace('"producer_id": 4000', '"producer_id": -1'), "S084")
