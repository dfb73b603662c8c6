"""Stalls of members that wait for a rebalance, for an assignment or for the end of a join loop."""

from __future__ import annotations

import pytest

from dissectors.groups import GroupStatus, StallKind
from tests.dissectors.groups.two_members import two_members
from tests.kproxy.browse.group_story import LEADER, TAIL, GroupStory, kinds
from tests.kproxy.browse.sessions import BEGAN, SECOND


@pytest.mark.parametrize(
    ("reason", "description"),
    [
        ("notified", "b 5dc891 (it sends heartbeats, got REBALANCE_IN_PROGRESS 5 times but does not rejoin)"),
        ("silent", "b 5dc891 (silent for 8.0 s)"),
        ("killed", "b 5dc891 (its connection was closed by the client 6.8 s earlier, without LeaveGroup)"),
        ("quiet", "b 5dc891 (has not rejoined yet)"),
    ],
)
def test_stall_of_a_waiting_join_names_the_missing_member_and_the_reason(reason: str, description: str) -> None:
    story = two_members(until=10 if reason != "quiet" else 2)
    if reason == "killed":
        story.close_connection(10.2, "b")
    story.request(11, "a", "JoinGroup")
    if reason == "notified":
        story.send_heartbeats(11.5, 16, "b", error="REBALANCE_IN_PROGRESS")
    at, blamed, waiting = 17, ("b" + TAIL,), ("a" + TAIL,)
    [stall] = story.stalls(at)
    assert (stall.kind, stall.waiting, stall.blamed, stall.until) == (StallKind.JOIN_WAITS, waiting, blamed, None)
    assert stall.since == BEGAN + 11 * SECOND
    assert stall.text.endswith("; missing: " + description)
    assert story.view(at).row.state is GroupStatus.PREPARING


def test_join_waits_for_an_unused_member_id() -> None:
    story = GroupStory()
    story.join(0, "a")
    story.exchange(1, "z", "JoinGroup", member=None, error="MEMBER_ID_REQUIRED")
    story.request(2, "a", "JoinGroup")
    [stall] = story.stalls(10)
    assert (stall.kind, stall.blamed) == (StallKind.JOIN_WAITS, ())
    assert "the member id that z got 9.0 s earlier" in stall.text
    assert "it must join with it" in stall.hint


def test_join_may_wait_without_a_visible_missing_member() -> None:
    story = GroupStory()
    story.request(0, "a", "JoinGroup")
    [stall] = story.stalls(10)
    assert "no member visible here is missing" in stall.text
    assert "group.initial.rebalance.delay.ms" in stall.hint


def test_join_answered_within_seconds_is_not_a_stall() -> None:
    story = two_members(until=16)
    join_request = story.request(10, "c", "JoinGroup")
    assert kinds(story.stalls(14)) == []
    story.answer(join_request, 14, generation_id=2)
    assert kinds(story.stalls(15)) == []


def test_join_left_unanswered_when_the_others_are_answered_is_a_stall() -> None:
    story = two_members()
    story.request(10, "c", "JoinGroup")
    story.join(12, "a", "b", generation=2)
    story.send_heartbeats(13, 20, "a", "b", generation=2)
    [stall] = story.stalls(20)
    assert (stall.kind, stall.waiting) == (StallKind.JOIN_UNANSWERED, ("c" + TAIL,))
    assert "got generation 2" in stall.text


def test_leader_without_an_assignment_is_blamed_for_waiting_members() -> None:
    story = GroupStory()
    leader_join, follower_join = (story.request(0, client, "JoinGroup") for client in "ab")
    story.answer(leader_join, 0.1, generation_id=1, size=LEADER)
    story.answer(follower_join, 0.1, generation_id=1)
    sync_request = story.request(0.2, "b", "SyncGroup", generation_id=1)
    [stall] = story.stalls(8)
    assert (stall.kind, stall.waiting, stall.blamed) == (StallKind.SYNC_MISSING, ("b" + TAIL,), ("a" + TAIL,))
    assert "it is the leader" in stall.text
    view = story.view(8)
    assert (view.row.state, view.row.generation, view.row.leader) == (GroupStatus.COMPLETING, 1, "a 5dc891")
    story.sync(12, "a")
    unanswered_sync, ended_stall = story.stalls(15)
    assert (unanswered_sync.kind, unanswered_sync.waiting) == (StallKind.SYNC_WAITS, ("b" + TAIL,))
    assert "a 5dc891 has been answered 3.0 s earlier" in unanswered_sync.text
    assert (ended_stall.kind, ended_stall.since, ended_stall.until) == (stall.kind, stall.since, BEGAN + 12 * SECOND)
    story.answer(sync_request, 12.002)
    assert kinds(story.stalls(15)) == ["sync-missing"]


def test_stall_of_a_missing_sync_has_the_code_of_its_rule() -> None:
    story = GroupStory()
    story.answer(story.request(0, "a", "JoinGroup"), 0.1, generation_id=1)
    story.add_finding(60, "a", "S013", "member 'a' joined group 'billing' but sent no SyncGroup within 60 s")
    [stall] = story.stalls(61)
    assert (stall.kind, stall.codes, stall.severity) == (StallKind.SYNC_MISSING, ("S013",), "error")
    assert "a 5dc891 has sent no SyncGroup for 60.9 s after the JoinGroup response (generation 1)" in stall.text


def test_sync_waits_for_an_invisible_leader() -> None:
    story = GroupStory()
    story.answer(story.request(0, "b", "JoinGroup"), 0.1, generation_id=1)
    sync_request = story.request(0.2, "b", "SyncGroup", generation_id=1)
    [stall] = story.stalls(8)
    assert (stall.kind, stall.waiting, stall.blamed) == (StallKind.SYNC_WAITS, ("b" + TAIL,), ())
    assert "the leader, which is not visible here, has not sent the assignment" in stall.text
    story.answer(sync_request, 20)
    [ended_stall] = story.stalls(21)
    assert (ended_stall.kind, ended_stall.until) == (StallKind.SYNC_WAITS, BEGAN + 20 * SECOND)


def test_coordinator_that_withholds_the_assignment_is_blamed() -> None:
    story = GroupStory()
    story.answer(story.request(0, "a", "JoinGroup"), 0.1, generation_id=1, size=LEADER)
    story.request(0.2, "a", "SyncGroup", generation_id=1, size=LEADER)
    [stall] = story.stalls(8)
    assert stall.kind is StallKind.SYNC_WAITS
    assert "has sent the assignment, but the coordinator does not respond" in stall.text


def test_member_that_ignores_a_rebalance_is_blamed_although_no_join_is_pending() -> None:
    story = two_members(until=5)
    story.send_heartbeats(5, 20, "b", error="REBALANCE_IN_PROGRESS")
    stall, not_rejoining = story.stalls(20)
    assert (stall.kind, stall.blamed) == (StallKind.SILENT, ("a" + TAIL,))
    assert (not_rejoining.kind, not_rejoining.blamed) == (StallKind.NOT_REJOINING, ("b" + TAIL,))
    assert "got REBALANCE_IN_PROGRESS 15 times within 14.0 s" in not_rejoining.text
    story.join(21, "a", "b", generation=2)
    assert kinds(story.stalls(22)) == ["not-rejoining", "heartbeats-stopped"]


def test_rebalance_whose_end_was_missed_is_over() -> None:
    story = two_members()
    story.request(10, "a", "JoinGroup")
    story.request(10, "b", "JoinGroup")
    story.add_gap(11, None)
    story.send_heartbeats(12, 40, "a", "b", generation=2)
    view = story.view(40)
    assert (view.stalls, view.row.state, view.row.members) == ((), GroupStatus.STABLE, 2)


def test_member_that_keeps_joining_is_in_a_join_loop() -> None:
    story = GroupStory()
    for second in range(5):
        story.answer(story.request(second, "a", "JoinGroup"), second + 0.1, generation_id=second + 1)
        story.exchange(second + 0.2, "a", "SyncGroup", error="REBALANCE_IN_PROGRESS", generation_id=second + 1)
    [stall] = story.stalls(5)
    assert (stall.kind, stall.since, stall.until) == (StallKind.JOIN_LOOP, BEGAN, None)
    assert "has joined 5 times within 4.2 s without getting an assignment" in stall.text
    story.join(6, "a", generation=6)
    [ended_stall] = story.stalls(7)
    assert (ended_stall.kind, ended_stall.since, ended_stall.until) == (
        StallKind.JOIN_LOOP,
        BEGAN,
        BEGAN + 6_003_000_000,
    )


def test_client_with_a_new_member_id_for_each_join_is_in_a_join_loop() -> None:
    story = GroupStory()
    for number in range(5):
        join_request = story.request(number, "a", "JoinGroup", member=None)
        story.answer(join_request, number + 0.1, generation_id=number + 1, member_id=f"a-{number}")
    [stall] = story.stalls(4.5)
    assert (stall.kind, stall.waiting) == (StallKind.JOIN_LOOP, ("a-4",))


def test_pipelined_rebalance_errors_count_once() -> None:
    story = two_members(until=5)
    for number in range(4):
        story.exchange(5 + number / 1000, "a", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    story.join(5.1, "a", "b", generation=2)
    assert story.stalls(6) == []
