"""What the coordinator of a streams group says in its statuses, and who requested what."""

from __future__ import annotations

import pytest

from dissectors import schemas
from tests.kproxy.stories import findings

BEAT = '{number}> StreamsGroupHeartbeat v0 {{"group_id": "g", "member_id": "m{number}", "member_epoch": 1{more}}}'


def beat(number: int, *codes: int, more: str = "") -> str:
    """A heartbeat of a member, whose response has statuses."""
    rows = ", ".join(f'{{"status_code": {code}, "status_detail": "because"}}' for code in codes)
    answer = f'{number}< {{"member_id": "m{number}", "member_epoch": 1, "status": [{rows}]}}'
    return BEAT.format(number=number, more=more) + "\n" + answer


def said(*parts: str) -> list[str]:
    return [finding.message for finding in findings("\n".join(parts), "G016")]


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
    assert not [finding for finding in findings(LOST.replace("TASKS", tasks), "G007") if finding.severity == "warning"]


def asks(required: bool = True) -> str:
    return (
        '> StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1}\n'
        f'< {{"member_id": "m", "member_epoch": 1, "topology_description_required": {str(required).lower()}}}'
    )


def pushes(error: int = 0, epoch: int = 0) -> str:
    return (
        f'> StreamsGroupTopologyDescriptionUpdate v0 {{"group_id": "g", "member_id": "m", "topology_epoch": {epoch}}}\n'
        f'< {{"error_code": {error}, "error_message": "because"}}'
    )


def described(*parts: str) -> list[tuple[str | None, str]]:
    return [(finding.blame, finding.message) for finding in findings("\n".join(parts), "G017")]


def test_a_description_that_the_coordinator_requests_although_it_was_stored_is_the_brokers_fault() -> None:
    [(blame, message)] = described(*(part for _ in range(3) for part in (asks(), pushes(), "+30s")))
    assert blame == "broker"
    assert "again and again: 3 pushes within 60 s succeeded" in message


def test_a_client_that_pushes_without_a_request_is_named() -> None:
    [(blame, message)] = described(asks(), pushes(), *(part for _ in range(2) for part in (asks(False), pushes())))
    assert blame == "client"
    assert message.startswith(
        "client 'app' at 10.0.0.101:50001 has pushed the topology description of streams group 'g'"
    )
    assert message.endswith("2 times without a request of the coordinator")


def test_a_push_that_fails_answers_the_request() -> None:
    assert described(*(part for _ in range(4) for part in (asks(), pushes(135), "+60s"))) == []


def test_each_epoch_of_a_topology_has_its_own_pushes() -> None:
    assert described(*(part for epoch in range(4) for part in (asks(), pushes(epoch=epoch), "+60s"))) == []


def test_each_status_of_kafka_has_a_sentence() -> None:
    for code, name in schemas.enum("streams_group_status").items():
        [message, *_] = said(beat(1, code), "+61s", beat(1, code))
        assert f"has status {name}" in message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (135, "the plugin did not store the description of the topology"),
        (42, "the epoch of the pushed topology is not the group's"),
        (69, "no streams group has this id"),
        (35, "the broker stores no topology descriptions"),
    ],
)
def test_a_refused_push_is_explained(error: int, words: str) -> None:
    found = findings(asks() + "\n" + pushes(error))
    assert [words in finding.message for finding in found] == [True], found


def test_an_acl_that_a_push_lacks_is_read_on_the_group() -> None:
    found = findings("\n".join([asks(), *[pushes(30)] * 4]), "X014")
    assert "is not allowed to READ group 'g': StreamsGroupTopologyDescriptionUpdate" in found[0].message
