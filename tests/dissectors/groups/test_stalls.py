"""Stalls of a whole group: a moved coordinator, a lagging member and findings in its frames."""

from __future__ import annotations

import pytest

from dissectors.groups import GroupStatus, StallKind
from kproxy.trace.lines import FindingEntry
from tests.dissectors.groups.two_members import two_members
from tests.kproxy.browse.group_story import TAIL, GroupStory
from tests.kproxy.browse.sessions import BEGAN


def test_healthy_group_has_no_stalls() -> None:
    story = two_members(until=30)
    story.exchange(15, "a", "OffsetCommit", generation_id=1)
    view = story.view(30)
    assert view.stalls == ()
    assert (view.row.state, view.row.members, view.row.leader) == (GroupStatus.STABLE, 2, "a 5dc891")
    assert (view.row.commits, view.row.commit_at) == (1, BEGAN + 15_001_000_000)


def test_search_for_a_moved_coordinator_is_reported_as_a_stall() -> None:
    story = two_members(until=3)
    for second in range(3, 9):
        story.exchange(second, "a", "Heartbeat", error="NOT_COORDINATOR", generation_id=1)
        story.exchange(second, "b", "FindCoordinator", member=None)
    stall = next(stall for stall in story.stalls(9) if stall.kind is StallKind.COORDINATOR)
    assert "NOT_COORDINATOR from Heartbeat 6 times within 5.0 s" in stall.text
    story.exchange(10, "a", "Heartbeat", generation_id=1, server="b2:9092")
    stalls = [stall for stall in story.stalls(10) if stall.kind is StallKind.COORDINATOR]
    assert [(stall.severity, stall.until) for stall in stalls] == [
        ("warning", BEGAN + 10_001_000_000), ("info", BEGAN + 10_001_000_000),
    ]  # fmt: skip
    assert "is b2:9092, previously b1:9092: members found it 8.0 s after the last response" in stalls[1].text
    assert story.view(10).row.coordinator == "b2:9092"


def test_finding_about_a_moved_coordinator_is_not_a_second_stall() -> None:
    """The stall is of the whole group and names no member, but the finding is in a frame of one."""
    story = two_members(until=3)
    story.exchange(3, "a", "Heartbeat", error="NOT_COORDINATOR", generation_id=1)
    request = story.request(10, "a", "Heartbeat", generation_id=1, server="b2:9092")
    moved = FindingEntry("G014", "no-coordinator", "warning", "group 'g': the group's coordinator is b2:9092", hint="h")
    story.answer(request, 10.1, findings=[moved])
    [stall] = [stall for stall in story.stalls(11) if stall.kind in (StallKind.COORDINATOR, StallKind.FINDING)]
    assert (stall.kind, stall.codes) == (StallKind.COORDINATOR, ("G014",))


def test_two_addresses_of_one_broker_do_not_count_as_a_move() -> None:
    story = two_members()
    story.exchange(10, "a", "Heartbeat", generation_id=1, server="b2:9092")
    assert story.stalls(11) == []


def test_finding_in_a_frame_of_the_group_is_reported_as_a_stall() -> None:
    story = GroupStory()
    finding_entry = FindingEntry("L003", "field-misplaced", "error", "throttle_time_ms stands last\x1b", hint="first")
    join_request = story.request(0, "a", "JoinGroup")
    story.answer(
        join_request, 0.1, generation_id=1, findings=[finding_entry, FindingEntry("K001", "x", "info", "so what")]
    )
    missing, finding_stall = story.stalls(9)
    assert missing.kind is StallKind.SYNC_MISSING
    assert (finding_stall.kind, finding_stall.codes, finding_stall.text, finding_stall.hint) == (
        StallKind.FINDING, ("L003",), "throttle_time_ms stands last\\x1b", "first",
    )  # fmt: skip


def heartbeats_of_a_lagging_member(api: str) -> GroupStory:
    """Return a story of member a, which stays at epoch 1, and member b, which joins with epoch 2."""
    story = GroupStory()
    story.exchange(0, "a", api, generation_id=0, response_generation=1)
    story.exchange(6, "b", api, generation_id=0, response_generation=2)
    for second in range(5, 30, 5):
        story.exchange(second, "a", api, generation_id=1)
        story.exchange(second + 2, "b", api, generation_id=2)
    return story


def test_streams_member_at_an_old_epoch_keeps_tasks() -> None:
    [stall] = heartbeats_of_a_lagging_member("StreamsGroupHeartbeat").stalls(28)
    assert (stall.kind, stall.blamed) == (StallKind.LAGGING, ("a" + TAIL,))
    assert ": tasks that others wait for have not been revoked" in stall.text


def test_share_group_does_not_wait_for_a_member_at_an_old_epoch() -> None:
    assert heartbeats_of_a_lagging_member("ShareGroupHeartbeat").stalls(28) == []


@pytest.mark.parametrize(("is_closed", "kind"), [(False, StallKind.SILENT), (True, StallKind.LOST)])
def test_silent_share_member_at_an_old_epoch_is_reported_as_silent_or_lost(is_closed: bool, kind: StallKind) -> None:
    story = heartbeats_of_a_lagging_member("ShareGroupHeartbeat")
    if is_closed:
        story.close_connection(30, "a")
    for second in range(32, 62, 5):
        story.exchange(second, "b", "ShareGroupHeartbeat", generation_id=2)
    [stall] = story.stalls(60)
    assert (stall.kind, stall.blamed) == (kind, ("a" + TAIL,))
    assert "the broker's group.share.session.timeout.ms" in stall.hint


def test_member_at_an_old_epoch_is_blamed_for_keeping_partitions() -> None:
    story = GroupStory()
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    story.send_epoch_heartbeats(5, 30, "a", 1)
    story.exchange(6, "b", "ConsumerGroupHeartbeat", generation_id=0, response_generation=2)
    story.send_epoch_heartbeats(11, 30, "b", 2)
    [stall] = story.stalls(28)
    assert (stall.kind, stall.waiting, stall.blamed) == (StallKind.LAGGING, ("b" + TAIL,), ("a" + TAIL,))
    assert story.view(28).row.state is GroupStatus.RECONCILING
    story.exchange(30, "a", "ConsumerGroupHeartbeat", generation_id=1, response_generation=2)
    view = story.view(31)
    assert [(stall.kind, stall.until) for stall in view.stalls] == [(StallKind.LAGGING, BEGAN + 30_001_000_000)]
    assert (view.row.state, view.row.rebalances) == (GroupStatus.STABLE, 2)
