"""S019 to S021: what the stories on their pages do not show."""

from __future__ import annotations

import pytest

from tests.kproxy.stories import findings


def joined(member: str = "m-1", *, by: str = "", known: str = "", session: int = 10_000, generation: int = 1) -> str:
    return (
        f'{by}> JoinGroup v5 {{"group_id": "g", "session_timeout_ms": {session}, "member_id": "{known}"}}\n'
        f'{by}< {{"generation_id": {generation}, "member_id": "{member}", "leader": "{member}"}}\n'
    )


def synced(member: str = "m-1", code: int = 0) -> str:
    return f'> SyncGroup v3 {{"group_id": "g", "member_id": "{member}"}}\n< {{"error_code": {code}}}\n'


def beat(code: int = 0, generation: int = 1) -> str:
    about = f'{{"group_id": "g", "generation_id": {generation}, "member_id": "m-1"}}'
    return f'> Heartbeat v3 {about}\n< {{"error_code": {code}}}\n'


def committed(code: int = 0) -> str:
    return (
        '> OffsetCommit v7 {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m-1", "topics": '
        '[{"name": "t", "partitions": [{}]}]}\n'
        f'< {{"topics": [{{"name": "t", "partitions": [{{"error_code": {code}}}]}}]}}\n'
    )


def test_a_late_heartbeat_is_a_warning_and_a_missing_one_an_error() -> None:
    begin = joined() + synced() + beat()
    assert not findings(begin + "+6s\n" + beat() + "+6s\n", "S019")
    [late] = findings(begin + "+8s\n" + beat() + "+6s\n", "S019")
    assert late.severity == "warning"
    assert "for 6.67 s; after 10 s" in late.message
    assert [finding.severity for finding in findings(begin + "+11s\n", "S019")] == ["warning", "error"]


def test_a_commit_is_a_sign_of_life() -> None:
    assert not findings(joined() + synced() + 4 * ("+6s\n" + committed()), "S019")


@pytest.mark.parametrize(
    "reason",
    [
        "lose > 100\n",  # a heartbeat may have been in there
        beat(25),
        beat(22),
        '> LeaveGroup v2 {"group_id": "g", "member_id": "m-1"}\n',
        "> hex 00 00 00 0c 00 0c 00 03 00 00 00 09 00 00 ff ff\n",  # a heartbeat that does not read well
    ],
)
def test_silence_for_a_reason(reason: str) -> None:
    assert findings(joined() + synced() + "+12s\n", "S019")
    assert not findings(joined() + synced() + reason + "+12s\n", "S019")


def test_a_member_without_its_assignment_has_nothing_to_keep() -> None:
    assert not findings(joined() + "+12s\n", "S019")
    assert not findings(joined() + synced(code=27) + "+12s\n", "S019")


@pytest.mark.parametrize("session", [0, -1, -(2**31)])
def test_a_session_that_is_none(session: int) -> None:
    assert not findings(joined(session=session) + synced() + "+12s\n", "S019")


def test_a_heartbeat_that_crosses_a_rebalance_is_for_information() -> None:
    [once] = findings(joined(generation=2) + beat(22), "S020")
    assert once.severity == "info"
    assert once.message.endswith("the ended generation 1; it has since joined generation 2")
    assert [finding.severity for finding in findings(3 * beat(22), "S020")] == ["info", "warning"]


def test_a_commit_that_is_lost_is_a_warning() -> None:
    [finding] = findings(committed(22), "S020")
    assert finding.severity == "warning"
    assert finding.path == "topics[0].partitions[0].error_code"


def leaves(member: str, by: str = "") -> str:
    return f'{by}> LeaveGroup v3 {{"group_id": "g", "members": [{{"member_id": "{member}"}}]}}\n{by}< {{}}\n'


def test_many_consumers_of_one_process_that_are_restarted_do_not_flap() -> None:
    first = "".join(joined(f"old-{n}") for n in range(9))
    one_by_one = "".join(leaves(f"old-{n}") + joined(f"new-{n}") for n in range(9))
    assert not findings(first + one_by_one, "S021")


def test_a_restart_now_and_then_is_no_flapping() -> None:
    assert not findings("".join(joined(f"m-{n}") + "+20m\n" + leaves(f"m-{n}") for n in range(9)), "S021")
    assert not findings("".join(joined(f"m-{n}") + leaves(f"m-{n}") + "+2m\n" for n in range(9)), "S021")


@pytest.mark.parametrize(("leaves", "pause", "is_right"), [(-1, 3, False), (-2, 3, True), (-1, 50, True), (5, 3, True)])
def test_a_static_member_leaves_for_a_while(leaves: int, pause: int, is_right: bool) -> None:
    def at(epoch: int, instance: str = "worker-1") -> str:
        asked = f'{{"group_id": "g", "member_id": "m", "instance_id": "{instance}", "member_epoch": {epoch}}}'
        return f"> ConsumerGroupHeartbeat v0 {asked}\n< {{}}\n"

    assert bool(findings(at(leaves) + f"+{pause}s\n" + at(0), "S086")) is not is_right
    assert not findings(at(leaves) + f"+{pause}s\n" + at(0, "worker-2"), "S086")
