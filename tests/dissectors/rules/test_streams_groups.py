"""What the coordinator of a streams group says in its statuses, and who requested what."""

from __future__ import annotations

import pytest

from tests.kproxy.stories import findings

BEAT = '{number}> StreamsGroupHeartbeat v0 {{"group_id": "g", "member_id": "m{number}", "member_epoch": 1{more}}}'


def beat(number: int, *codes: int, more: str = "") -> str:
    """A heartbeat of a member, whose response has statuses."""
    rows = ", ".join(f'{{"status_code": {code}, "status_detail": "because"}}' for code in codes)
    answer = f'{number}< {{"member_id": "m{number}", "member_epoch": 1, "status": [{rows}]}}'
    return BEAT.format(number=number, more=more) + "\n" + answer


def said(*parts: str) -> list[str]:
    return [each.message for each in findings("\n".join(parts), "G016")]


@pytest.mark.parametrize(
    ("code", "name"),
    [(1, "MISSING_SOURCE_TOPICS"), (2, "INCORRECTLY_PARTITIONED_TOPICS"), (6, "MISSING_CLIENT_TAGS")],
)
def test_a_status_that_does_not_end_by_itself_is_reported_at_once(code: int, name: str) -> None:
    [message] = said(beat(1, code), beat(2, code))
    assert message.startswith(f"streams group 'g' has status {name}: ")
    assert message.endswith('the broker says "because"')


def test_the_instance_that_requested_the_shutdown_is_named() -> None:
    [message] = said(beat(1, more=', "shutdown_application": true'), beat(2, 4))
    assert "; it was client 'app' at 10.0.0.101" in message


def test_a_stale_topology_is_reported_for_each_member_that_keeps_it() -> None:
    parts = [beat(1, 0), beat(2, 0), "+61s", beat(1, 0), beat(2)]
    [message] = said(*parts)
    assert message.startswith("member 'm1' of client 'app'")
    assert "has status STALE_TOPOLOGY for 61 s" in message


def test_a_status_of_the_group_ends_for_all_members() -> None:
    assert said(beat(1, 3), "+10s", beat(2), "+10s", beat(1, 3)) == []


def test_an_unknown_status_is_left_alone() -> None:
    assert said(beat(1, 99)) == []


LOST = """
1> StreamsGroupHeartbeat v0 {"group_id": "words", "member_id": "a", "member_epoch": 0, "active_tasks": []}
1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000,
   "active_tasks": [{"subtopology_id": "0", "partitions": [0]}], "standby_tasks": [], "warmup_tasks": []}
2> StreamsGroupHeartbeat v0 {"group_id": "words", "member_id": "b", "member_epoch": 0, "active_tasks": []}
2< {"member_id": "b", "member_epoch": 1, "heartbeat_interval_ms": 3000,
   "active_tasks": [{"subtopology_id": "0", "partitions": [1, 2]}], "standby_tasks": [], "warmup_tasks": []}
+3s
2 close by=client how=reset
+1s
1> StreamsGroupHeartbeat v0 {"group_id": "words", "member_id": "a", "member_epoch": 1}
1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000TASKS}
+3s
1> StreamsGroupHeartbeat v0 {"group_id": "words", "member_id": "a", "member_epoch": 1}
1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
+3s
"""


def test_the_tasks_of_a_lost_member_are_named() -> None:
    found = findings(LOST.replace("TASKS", ""), "G007")
    assert found[-1].severity == "warning"
    assert "nobody runs task 0_1, 0_2, which no other member has" in found[-1].message


def test_tasks_that_another_member_got_are_not_left_behind() -> None:
    tasks = (
        ', "active_tasks": [{"subtopology_id": "0", "partitions": [0, 1, 2]}], "standby_tasks": [], "warmup_tasks": []'
    )
    assert not [each for each in findings(LOST.replace("TASKS", tasks), "G007") if each.severity == "warning"]
