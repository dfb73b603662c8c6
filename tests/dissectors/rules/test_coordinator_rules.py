"""S022 and S023: what the stories on their pages do not show."""

from __future__ import annotations

from tests.kproxy.stories import findings

FOUND = '> FindCoordinator v2 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n'
DENIED = '> OffsetFetch v8 {"groups": [{"group_id": "g"}]}\n< {"groups": [{"group_id": "g", "error_code": 16}]}\n'


def test_one_broker_is_all_there_is() -> None:
    assert not findings(4 * (FOUND + DENIED), "S022")
    [finding] = findings(5 * (FOUND + DENIED), "S022")
    assert finding.message == (
        "FindCoordinator names node 1 (kafka-1:9092) as coordinator of group 'g', but 10.0.0.1:9092 answers "
        "OffsetFetch with NOT_COORDINATOR: 5 times in a row"
    )
    assert finding.path == "groups[0].error_code"
    assert finding.span is not None
    assert finding.span[1] - finding.span[0] == 2


def test_it_counts_again_after_an_answer() -> None:
    accepted = DENIED.replace("16", "25")  # only a coordinator knows who is no member
    assert not findings(4 * (FOUND + DENIED) + FOUND + accepted + 4 * (FOUND + DENIED), "S022")


def test_a_client_that_never_asks_again_is_another_fault() -> None:
    assert not findings(FOUND + 8 * DENIED, "S022")


def test_many_clients_that_are_denied_once_each() -> None:
    story = "".join(
        f"open {n} client=10.0.0.{n}:5000\n" + (FOUND + DENIED).replace("> ", f"{n}> ").replace("< ", f"{n}< ")
        for n in range(1, 9)
    )
    assert not findings(story, "S022")


def test_coordinators_of_transactions_by_the_list_of_later_versions() -> None:
    found = (
        '> FindCoordinator v4 {"key_type": 1, "coordinator_keys": ["pay"]}\n'
        '< {"coordinators": [{"key": "pay", "node_id": 2, "host": "kafka-2", "port": 9092}]}\n'
    )
    denied = '> EndTxn v3 {"transactional_id": "pay"}\n< {"error_code": 16}\n'
    [finding] = findings(5 * (found + denied), "S022")
    assert "coordinator of transactional id 'pay'" in finding.message


def test_a_coordinator_is_not_missing_while_nobody_asks() -> None:
    missing = '> FindCoordinator v2 {"key": "g"}\n< {"error_code": 15, "node_id": -1}\n'
    assert not findings(missing + "+5m\n" + missing + "+20s\n" + missing, "S023")
    [finding] = findings(missing + "+20s\n" + missing + "+20s\n" + missing, "S023")
    assert finding.path == "error_code"
    assert "group 'g' has had no coordinator for 40 s" in finding.message


def test_coordinators_themselves_may_say_it() -> None:
    missing = '> Heartbeat v3 {"group_id": "g", "member_id": "m"}\n< {"error_code": 15}\n'
    assert findings(missing + "+20s\n" + missing + "+20s\n" + missing, "S023")
