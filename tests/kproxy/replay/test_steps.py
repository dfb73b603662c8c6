"""The steps of a capture: their order, and which requests are omitted and why."""

from __future__ import annotations

import pytest

from kproxy.replay.steps import Action, build_steps
from kproxy.trace.lines import ResponseLine
from tests.kproxy.replay.capture_stories import exchanges, lines, steps

JOINS = """
> Metadata v9 {}
2> Metadata v9 {}
> Heartbeat v4 {}
< {}
< {}
2< {}
close
"""


def test_steps_follow_the_capture() -> None:
    summary = [(step.action, step.connection_id, step.exchange and step.exchange.number) for step in steps(JOINS)]
    assert summary == [
        (Action.SEND, "story-1", 1), (Action.SEND, "story-2", 1), (Action.SEND, "story-1", 2),
        (Action.RECEIVE, "story-1", 1), (Action.RECEIVE, "story-1", 2), (Action.RECEIVE, "story-2", 1),
        (Action.CLOSE, "story-1", None),
    ]  # fmt: skip


def test_lines_of_several_files_are_sorted_by_time() -> None:
    trace_lines = lines(JOINS)
    unsorted_lines = sorted(trace_lines, key=lambda line: line.connection_id, reverse=True)
    assert [step.at for step in build_steps(unsorted_lines)] == [step.at for step in build_steps(trace_lines)]


def test_exchanges_without_request_offsets_are_paired_by_id_and_time() -> None:
    trace_lines = lines(JOINS)
    expected = [(step.action, step.exchange and step.exchange.number) for step in build_steps(trace_lines)]
    for line in trace_lines:
        if isinstance(line, ResponseLine):
            line.request_offset = None
    paired_steps = build_steps(trace_lines)
    assert [(step.action, step.exchange and step.exchange.number) for step in paired_steps] == expected
    assert all(step.exchange is None or step.exchange.response is not None for step in paired_steps)


def test_reused_connection_id_counts_as_a_new_connection() -> None:
    first_lines, second_lines = lines("> Heartbeat v4 {}"), lines("> Metadata v9 {}\n< {}")
    [unanswered_exchange, answered_exchange] = [
        step.exchange
        for step in build_steps([*first_lines, *second_lines])
        if step.exchange and step.action is Action.SEND
    ]
    if answered_exchange.line.api == "Heartbeat":
        unanswered_exchange, answered_exchange = answered_exchange, unanswered_exchange
    assert (unanswered_exchange.response, answered_exchange.response is None) == (None, False)


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        ('> SaslHandshake v1 {"mechanism": "PLAIN"}', "the login is not in the capture"),
        ('> SaslAuthenticate v2 {"auth_bytes": "00 61 00 62"}', "the login is not in the capture"),
        ('> RenewDelegationToken v2 {"hmac": "00 ff"}', "its secrets are redacted"),
        ('> IncrementalAlterConfigs v1 {"resources": [{"configs": [{"name": "ssl.key.password", "value": "x"}]}]}',
         "its secrets are redacted"),
        ('> IncrementalAlterConfigs v1 {"resources": [{"configs": [{"name": "retention.ms", "value": "1"}]}]}', ""),
        ("> WriteTxnMarkers v1 {}", "brokers send it to each other"),
        ("> AddPartitionsToTxn v4 {}", "brokers send it to each other"),
        ("> AddPartitionsToTxn v3 {}", ""),
        ('> Fetch v11 {"replica_id": 2}', "brokers send it to each other"),
        ("> Fetch v17 {}", ""),
        ('> Heartbeat v4 {}\n< {"error_code": 16}', "the captured broker was not ready"),
        ('> Heartbeat v4 {}\n< {"error_code": 25}', ""),
        ('> Produce v3 {"acks": -1}\n< {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}]}]}',
         "the captured broker was not ready"),
        ('> Produce v3 {"acks": -1}\n< {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}, {}]}]}',
         ""),
    ],
)  # fmt: skip
def test_requests_are_omitted_with_a_reason(story: str, reason: str) -> None:
    [exchange] = exchanges(story)
    assert exchange.left_out == reason


def test_request_that_the_filter_does_not_match_is_omitted() -> None:
    [exchange] = exchanges("> Heartbeat v4 {}", lambda line: False)
    assert exchange.left_out == "--filter does not match"


def test_request_without_bytes_is_omitted() -> None:
    trace_lines = lines("> Heartbeat v4 {}")
    trace_lines[-1].frame = None  # type: ignore[union-attr]
    [step] = build_steps(trace_lines)
    assert step.exchange is not None
    assert step.exchange.left_out == "its bytes are not in the trace"
