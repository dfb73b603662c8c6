"""Statuses that the coordinator of a streams group sends, and topology descriptions that it requests."""

from __future__ import annotations

import pytest

from dissectors import schemas
from tests.kproxy.stories import findings

HEARTBEAT = '{number}> StreamsGroupHeartbeat v0 {{"group_id": "g", "member_id": "m{number}", "member_epoch": 1{more}}}'


def heartbeat(number: int, *codes: int, more: str = "") -> str:
    """Return a heartbeat of a member and its response with these statuses."""
    statuses = ", ".join(f'{{"status_code": {code}, "status_detail": "because"}}' for code in codes)
    response = f'{number}< {{"member_id": "m{number}", "member_epoch": 1, "status": [{statuses}]}}'
    return HEARTBEAT.format(number=number, more=more) + "\n" + response


def status_messages(*parts: str) -> list[str]:
    return [finding.message for finding in findings("\n".join(parts), "G016")]


@pytest.mark.parametrize(
    ("code", "name"),
    [(1, "MISSING_SOURCE_TOPICS"), (2, "INCORRECTLY_PARTITIONED_TOPICS"), (6, "MISSING_CLIENT_TAGS")],
)
def test_permanent_status_is_reported_at_once(code: int, name: str) -> None:
    [message] = status_messages(heartbeat(1, code), heartbeat(2, code))
    assert message.startswith(f"streams group 'g' has status {name}: ")
    assert message.endswith('the broker says "because"')


def test_member_that_requested_the_shutdown_is_named() -> None:
    [message] = status_messages(heartbeat(1, more=', "shutdown_application": true'), heartbeat(2, 4))
    assert "; it was client 'app' at 10.0.0.101" in message


def test_member_that_keeps_a_stale_topology_is_reported() -> None:
    parts = [heartbeat(1, 0), heartbeat(2, 0), "+61s", heartbeat(1, 0), heartbeat(2)]
    [message] = status_messages(*parts)
    assert message.startswith("member 'm1' of client 'app'")
    assert "has status STALE_TOPOLOGY for 61 s" in message


def test_status_that_ended_for_one_member_ended_for_all() -> None:
    assert status_messages(heartbeat(1, 3), "+10s", heartbeat(2), "+10s", heartbeat(1, 3)) == []


def test_unknown_status_is_ignored() -> None:
    assert status_messages(heartbeat(1, 99)) == []


LOST_MEMBER = """
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


def test_tasks_of_a_lost_member_are_named() -> None:
    reported = findings(LOST_MEMBER.replace("TASKS", ""), "G007")
    assert reported[-1].severity == "warning"
    assert "nobody runs task 0_1, 0_2, which no other member has" in reported[-1].message


def test_reassigned_tasks_of_a_lost_member_are_not_a_warning() -> None:
    tasks = (
        ', "active_tasks": [{"subtopology_id": "0", "partitions": [0, 1, 2]}], "standby_tasks": [], "warmup_tasks": []'
    )
    assert not [
        finding for finding in findings(LOST_MEMBER.replace("TASKS", tasks), "G007") if finding.severity == "warning"
    ]


def heartbeat_with_description_request(is_required: bool = True) -> str:
    return (
        '> StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1}\n'
        f'< {{"member_id": "m", "member_epoch": 1, "topology_description_required": {str(is_required).lower()}}}'
    )


def push_description(error: int = 0, epoch: int = 0) -> str:
    return (
        f'> StreamsGroupTopologyDescriptionUpdate v0 {{"group_id": "g", "member_id": "m", "topology_epoch": {epoch}}}\n'
        f'< {{"error_code": {error}, "error_message": "because"}}'
    )


def description_findings(*parts: str) -> list[tuple[str | None, str]]:
    return [(finding.blame, finding.message) for finding in findings("\n".join(parts), "G017")]


def test_repeated_request_for_a_stored_description_blames_the_broker() -> None:
    [(blame, message)] = description_findings(
        *(part for _ in range(3) for part in (heartbeat_with_description_request(), push_description(), "+30s"))
    )
    assert blame == "broker"
    assert "again and again: 3 pushes within 60 s succeeded" in message


def test_client_that_pushes_without_a_request_is_reported() -> None:
    [(blame, message)] = description_findings(
        heartbeat_with_description_request(),
        push_description(),
        *(part for _ in range(2) for part in (heartbeat_with_description_request(False), push_description())),
    )
    assert blame == "client"
    assert message.startswith(
        "client 'app' at 10.0.0.101:50001 has pushed the topology description of streams group 'g'"
    )
    assert message.endswith("2 times without a request of the coordinator")


def test_failed_push_counts_as_an_answer_to_the_request() -> None:
    assert (
        description_findings(
            *(part for _ in range(4) for part in (heartbeat_with_description_request(), push_description(135), "+60s"))
        )
        == []
    )


def test_pushes_are_counted_per_topology_epoch() -> None:
    assert (
        description_findings(
            *(
                part
                for epoch in range(4)
                for part in (heartbeat_with_description_request(), push_description(epoch=epoch), "+60s")
            )
        )
        == []
    )


def test_each_status_of_kafka_has_a_message() -> None:
    for code, name in schemas.enum("streams_group_status").items():
        [message, *_] = status_messages(heartbeat(1, code), "+61s", heartbeat(1, code))
        assert f"has status {name}" in message


@pytest.mark.parametrize(
    ("error", "explanation"),
    [
        (135, "the plugin did not store the description of the topology"),
        (42, "the epoch of the pushed topology is not the group's"),
        (69, "no streams group has this id"),
        (35, "the broker stores no topology descriptions"),
    ],
)
def test_refused_push_is_explained(error: int, explanation: str) -> None:
    reported = findings(heartbeat_with_description_request() + "\n" + push_description(error))
    assert [explanation in finding.message for finding in reported] == [True], reported


def test_denied_push_needs_read_access_to_the_group() -> None:
    reported = findings("\n".join([heartbeat_with_description_request(), *[push_description(30)] * 4]), "X014")
    assert "is not allowed to READ group 'g': StreamsGroupTopologyDescriptionUpdate" in reported[0].message
