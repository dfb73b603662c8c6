"""Stalls of members that send no heartbeats or get no responses, and excuses for missing heartbeats."""

from __future__ import annotations

import pytest

from dissectors.groups import MembershipState, StallKind
from dissectors.groups.model import GroupHistory, Lane
from dissectors.groups.stalls.members import exceeded_silence_limit
from tests.dissectors.groups.two_members import two_members
from tests.kproxy.browse.group_story import TAIL, GroupStory, kinds
from tests.kproxy.browse.sample_overviews import open_line
from tests.kproxy.browse.sessions import BEGAN, SECOND


def test_stall_ends_when_heartbeats_resume() -> None:
    story = two_members(until=10)
    story.send_heartbeats(10, 30, "b")
    [stall] = story.stalls(20)
    assert (stall.kind, stall.blamed, stall.until) == (StallKind.SILENT, ("a" + TAIL,), None)
    assert "has sent nothing for 11.0 s, after a heartbeat every 1.0 s" in stall.text
    story.send_heartbeats(21, 30, "a")
    [ended_stall] = story.stalls(30)
    assert (ended_stall.since, ended_stall.until) == (BEGAN + 9 * SECOND, BEGAN + 21 * SECOND)


def test_unanswered_heartbeat_is_blamed_on_the_coordinator() -> None:
    story = two_members()
    heartbeat = story.request(11, "a", "Heartbeat", generation_id=1)
    story.send_heartbeats(11, 20, "b")
    [stall] = story.stalls(20)
    assert (stall.kind, stall.waiting) == (StallKind.UNANSWERED, ("a" + TAIL,))
    story.answer(heartbeat, 21)
    story.send_heartbeats(22, 30, "a", "b")
    [ended_stall] = story.stalls(30)
    assert (ended_stall.kind, ended_stall.until) == (StallKind.UNANSWERED, BEGAN + 21 * SECOND)


@pytest.mark.parametrize("event", ["close_connection", "add_gap"])
def test_ended_or_unobserved_connection_has_no_waiting_request(event: str) -> None:
    story = GroupStory()
    story.join(0, "a")
    story.request(1, "b", "OffsetCommit", member="a" + TAIL, generation_id=1)  # the same member on another connection
    getattr(story, event)(2, "b")
    story.send_heartbeats(3, 20, "a")
    assert story.stalls(20) == []


def test_missed_lines_excuse_missing_heartbeats() -> None:
    story = two_members()
    story.request(10, "a", "Heartbeat", generation_id=1)
    story.add_gap(11, "a")
    story.send_heartbeats(11, 40, "b")
    assert story.stalls(40) == []


def test_missed_lines_of_all_connections_excuse_silence() -> None:
    story = two_members()
    story.add_gap(30, None)
    story.send_heartbeats(31, 40, "a", "b")
    assert story.stalls(40) == []


def test_connection_with_a_reused_id_has_ended() -> None:
    story = two_members()
    story.request(10, "a", "Heartbeat", generation_id=1)
    story.lines.append(open_line("n-a", at=BEGAN + 20 * SECOND))
    story.exchange(21, "a", "OffsetFetch", member=None)
    story.send_heartbeats(10, 40, "b")
    view = story.view(40)
    assert view.stalls == ()
    assert [lane.member.member_id for lane in view.lanes] == ["a" + TAIL, "b" + TAIL, ""]


def test_burst_of_first_heartbeats_does_not_set_the_interval() -> None:
    """With KIP-848, a member reports revoked and assigned partitions in immediate heartbeats."""
    story = GroupStory()
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    for number in range(5):
        story.exchange(number / 10, "a", "ConsumerGroupHeartbeat", generation_id=1)
    story.send_epoch_heartbeats(5.4, 20, "a", 1)
    assert (story.stalls(5.3), story.stalls(20)) == ([], [])
    assert kinds(story.stalls(36)) == ["heartbeats-stopped"]


def test_member_without_a_heartbeat_since_its_assignment_is_not_silent() -> None:
    """Heartbeats from the previous generation are forgotten when the member rejoins."""
    lane = Lane("m", "m", "c", "", "", 0, 0, state=MembershipState.MEMBER, heartbeat_gaps=[SECOND] * 3)
    group = GroupHistory("g", 0, 0)
    assert exceeded_silence_limit(group, lane, 1_000 * SECOND) is None
    lane.heartbeat_at = SECOND
    assert exceeded_silence_limit(group, lane, 1_000 * SECOND) == 10 * SECOND
