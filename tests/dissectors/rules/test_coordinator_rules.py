"""S022 and S023: cases that the stories on their pages do not show."""

from __future__ import annotations

from tests.kproxy.stories import findings

FOUND = '> FindCoordinator v2 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n'
DENIED = (
    '> OffsetFetch v8 {"groups": [{"group_id": "g"}]}\n< {"groups": [{"group_id": "g", "error_code": 16}]}\n+500ms\n'
)


def test_denied_coordinator_is_reported_the_fifth_time() -> None:
    assert not findings(4 * (FOUND + DENIED), "S022")
    [finding] = findings(5 * (FOUND + DENIED), "S022")
    assert finding.message == (
        "FindCoordinator names node 1 (kafka-1:9092) as coordinator of group 'g', but 10.0.0.1:9092 answers "
        "OffsetFetch with NOT_COORDINATOR: 5 times in a row"
    )
    assert finding.path == "groups[0].error_code"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 2


def test_loop_of_less_than_two_seconds_is_not_reported() -> None:
    """A broker that has just started denies being the coordinator until it is ready."""
    fast_loop = 19 * (FOUND + DENIED).replace("500ms", "100ms")
    assert not findings(fast_loop, "S022")
    [finding] = findings(2 * fast_loop, "S022")
    assert finding.message.endswith("NOT_COORDINATOR: 21 times in a row")


def test_accepted_request_resets_the_count() -> None:
    other_error = DENIED.replace("16", "25")  # only a coordinator knows who is not a member
    assert not findings(4 * (FOUND + DENIED) + FOUND + other_error + 4 * (FOUND + DENIED), "S022")


def test_client_that_never_looks_up_the_coordinator_is_not_reported() -> None:
    assert not findings(FOUND + 8 * DENIED, "S022")


def test_many_clients_denied_once_each_are_not_reported() -> None:
    story = "".join(
        f"open {number} client=10.0.0.{number}:5000\n"
        + (FOUND + DENIED).replace("> ", f"{number}> ").replace("< ", f"{number}< ")
        for number in range(1, 9)
    )
    assert not findings(story, "S022")


def test_coordinator_of_a_transaction_is_found_in_later_versions() -> None:
    lookup = (
        '> FindCoordinator v4 {"key_type": 1, "coordinator_keys": ["pay"]}\n'
        '< {"coordinators": [{"key": "pay", "node_id": 2, "host": "kafka-2", "port": 9092}]}\n'
    )
    refused = '> EndTxn v3 {"transactional_id": "pay"}\n< {"error_code": 16}\n+500ms\n'
    [finding] = findings(5 * (lookup + refused), "S022")
    assert "coordinator of transactional id 'pay'" in finding.message


def test_time_without_lookups_does_not_count_as_missing_coordinator() -> None:
    missing = '> FindCoordinator v2 {"key": "g"}\n< {"error_code": 15, "node_id": -1}\n'
    assert not findings(missing + "+5m\n" + missing + "+20s\n" + missing, "S023")
    [finding] = findings(missing + "+20s\n" + missing + "+20s\n" + missing, "S023")
    assert finding.path == "error_code"
    assert "group 'g' has had no coordinator for 40 s" in finding.message


def test_heartbeat_errors_count_as_missing_coordinator() -> None:
    missing = '> Heartbeat v3 {"group_id": "g", "member_id": "m"}\n< {"error_code": 15}\n'
    assert findings(missing + "+20s\n" + missing + "+20s\n" + missing, "S023")
