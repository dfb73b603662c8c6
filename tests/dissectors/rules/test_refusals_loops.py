"""E002: when requests that are refused again and again are a loop."""

from __future__ import annotations

import json

import pytest

from dissectors import rules
from dissectors.connections.events import ResponseReceived
from dissectors.rules.refusals import refused_repeatedly
from tests.dissectors.rules.refusal_stories import (
    PRODUCE,
    commit_with_error,
    error_findings,
    heartbeat,
    loop_findings,
    produce_with_error,
)
from tests.kproxy.stories import StoryPlayer, findings


def test_loop_is_reported_once_with_count_and_reason() -> None:
    [finding] = error_findings(9 * (produce_with_error(19, error_message="ISR is {1}") + "+500ms\n"))
    assert (finding.code, finding.severity, finding.blame) == ("E002", "warning", "broker")
    assert finding.message == (
        "4 of 4 Produce requests of client 'app' were refused with NOT_ENOUGH_REPLICAS in 1.5 s for orders[0]: the "
        "partition has fewer in-sync replicas than min.insync.replicas, so that acks=all is refused; the broker says "
        '"ISR is {1}"'
    )
    assert finding.hint is not None
    assert "min.insync.replicas" in finding.hint
    assert finding.path == "responses[0].partition_responses[0].error_code"


def test_loop_is_an_error_if_all_requests_fail_or_if_it_lasts() -> None:
    [finding] = error_findings(9 * (produce_with_error(7) + "+300ms\n"))
    assert finding.severity == "error"
    assert finding.message.startswith("6 of 6 Produce requests of client 'app' were refused with REQUEST_TIMED_OUT")
    success = produce_with_error(0, partition=1)
    reported = error_findings(20 * (produce_with_error(7) + success + "+1s\n"))
    assert [finding.severity for finding in reported] == ["warning", "error"]
    assert reported[0].message.startswith("3 of 5 Produce requests")


def test_success_resets_only_the_count_of_its_client_and_partition() -> None:
    failures = 2 * (produce_with_error(19) + "+1s\n")
    assert not error_findings(4 * (failures + produce_with_error(0)))
    assert error_findings(failures + produce_with_error(0, partition=1) + failures), (
        "a success on another partition must not reset the count"
    )
    assert error_findings(failures + produce_with_error(0).replace("> ", "> as other ") + failures), (
        "a success of another client must not reset the count"
    )


def test_count_restarts_after_silence() -> None:
    assert not loop_findings(2 * (2 * (produce_with_error(19) + "+1s\n") + "+31s\n"))


@pytest.mark.parametrize(("code", "reported_after_s"), [(19, 15), (51, 15), (56, 1)])
def test_errors_after_an_election_get_more_time(code: int, reported_after_s: int) -> None:
    """NOT_COORDINATOR suggests an election, which explains missing replicas and markers, but not a broken disk."""
    loop = produce_with_error(code) + "+1s\n"
    assert loop_findings(10 * loop)
    assert bool(loop_findings(heartbeat(16) + 10 * loop)) is (reported_after_s < 10)
    assert loop_findings(heartbeat(16) + 20 * loop), "it does not pass"
    assert loop_findings(heartbeat(16) + "+16s\n" + 10 * loop), "that election was long before"


def test_lasting_error_is_reported_only_if_repeated() -> None:
    assert not loop_findings(produce_with_error(19) + "+10s\n" + produce_with_error(19))
    slow_failure = PRODUCE + "+29s\n" + produce_with_error(7).split("\n", 1)[1]
    assert not loop_findings(slow_failure)
    assert loop_findings(2 * slow_failure), "two that took 29 s each are as many as three"


def test_repeated_requests_may_be_for_different_partitions() -> None:
    story = "".join(produce_with_error(19, partition=index) + "+400ms\n" for index in range(9))
    [finding] = error_findings(story)
    assert finding.message.startswith("5 of 5 Produce requests")
    assert "for orders[0], orders[1], orders[2] and 2 more" in finding.message


@pytest.mark.parametrize("code", [14, 15, 16, 27, 79])
def test_errors_at_the_first_use_of_a_group_are_not_reported(code: int) -> None:
    assert not error_findings(4 * (heartbeat(code) + "+1s\n") + heartbeat(0))


def test_successes_are_observed_only_while_an_api_is_refused() -> None:
    player = StoryPlayer()
    run = player.inspector._inspection.run_state
    player.play(heartbeat(0) + produce_with_error(0))
    assert "E002 Produce" not in run.subscribed
    player.play(produce_with_error(19) + heartbeat(0))
    subscriptions = {subscription for subscription in run.subscribed if subscription.startswith("E002")}
    assert subscriptions == {"E002 Produce"}
    player.play(produce_with_error(0, partition=1))
    assert "E002 Produce" in run.subscribed, "the success of another partition ends nothing"
    player.play(produce_with_error(0))
    assert "E002 Produce" not in run.subscribed
    player.play(produce_with_error(19) + "+61s\n" + produce_with_error(0, partition=1))
    assert "E002 Produce" not in run.subscribed, "although this partition was refused to the end"


def test_response_without_errors_costs_little_after_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    player = StoryPlayer()
    player.play(produce_with_error(19) + produce_with_error(0))
    calls = []
    for name in ("refusals", "results", "client_key", "_note_success"):
        monkeypatch.setattr(refused_repeatedly, name, lambda *_, name=name: calls.append(name))
    player.play(5 * produce_with_error(0))
    assert not calls


def test_subscription_applies_to_one_api_only() -> None:
    dispatch = rules._dispatch
    for api, expected in (("Produce", True), ("Heartbeat", False)):
        selected = dispatch._find_subscribers(ResponseReceived, api, 1, True, 0, frozenset({"E002 Produce"}))
        assert ("E002" in [finding.code for finding in selected]) is expected


@pytest.mark.slow
def test_success_hidden_among_many_partitions_prevents_a_loop() -> None:
    def produce_to_many(code: int, partition_count: int) -> str:
        rows = [{"index": index, "error_code": 0, "base_offset": 1} for index in range(1, partition_count)]
        rows.append({"index": 0, "error_code": code, "base_offset": -1})
        return PRODUCE + f"< {json.dumps({'responses': [{'name': 'orders', 'partition_responses': rows}]})}\n+1s\n"

    assert error_findings(4 * produce_to_many(19, 1_100)), "refused each time"
    assert not error_findings(
        2 * produce_to_many(19, 1_100) + produce_to_many(0, 1_100) + 2 * produce_to_many(19, 1_100)
    )


def test_growing_backoff_is_reported_before_the_next_attempt() -> None:
    attempts = "".join(commit_with_error(15) + f"+{wait}ms\n" for wait in (250, 500, 1000, 2500))
    success = commit_with_error(0)
    [finding] = loop_findings(attempts + "+6s\n")
    assert finding.message.startswith(
        "4 of 4 OffsetCommit requests of client 'app' were refused with COORDINATOR_NOT_A"
    )
    assert not loop_findings(attempts + success + "+9s\n")
    assert not loop_findings(attempts + "+3s\n"), "it may pass until then"


def test_lookups_between_refused_attempts_are_not_a_loop() -> None:
    lookup = '> FindCoordinator v3 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n+300ms\n'
    refused_syncs = 3 * (
        '2> SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}\n2< {"error_code": 15}\n+100ms\n'
    )
    second_connection = "open 2 client=10.0.0.101:50009\n"
    assert not findings(second_connection + refused_syncs + 25 * lookup, "S067")
    assert findings(25 * lookup, "S067")


def test_reconnections_after_refusals_are_not_a_storm() -> None:
    visits = "".join(
        f'open {number} client=10.0.0.101:{50_000 + number}\n{number}> Metadata v8 {{"topics": []}}\n{number}< {{}}\n'
        f"{number} close by=client how=fin\n+300ms\n"
        for number in range(2, 14)
    )
    assert findings(visits, "C017")
    assert not findings(commit_with_error(16) + visits, "C017")
