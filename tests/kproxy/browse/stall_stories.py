"""Stories of consumer groups: one for each kind of stall, and some that only look like a stall."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dissectors.groups import StallKind
from kproxy.browse.rows.index import time_of
from kproxy.groups import GroupsOverview, GroupView
from kproxy.inspection.stall_lines import StallLines
from kproxy.trace.lines import CloseLine, GapLine, Line, RequestLine, ResponseLine, StallLine
from tests.kproxy.browse.group_story import LEADER, GroupStory
from tests.kproxy.browse.sample_overviews import feed

#: A stall: kind, start and end (us; None: ongoing), waiting members, blamed members, and the sentence.
DetectedStall = tuple[str, int, int | None, frozenset[str], frozenset[str], str]

CASES: dict[str, tuple[Callable[[GroupStory], None], float]] = {}


def case(now: float) -> Callable[[Callable[[GroupStory], None]], Callable[[GroupStory], None]]:
    """Return a decorator that registers the story of a group whose trace ends at `now` (s)."""

    def register(build: Callable[[GroupStory], None]) -> Callable[[GroupStory], None]:
        CASES[build.__name__] = build, now
        return build

    return register


def start_two_members(story: GroupStory, until: float = 10) -> None:
    story.join(0, "a", "b")
    story.send_heartbeats(1, until, "a", "b")


@case(30)
def healthy_group(story: GroupStory) -> None:
    start_two_members(story, 30)
    story.exchange(15, "a", "OffsetCommit", generation_id=1)


@case(40)
def member_ignores_the_rebalance(story: GroupStory) -> None:
    start_two_members(story)
    waiting_join = story.request(11, "a", "JoinGroup")
    story.send_heartbeats(11.5, 30, "b", error="REBALANCE_IN_PROGRESS")
    late_join = story.request(30, "b", "JoinGroup")
    for join in (waiting_join, late_join):
        story.answer(join, 30.1, generation_id=2)
    story.sync(30.2, "a", "b", generation=2)
    story.send_heartbeats(31, 40, "a", "b", generation=2)


@case(17)
def member_is_silent_during_a_join(story: GroupStory) -> None:
    start_two_members(story)
    story.request(11, "a", "JoinGroup")


@case(30)
def member_is_killed_during_a_join(story: GroupStory) -> None:
    start_two_members(story)
    story.close_connection(10.2, "b")
    story.answer(story.request(11, "a", "JoinGroup"), 21, generation_id=2)
    story.sync(21.1, "a", generation=2)
    story.send_heartbeats(22, 30, "a", generation=2)


@case(10)
def first_member_joins(story: GroupStory) -> None:
    story.request(0, "a", "JoinGroup")


@case(16)
def join_is_answered_soon(story: GroupStory) -> None:
    start_two_members(story, 10)
    first_join = story.request(10, "c", "JoinGroup")
    other_joins = [story.request(11, member, "JoinGroup") for member in "ab"]
    for join in (first_join, *other_joins):
        story.answer(join, 14.9, generation_id=2)
    story.sync(15, "a", "b", "c", generation=2)


@case(20)
def member_is_left_out(story: GroupStory) -> None:
    start_two_members(story)
    story.request(10, "c", "JoinGroup")
    story.join(12, "a", "b", generation=2)
    story.send_heartbeats(13, 20, "a", "b", generation=2)


@case(16)
def leader_does_not_sync(story: GroupStory) -> None:
    a, b = (story.request(0, member, "JoinGroup") for member in "ab")
    story.answer(a, 0.1, generation_id=1, size=LEADER)
    story.answer(b, 0.1, generation_id=1)
    sync = story.request(0.2, "b", "SyncGroup", generation_id=1)
    story.sync(12, "a")
    story.answer(sync, 12.002)
    story.send_heartbeats(13, 16, "a", "b")


@case(61)
def member_does_not_sync(story: GroupStory) -> None:
    story.answer(story.request(0, "a", "JoinGroup"), 0.1, generation_id=1)


@case(21)
def leader_is_not_seen(story: GroupStory) -> None:
    story.answer(story.request(0, "b", "JoinGroup"), 0.1, generation_id=1)
    story.answer(story.request(0.2, "b", "SyncGroup", generation_id=1), 20)


@case(8)
def coordinator_keeps_the_assignment(story: GroupStory) -> None:
    story.answer(story.request(0, "a", "JoinGroup"), 0.1, generation_id=1, size=LEADER)
    story.request(0.2, "a", "SyncGroup", generation_id=1, size=LEADER)


@case(22)
def rebalance_without_a_waiting_member(story: GroupStory) -> None:
    start_two_members(story, 5)
    story.send_heartbeats(5, 20, "a")
    story.send_heartbeats(5, 20, "b", error="REBALANCE_IN_PROGRESS")
    story.join(21, "a", "b", generation=2)


@case(30)
def heartbeats_stop_and_come_back(story: GroupStory) -> None:
    start_two_members(story)
    story.send_heartbeats(10, 30, "b")
    story.send_heartbeats(21, 30, "a")


@case(30)
def heartbeat_is_answered_late(story: GroupStory) -> None:
    start_two_members(story)
    heartbeat = story.request(11, "a", "Heartbeat", generation_id=1)
    story.send_heartbeats(11, 21, "b")
    story.answer(heartbeat, 21)
    story.send_heartbeats(22, 30, "a", "b")


@case(40)
def bytes_are_missing(story: GroupStory) -> None:
    start_two_members(story)
    story.request(10, "a", "Heartbeat", generation_id=1)
    story.add_gap(11, "a")
    story.send_heartbeats(11, 40, "b")


@case(35)
def member_is_lost(story: GroupStory) -> None:
    start_two_members(story)
    story.close_connection(10, "a")
    story.send_heartbeats(10, 30, "b")
    story.join(31, "b", generation=2)
    story.send_heartbeats(32, 35, "b", generation=2)


@case(60)
def observation_ends(story: GroupStory) -> None:
    start_two_members(story)
    for member in "ab":
        story.close_connection(10, member, by=None)


@case(13)
def member_leaves(story: GroupStory) -> None:
    start_two_members(story)
    story.exchange(10, "a", "LeaveGroup", member=None)
    story.close_connection(10.5, "a")
    story.join(11, "b", generation=2)
    story.exchange(12, "b", "LeaveGroup", member=None)


@case(8)
def member_joins_endlessly(story: GroupStory) -> None:
    for second in range(5):
        story.answer(story.request(second, "a", "JoinGroup"), second + 0.1, generation_id=second + 1)
        story.exchange(second + 0.2, "a", "SyncGroup", error="REBALANCE_IN_PROGRESS", generation_id=second + 1)
    story.join(6, "a", generation=6)


@case(6)
def three_joins_are_not_endless(story: GroupStory) -> None:
    for second in range(3):
        story.answer(story.request(second, "a", "JoinGroup"), second + 0.1, generation_id=second + 1)
    story.sync(4, "a", generation=3)


@case(12)
def rejected_member_rejoins(story: GroupStory) -> None:
    start_two_members(story, 3)
    for second in range(3, 7):
        story.exchange(second, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=1)
    story.join(8, "a", generation=2)


@case(12)
def single_rejection_is_normal(story: GroupStory) -> None:
    start_two_members(story, 12)
    story.exchange(11.5, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=0)


@case(6)
def commit_is_rejected_then_accepted(story: GroupStory) -> None:
    start_two_members(story, 6)
    story.exchange(3, "a", "OffsetCommit", error="ILLEGAL_GENERATION", generation_id=0)
    story.exchange(4, "a", "OffsetCommit", generation_id=1)


@case(7)
def fenced_member_rejoins(story: GroupStory) -> None:
    story.exchange(0, "a", "ShareGroupHeartbeat", generation_id=0, response_generation=1)
    story.exchange(5, "a", "ShareGroupHeartbeat", generation_id=1, error="FENCED_MEMBER_EPOCH")
    story.exchange(6, "a", "ShareGroupHeartbeat", generation_id=0, response_generation=2)


@case(31)
def epoch_stays_behind(story: GroupStory) -> None:
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    story.send_epoch_heartbeats(5, 30, "a", 1)
    story.exchange(6, "b", "ConsumerGroupHeartbeat", generation_id=0, response_generation=2)
    story.send_epoch_heartbeats(11, 30, "b", 2)
    story.exchange(30, "a", "ConsumerGroupHeartbeat", generation_id=1, response_generation=2)


@case(20)
def epoch_is_reached_in_time(story: GroupStory) -> None:
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    story.send_epoch_heartbeats(5, 14, "a", 1)
    story.exchange(6, "b", "ConsumerGroupHeartbeat", generation_id=0, response_generation=2)
    story.send_epoch_heartbeats(11, 20, "b", 2)
    story.exchange(15, "a", "ConsumerGroupHeartbeat", generation_id=1, response_generation=2)


@case(36)
def heartbeats_start_in_a_burst_and_stop(story: GroupStory) -> None:
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    for number in range(5):
        story.exchange(number / 10, "a", "ConsumerGroupHeartbeat", generation_id=1)
    story.send_epoch_heartbeats(5.4, 20, "a", 1)


@case(6)
def heartbeats_in_flight_fail_at_once(story: GroupStory) -> None:
    start_two_members(story, 5)
    for number in range(4):
        story.exchange(5 + number / 1000, "a", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    story.join(5.1, "a", "b", generation=2)


@case(12)
def coordinator_has_moved(story: GroupStory) -> None:
    start_two_members(story, 3)
    for second in range(3, 9):
        story.exchange(second, "a", "Heartbeat", error="NOT_COORDINATOR", generation_id=1)
    story.send_heartbeats(9, 12, "a", "b")


def recorded_stalls(lines: Iterable[Line], now: int) -> list[StallLine]:
    """Return the stall lines, in order of time, that inspection would add to these lines up to `now` (ns)."""
    return [line for line in recorded_with_findings(lines, now) if isinstance(line, StallLine)]


def recorded_with_findings(lines: Iterable[Line], now: int) -> list[Line]:
    """Return the stall lines and the lines of their findings."""
    stalls = StallLines()
    recorded_lines: list[Line] = []
    for line in lines:
        at = time_of(line.ts)
        recorded_lines += _tick_until(stalls, at)
        is_frame = isinstance(line, RequestLine | ResponseLine) and line.group_id is not None
        if is_frame or isinstance(line, GapLine | CloseLine):
            recorded_lines += stalls.observe(line, at=at)
    return [*recorded_lines, *_tick_until(stalls, now), *stalls.tick(at=now), *stalls.end(at=now)]


def _tick_until(stalls: StallLines, until: int) -> Iterable[Line]:
    at = stalls.due or until
    while at <= until:
        yield from stalls.tick(at=at)
        at = stalls.due


def detect_stalls(lines: Iterable[Line], group: str, now: int) -> list[DetectedStall]:
    """Return the stalls of a group up to `now` (ns)."""
    view = feed(GroupsOverview(), lines).view(group, now)
    assert view is not None
    return stalls_of_view(view)


def stalls_of_view(view: GroupView) -> list[DetectedStall]:
    """Return the stalls in the view of a group."""
    names = {lane.member.key: lane.member.label for lane in view.lanes}
    return sorted(
        (
            stall.kind.value, stall.since // 1000, stall.until and stall.until // 1000,
            frozenset(names[key] for key in stall.waiting), frozenset(names[key] for key in stall.blamed), stall.text,
        )
        for stall in view.stalls
        if stall.kind is not StallKind.FINDING
    )  # fmt: skip
