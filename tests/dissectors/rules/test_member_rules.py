"""S019 to S021 and G018: cases that the stories on their pages do not show."""

from __future__ import annotations

import pytest

from tests.kproxy.stories import findings


def join(
    member: str = "m-1",
    *,
    connection: str = "",
    sent_member_id: str = "",
    session_timeout_ms: int = 10_000,
    generation: int = 1,
) -> str:
    return (
        f'{connection}> JoinGroup v5 {{"group_id": "g", "session_timeout_ms": {session_timeout_ms}, '
        f'"member_id": "{sent_member_id}"}}\n'
        f'{connection}< {{"generation_id": {generation}, "member_id": "{member}", "leader": "{member}"}}\n'
    )


def sync_response(member: str = "m-1", code: int = 0) -> str:
    return f'> SyncGroup v3 {{"group_id": "g", "member_id": "{member}"}}\n< {{"error_code": {code}}}\n'


def heartbeat(code: int = 0, generation: int = 1) -> str:
    body = f'{{"group_id": "g", "generation_id": {generation}, "member_id": "m-1"}}'
    return f'> Heartbeat v3 {body}\n< {{"error_code": {code}}}\n'


def commit_response(code: int = 0) -> str:
    return (
        '> OffsetCommit v7 {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m-1", "topics": '
        '[{"name": "t", "partitions": [{}]}]}\n'
        f'< {{"topics": [{{"name": "t", "partitions": [{{"error_code": {code}}}]}}]}}\n'
    )


def test_late_heartbeat_is_a_warning_and_a_missing_one_an_error() -> None:
    setup = join() + sync_response() + heartbeat()
    assert not findings(setup + "+6s\n" + heartbeat() + "+6s\n", "S019")
    [late] = findings(setup + "+8s\n" + heartbeat() + "+6s\n", "S019")
    assert late.severity == "warning"
    assert "for 6.67 s; after 10 s" in late.message
    assert [finding.severity for finding in findings(setup + "+11s\n", "S019")] == ["warning", "error"]


def test_commit_counts_as_a_sign_of_life() -> None:
    assert not findings(join() + sync_response() + 4 * ("+6s\n" + commit_response()), "S019")


@pytest.mark.parametrize(
    "reason",
    [
        "lose > 100\n",  # a heartbeat may have been in there
        heartbeat(25),
        heartbeat(22),
        '> LeaveGroup v2 {"group_id": "g", "member_id": "m-1"}\n',
        "> hex 00 00 00 0c 00 0c 00 03 00 00 00 09 00 00 ff ff\n",  # an undecodable heartbeat
    ],
)
def test_member_silent_for_a_reason_is_not_reported(reason: str) -> None:
    assert findings(join() + sync_response() + "+12s\n", "S019")
    assert not findings(join() + sync_response() + reason + "+12s\n", "S019")


def test_member_without_an_assignment_may_be_silent() -> None:
    assert not findings(join() + "+12s\n", "S019")
    assert not findings(join() + sync_response(code=27) + "+12s\n", "S019")


@pytest.mark.parametrize("session_timeout_ms", [0, -1, -(2**31)])
def test_invalid_session_timeout_is_ignored(session_timeout_ms: int) -> None:
    assert not findings(join(session_timeout_ms=session_timeout_ms) + sync_response() + "+12s\n", "S019")


def test_heartbeat_sent_during_a_rebalance_is_reported_as_information() -> None:
    [crossing] = findings(join(generation=2) + heartbeat(22), "S020")
    assert crossing.severity == "info"
    assert crossing.message.endswith("the ended generation 1; it has since joined generation 2")
    assert [finding.severity for finding in findings(3 * heartbeat(22), "S020")] == ["info", "warning"]


def test_refused_commit_is_a_warning() -> None:
    [finding] = findings(commit_response(22), "S020")
    assert finding.severity == "warning"
    assert finding.path == "topics[0].partitions[0].error_code"


def leave(member: str, connection: str = "") -> str:
    leave_request = f'LeaveGroup v3 {{"group_id": "g", "members": [{{"member_id": "{member}"}}]}}'
    return f"{connection}> {leave_request}\n{connection}< {{}}\n"


def test_restarted_consumers_of_one_process_are_not_flapping() -> None:
    first_joins = "".join(join(f"old-{number}") for number in range(9))
    restarts = "".join(leave(f"old-{number}") + join(f"new-{number}") for number in range(9))
    assert not findings(first_joins + restarts, "S021")


def test_occasional_restarts_are_not_flapping() -> None:
    assert not findings("".join(join(f"m-{number}") + "+20m\n" + leave(f"m-{number}") for number in range(9)), "S021")
    assert not findings("".join(join(f"m-{number}") + leave(f"m-{number}") + "+2m\n" for number in range(9)), "S021")


@pytest.mark.parametrize(
    ("leave_epoch", "pause_s", "is_correct"), [(-1, 3, False), (-2, 3, True), (-1, 50, True), (5, 3, True)]
)
def test_static_member_leaves_temporarily_with_epoch_minus_2(leave_epoch: int, pause_s: int, is_correct: bool) -> None:
    def heartbeat_with(epoch: int, instance: str = "worker-1") -> str:
        body = f'{{"group_id": "g", "member_id": "m", "instance_id": "{instance}", "member_epoch": {epoch}}}'
        return f"> ConsumerGroupHeartbeat v0 {body}\n< {{}}\n"

    assert bool(findings(heartbeat_with(leave_epoch) + f"+{pause_s}s\n" + heartbeat_with(0), "S086")) is not is_correct
    assert not findings(heartbeat_with(leave_epoch) + f"+{pause_s}s\n" + heartbeat_with(0, "worker-2"), "S086")


FETCH = """\
> Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
< {"responses": []}
"""
SECOND_FETCH = f"open 2 client=10.0.0.101:50002 server=10.0.0.2:9092\n2{FETCH.splitlines()[0]}\n"
ASSIGNMENT = (
    '{"type": "ConsumerProtocolAssignment", "version": 0, "data": {"assigned_partitions": '
    '[{"topic": "t", "partitions": [0, 1, 2, 3]}]}}'
)
ASSIGNED = f'> SyncGroup v3 {{"group_id": "g", "member_id": "m-1"}}\n< {{"assignment": {ASSIGNMENT}}}\n'
EPOCH_HEARTBEAT = '> ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m-1", "member_epoch": 3}\n'
TOPIC_ID = "iQ2TY3LnUY29Lbs4b27PzA"
ASSIGNED_WITH_EPOCH = (
    EPOCH_HEARTBEAT + '< {"member_epoch": 3, "assignment": {"topic_partitions": '
    f'[{{"topic_id": "{TOPIC_ID}", "partitions": [0]}}]}}}}\n'
)


def test_member_that_only_sends_heartbeats_is_info() -> None:
    [finding] = findings(f"{FETCH}{ASSIGNED}+31s\n{heartbeat()}", "G018")
    assert finding.severity == "info"
    assert finding.message == (
        "client 'app' at 10.0.0.101 sends heartbeats to group 'g', but has sent no fetch for 31 s: nobody reads "
        "t[0], t[1], t[2] and 1 more, which it is assigned"
    )


def test_member_that_stops_fetching_after_a_refused_commit_is_a_warning() -> None:
    [finding] = findings(f"{FETCH}{ASSIGNED}{commit_response(22)}+31s\n{heartbeat()}", "G018")
    assert finding.severity == "warning"
    assert "for 31 s since its commit was refused with ILLEGAL_GENERATION" in finding.message


def test_member_of_the_new_protocol_stops_fetching() -> None:
    [finding] = findings(f"{FETCH}{ASSIGNED_WITH_EPOCH}+31s\n{EPOCH_HEARTBEAT}< {{}}", "G018")
    assert f"nobody reads {TOPIC_ID}[0], which it is assigned" in finding.message


@pytest.mark.parametrize(
    "story",
    [
        f"{ASSIGNED}+31s\n{heartbeat()}",  # its fetches are perhaps not captured
        f"{FETCH}{ASSIGNED}+29s\n{heartbeat()}",
        f"{FETCH}{ASSIGNED}+31s\n{heartbeat(27)}",  # it has to rejoin
        f"{FETCH}{ASSIGNED}{heartbeat(25)}+31s\n{heartbeat()}",  # it is no member
        f"{FETCH}{ASSIGNED}{join()}+31s\n{heartbeat()}",
        f"{FETCH}{ASSIGNED}+31s\n{SECOND_FETCH}{heartbeat()}",  # a fetch waits on another connection
        f"{FETCH}{ASSIGNED}+20s\n{SECOND_FETCH}2< {{}}\n2 close\n+20s\n{heartbeat()}",
        f"{FETCH}{ASSIGNED_WITH_EPOCH}+31s\n{EPOCH_HEARTBEAT.replace('3}', '-1}')}< {{}}",  # it leaves
    ],
)
def test_member_that_may_be_fetching_is_not_reported(story: str) -> None:
    assert findings(story, "G018") == []
