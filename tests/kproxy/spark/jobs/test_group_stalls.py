"""Each way in which a group stands still, all of them in one trace, against what the terminal UI says of the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from kproxy.browse.overviews.groups import GroupsOverview, StallKind
from kproxy.browse.rows.index import time_of
from kproxy.spark.ingest.convert import dated
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.files import read_files
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.jobs.group_stalls import group_stalls
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import Line
from tests.kproxy.browse.fed import feed
from tests.kproxy.browse.grouped import DATA, LEADER, Story, lines_of
from tests.kproxy.browse.sessions import BEGAN, SECOND
from tests.kproxy.spark.made import request, table

#: What stands still: kind, from when to when (us; None: still), who waits and who is blamed.
Told = tuple[str, int, int | None, frozenset[str], frozenset[str]]

_CASES: dict[str, tuple[Callable[[Story], None], float]] = {}


def case(now: float) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    """A story of a group, and when (s) its trace ends."""

    def register(tell: Callable[[Story], None]) -> Callable[[Story], None]:
        _CASES[tell.__name__] = tell, now
        return tell

    return register


def two(story: Story, until: float = 10) -> None:
    story.joined(0, "a", "b")
    story.beats(1, until, "a", "b")


@case(30)
def nothing(story: Story) -> None:
    two(story, 30)
    story.say(15, "a", "OffsetCommit", generation_id=1)


@case(40)
def told_and_does_not_join(story: Story) -> None:
    two(story)
    waits = story.ask(11, "a", "JoinGroup")
    story.beats(11.5, 30, "b", error="REBALANCE_IN_PROGRESS")
    comes = story.ask(30, "b", "JoinGroup")
    for asked in (waits, comes):
        story.answer(asked, 30.1, generation_id=2)
    story.synced(30.2, "a", "b", generation=2)
    story.beats(31, 40, "a", "b", generation=2)


@case(17)
def silent_while_another_joins(story: Story) -> None:
    two(story)
    story.ask(11, "a", "JoinGroup")


@case(30)
def killed_while_another_joins(story: Story) -> None:
    two(story)
    story.closes(10.2, "b")
    story.answer(story.ask(11, "a", "JoinGroup"), 21, generation_id=2)
    story.synced(21.1, "a", generation=2)
    story.beats(22, 30, "a", generation=2)


@case(10)
def nobody_is_missing(story: Story) -> None:
    story.ask(0, "a", "JoinGroup")


@case(16)
def soon_answered(story: Story) -> None:
    two(story, 10)
    asked = story.ask(10, "c", "JoinGroup")
    again = [story.ask(11, who, "JoinGroup") for who in "ab"]
    for each in (asked, *again):
        story.answer(each, 14.9, generation_id=2)
    story.synced(15, "a", "b", "c", generation=2)


@case(20)
def left_out(story: Story) -> None:
    two(story)
    story.ask(10, "c", "JoinGroup")
    story.joined(12, "a", "b", generation=2)
    story.beats(13, 20, "a", "b", generation=2)


@case(16)
def leader_sends_nothing(story: Story) -> None:
    a, b = (story.ask(0, who, "JoinGroup") for who in "ab")
    story.answer(a, 0.1, generation_id=1, size=LEADER)
    story.answer(b, 0.1, generation_id=1)
    asked = story.ask(0.2, "b", "SyncGroup", generation_id=1)
    story.synced(12, "a")
    story.answer(asked, 12.002)
    story.beats(13, 16, "a", "b")


@case(61)
def member_does_not_sync(story: Story) -> None:
    story.answer(story.ask(0, "a", "JoinGroup"), 0.1, generation_id=1)


@case(21)
def leader_is_not_seen(story: Story) -> None:
    story.answer(story.ask(0, "b", "JoinGroup"), 0.1, generation_id=1)
    story.answer(story.ask(0.2, "b", "SyncGroup", generation_id=1), 20)


@case(8)
def coordinator_keeps_the_assignment(story: Story) -> None:
    story.answer(story.ask(0, "a", "JoinGroup"), 0.1, generation_id=1, size=LEADER)
    story.ask(0.2, "a", "SyncGroup", generation_id=1, size=LEADER)


@case(22)
def told_though_nobody_waits(story: Story) -> None:
    two(story, 5)
    story.beats(5, 20, "a")
    story.beats(5, 20, "b", error="REBALANCE_IN_PROGRESS")
    story.joined(21, "a", "b", generation=2)


@case(30)
def heartbeats_stop_and_come_back(story: Story) -> None:
    two(story)
    story.beats(10, 30, "b")
    story.beats(21, 30, "a")


@case(30)
def heartbeat_is_answered_late(story: Story) -> None:
    two(story)
    asked = story.ask(11, "a", "Heartbeat", generation_id=1)
    story.beats(11, 21, "b")
    story.answer(asked, 21)
    story.beats(22, 30, "a", "b")


@case(40)
def not_all_bytes_are_seen(story: Story) -> None:
    two(story)
    story.ask(10, "a", "Heartbeat", generation_id=1)
    story.misses(11, "a")
    story.beats(11, 40, "b")


@case(35)
def member_is_lost(story: Story) -> None:
    two(story)
    story.closes(10, "a")
    story.beats(10, 30, "b")
    story.joined(31, "b", generation=2)
    story.beats(32, 35, "b", generation=2)


@case(60)
def watch_ends(story: Story) -> None:
    two(story)
    for who in "ab":
        story.closes(10, who, by=None)


@case(13)
def member_leaves(story: Story) -> None:
    two(story)
    story.say(10, "a", "LeaveGroup", member=None)
    story.closes(10.5, "a")
    story.joined(11, "b", generation=2)
    story.say(12, "b", "LeaveGroup", member=None)


@case(8)
def joins_for_ever(story: Story) -> None:
    for second in range(5):
        story.answer(story.ask(second, "a", "JoinGroup"), second + 0.1, generation_id=second + 1)
        story.say(second + 0.2, "a", "SyncGroup", error="REBALANCE_IN_PROGRESS", generation_id=second + 1)
    story.joined(6, "a", generation=6)


@case(6)
def thrice_is_not_for_ever(story: Story) -> None:
    for second in range(3):
        story.answer(story.ask(second, "a", "JoinGroup"), second + 0.1, generation_id=second + 1)
    story.synced(4, "a", generation=3)


@case(12)
def refused_and_back(story: Story) -> None:
    two(story, 3)
    for second in range(3, 7):
        story.say(second, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=1)
    story.joined(8, "a", generation=2)


@case(12)
def refused_once_is_how_groups_work(story: Story) -> None:
    two(story, 12)
    story.say(11.5, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=0)


@case(6)
def commit_refused_and_accepted(story: Story) -> None:
    two(story, 6)
    story.say(3, "a", "OffsetCommit", error="ILLEGAL_GENERATION", generation_id=0)
    story.say(4, "a", "OffsetCommit", generation_id=1)


@case(7)
def fenced_and_joins_again(story: Story) -> None:
    story.say(0, "a", "ShareGroupHeartbeat", generation_id=0, to=1)
    story.say(5, "a", "ShareGroupHeartbeat", generation_id=1, error="FENCED_MEMBER_EPOCH")
    story.say(6, "a", "ShareGroupHeartbeat", generation_id=0, to=2)


@case(31)
def epoch_stays_behind(story: Story) -> None:
    story.say(0, "a", "ConsumerGroupHeartbeat", generation_id=0, to=1)
    story.epochs(5, 30, "a", 1)
    story.say(6, "b", "ConsumerGroupHeartbeat", generation_id=0, to=2)
    story.epochs(11, 30, "b", 2)
    story.say(30, "a", "ConsumerGroupHeartbeat", generation_id=1, to=2)


@case(20)
def epoch_is_reached_in_time(story: Story) -> None:
    story.say(0, "a", "ConsumerGroupHeartbeat", generation_id=0, to=1)
    story.epochs(5, 14, "a", 1)
    story.say(6, "b", "ConsumerGroupHeartbeat", generation_id=0, to=2)
    story.epochs(11, 20, "b", 2)
    story.say(15, "a", "ConsumerGroupHeartbeat", generation_id=1, to=2)


@case(36)
def heartbeats_begin_in_a_burst_and_stop(story: Story) -> None:
    story.say(0, "a", "ConsumerGroupHeartbeat", generation_id=0, to=1)
    for number in range(5):
        story.say(number / 10, "a", "ConsumerGroupHeartbeat", generation_id=1)
    story.epochs(5.4, 20, "a", 1)


@case(6)
def heartbeats_in_flight_are_told_at_once(story: Story) -> None:
    two(story, 5)
    for number in range(4):
        story.say(5 + number / 1000, "a", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    story.joined(5.1, "a", "b", generation=2)


@case(12)
def coordinator_denies(story: Story) -> None:
    two(story, 3)
    for second in range(3, 9):
        story.say(second, "a", "Heartbeat", error="NOT_COORDINATOR", generation_id=1)
    story.beats(9, 12, "a", "b")


#: Here the job says something else on purpose: refusals have an end of their own, as a coordinator's have.
_OTHER_END = {"coordinator_denies": 8_000_999}


def terminal(story: Story, now: float) -> list[Told]:
    """What the terminal says at `now` of a story."""
    view = story.view(now)
    names = {lane.member.key: lane.member.label for lane in view.lanes}
    return sorted(
        (
            each.kind.value, each.since // 1000, each.until and each.until // 1000,
            frozenset(names[key] for key in each.who), frozenset(names[key] for key in each.blamed),
        )
        for each in view.stalls
        if each.kind is not StallKind.FINDING
    )  # fmt: skip


def by_group(rows: DataFrame) -> dict[str, list[Told]]:
    """What the job says."""
    found: dict[str, list[Told]] = defaultdict(list)
    for row in rows.selectExpr("*", "unix_micros(since) as a", "unix_micros(until) as b").collect():
        told = row["stall"], row["a"], row["b"], frozenset(row["waiting"]), frozenset(row["blamed"])
        found[row["group_id"]].append(told)
        assert row["sentence"]
        assert row["look"]
        assert row["duration_us"] == row["b"] - row["a"] if row["b"] else row["duration_us"] > 0
    return {group: sorted(each) for group, each in found.items()}


def traced(name: str, story: Story, now: float) -> list[Line]:
    """The lines as a proxy of its own writes them, up to `now`."""
    numbers: dict[str, int] = defaultdict(count(1).__next__)
    lines = sorted(story.lines, key=lambda line: line.ts)
    renamed = [msgspec.structs.replace(line, connection_id=f"{name}-1-{numbers[line.connection_id]}") for line in lines]
    end = timestamp(BEGAN + int(now * SECOND))
    return [*renamed, request("Metadata", connection_id=f"{name}-1-99", ts=end)]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[str, list[Any]]:
    """What the job says of all cases at once, by group."""
    lines: list[Line] = []
    for name, (tell, now) in _CASES.items():
        story = Story(name)
        tell(story)
        lines += traced(name, story, now)
    return by_group(group_stalls(table(spark, *lines).coalesce(1).cache()))


@pytest.mark.parametrize("name", list(_CASES))
def test_the_job_says_what_the_terminal_says(told: dict[str, list[Told]], name: str) -> None:
    tell, now = _CASES[name]
    story = Story(name)
    tell(story)
    expected = terminal(story, now)
    if name in _OTHER_END:
        end = BEGAN // 1000 + _OTHER_END[name]
        expected = [(kind, since, end, waiting, blamed) for kind, since, _, waiting, blamed in expected]
    assert told.get(name, []) == expected


@pytest.fixture(scope="module")
def real(spark: SparkSession) -> dict[str, list[Told]]:
    """What the job says of the traces of real groups, each under its file's name."""
    lines = dated(read_files(spark, find_files(spark, [str(DATA)]), CaptureOptions()))
    named = lines.selectExpr(
        "* except (group_id, connection_id)",
        "if(group_id is null, null, regexp_extract(file, '([^/]+).jsonl', 1)) as group_id",
        "concat(regexp_extract(file, '([^/]+).jsonl', 1), '-', connection_id) as connection_id",
    )
    return by_group(group_stalls(named.select(lines.columns).coalesce(1).cache()))


@pytest.mark.parametrize(
    "name", ["application-does-not-poll", "frozen-process", "killed-member", "partitions-not-given-up"]
)
def test_real_groups_as_the_terminal_tells_of_them(real: dict[str, list[Told]], name: str) -> None:
    lines = lines_of(name)
    view = feed(GroupsOverview(), lines).view("billing", time_of(lines[-1].ts))
    assert view is not None
    names = {lane.member.key: lane.member.label for lane in view.lanes}
    expected = sorted(
        (each.kind.value, each.since // 1000, each.until and each.until // 1000, frozenset(map(names.get, each.blamed)))
        for each in view.stalls
        if each.kind is not StallKind.FINDING
    )
    assert expected
    assert [(kind, since, until, blamed) for kind, since, until, _, blamed in real[name]] == expected
