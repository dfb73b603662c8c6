"""Members that are lost, and members that left, reconnected or may have done so."""

from __future__ import annotations

import pytest

from dissectors.groups import GroupStatus, MembershipState, StallKind
from tests.dissectors.groups.two_members import two_members
from tests.kproxy.browse.group_story import TAIL
from tests.kproxy.browse.sample_overviews import make_gap
from tests.kproxy.browse.sessions import BEGAN, SECOND


def test_member_that_disconnects_without_leaving_is_lost() -> None:
    story = two_members()
    story.close_connection(10, "a")
    story.send_heartbeats(10, 30, "b")
    [stall] = story.stalls(30)
    assert (stall.kind, stall.blamed, stall.severity) == (StallKind.LOST, ("a" + TAIL,), "warning")
    story.join(31, "b", generation=2)
    [ended_stall] = story.stalls(35)
    assert (ended_stall.kind, ended_stall.since, ended_stall.until) == (
        StallKind.LOST,
        BEGAN + 10 * SECOND,
        BEGAN + 31_001_000_000,
    )
    assert {lane.member.state for lane in story.view(35).lanes} == {MembershipState.MEMBER, MembershipState.OUT}


def test_members_are_not_lost_at_the_end_of_a_capture() -> None:
    story = two_members()
    for client in "ab":
        story.close_connection(10, client, by=None)
    view = story.view(60)
    assert (view.stalls, view.row.state) == ((), GroupStatus.STABLE)


def test_member_that_leaves_is_not_missing() -> None:
    story = two_members()
    story.exchange(10, "a", "LeaveGroup", member=None)
    story.close_connection(10.5, "a")
    story.join(11, "b", generation=2)
    story.exchange(12, "b", "LeaveGroup", member=None)
    view = story.view(13)
    assert (view.stalls, view.row.state, view.row.members) == ((), GroupStatus.EMPTY, 0)


def test_member_that_reconnects_is_not_lost() -> None:
    """The member's coordinator was restarted. Found with real traffic."""
    story = two_members()
    story.close_connection(10.2, "b")
    story.send_heartbeats(11, 13, "a")
    story.request(13.5, "b", "Heartbeat", generation_id=1)
    assert not [stall for stall in story.stalls(13.6) if stall.kind is StallKind.LOST]


@pytest.mark.parametrize(
    ("connection_id", "gap_at", "is_lost"),
    [("other", 12, False), ("", 12, False), ("other", 9, True), ("n-b", 12, True)],
)
def test_member_may_have_reconnected_on_an_uninspected_connection(
    connection_id: str, gap_at: int, is_lost: bool
) -> None:
    """The inspector was behind when the coordinator was restarted. Found with real traffic."""
    story = two_members()
    if gap_at < 10:
        story.lines.append(make_gap(connection_id, at=BEGAN + gap_at * SECOND))
    story.close_connection(10, "a")
    if gap_at > 10:
        story.lines.append(make_gap(connection_id, at=BEGAN + gap_at * SECOND))
    story.send_heartbeats(13, 30, "b")
    assert any(stall.kind is StallKind.LOST for stall in story.stalls(30)) is is_lost


def test_members_have_time_to_find_a_moved_coordinator() -> None:
    """Found with services whose brokers restarted on a busy machine."""
    story = two_members()
    story.close_connection(10, "a")
    story.close_connection(10, "b")
    for second in range(13, 60):
        story.exchange(second, "a", "Heartbeat", generation_id=1, server="b2:9092")
    lost_stalls = {
        now: [stall for stall in story.stalls(now) if stall.kind is StallKind.LOST] for now in (20, 27, 29, 55, 59)
    }
    assert {now: len(stalls) for now, stalls in lost_stalls.items()} == {20: 0, 27: 0, 29: 1, 55: 1, 59: 0}


def test_client_with_a_new_member_id_after_a_refusal_is_not_lost() -> None:
    for error, lost_count in ("REBALANCE_IN_PROGRESS", 0), ("", 1):
        story = two_members()
        story.exchange(10, "a", "SyncGroup", **({"error": error} if error else {}), generation_id=1)
        story.answer(story.request(11, "a", "JoinGroup", member=None), 11.1, generation_id=1, member_id="a-2")
        for second in range(11, 20):
            story.exchange(second, "b", "Heartbeat", generation_id=1)
        lost_stalls = [stall for stall in story.stalls(20) if stall.kind is StallKind.LOST]
        assert len(lost_stalls) == lost_count
