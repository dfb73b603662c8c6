from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from dissectors.groups import StallKind
from kproxy.groups import GroupsOverview, GroupView
from kproxy.spark.jobs.rebalances import rebalances
from tests.kproxy.browse.group_story import DATA, GroupStory, lines_of
from tests.kproxy.browse.sample_overviews import feed
from tests.kproxy.browse.sessions import BEGAN, SECOND
from tests.kproxy.spark.conftest import convert_files
from tests.kproxy.spark.sample_lines import table


def rebalance_rows(spark: SparkSession, story: GroupStory) -> list[tuple[object, ...]]:
    """Return (generation, start and duration in s, by, why, members, rebalances in the previous minute, is storm)."""
    rows = rebalances(table(spark, *story.lines)).selectExpr(
        "generation", "unix_micros(since)", "duration_us", "by", "why", "members", "a_minute", "storm"
    )
    return [
        (row[0], round(row[1] / 1e6 - BEGAN / 1e9, 3), row[2] and row[2] / 1e6, row[3].split()[0], *row[4:])
        for row in rows.collect()
    ]


def test_cause_of_each_rebalance_and_its_member_are_reported(spark: SparkSession) -> None:
    story = GroupStory()
    story.exchange(0, "a", "JoinGroup", member=None, error="MEMBER_ID_REQUIRED", answer_size=9)
    story.join(0.1, "a")
    story.send_heartbeats(1, 10, "a")
    b = story.request(10, "b", "JoinGroup")  # a new member joins,
    story.exchange(11, "a", "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=1)
    a = story.request(12, "a", "JoinGroup")  # and the old one rejoins
    for member in (a, b):
        story.answer(member, 13, generation_id=2)
    story.sync(13.5, "a", "b", generation=2)
    story.exchange(20, "b", "LeaveGroup", generation_id=2)
    story.exchange(21, "a", "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=2)
    story.join(22, "a", generation=3)
    story.exchange(80, "a", "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=3)  # its cause was not observed
    story.join(82, "a", generation=4)
    story.join(90, "a", generation=5)  # of its own accord
    story.answer(story.request(95, "a", "JoinGroup"), 95.5, generation_id=6)  # no assignment follows
    assert rebalance_rows(spark, story) == [
        (1, 0.1, 0.003, "a", "join", 1, 0, False),
        (2, 10.0, 3.501, "b", "join", 2, 1, False),
        (3, 21.001, 1.002, "b", "leave", 1, 2, False),
        (4, 80.001, 2.002, "a", "coordinator", 1, 1, False),
        (5, 90.0, 0.003, "a", "rejoin", 1, 1, False),
        (6, 95.0, None, "a", "rejoin", 1, 2, False),
    ]
    view = feed(GroupsOverview(), [*story.lines]).view("billing", BEGAN + 100 * SECOND)
    assert view is not None
    causes = [(boundary.generation, boundary.cause.kind) for boundary in view.boundaries if boundary.cause is not None]
    assert causes == [(row[0], row[4]) for row in rebalance_rows(spark, story)]


def test_twenty_generations_within_a_minute_are_a_storm(spark: SparkSession) -> None:
    story = GroupStory()
    for number in range(21):
        story.join(number * 3, "a", generation=number + 1)
    rows = rebalance_rows(spark, story)
    assert [row[-2:] for row in rows] == [(number, number >= 20) for number in range(21)]
    slower_story = GroupStory()
    for number in range(21):
        slower_story.join(number * 3.1, "a", generation=number + 1)
    assert not any(row[-1] for row in rebalance_rows(spark, slower_story))


def test_restarted_group_is_separate_from_the_previous_one(spark: SparkSession) -> None:
    story = GroupStory()
    story.join(0, "a")
    story.join(5, "a", generation=2)
    story.exchange(9, "a", "LeaveGroup", generation_id=2)
    story.join(1000, "b")
    story.exchange(1009, "b", "LeaveGroup", generation_id=1)
    story.join(2000, "c")
    assert [(row[0], row[1], row[3], row[-2]) for row in rebalance_rows(spark, story)] == [
        (1, 0.0, "a", 0), (2, 5.0, "a", 1), (1, 1000.0, "b", 0), (1, 2000.0, "c", 0),
    ]  # fmt: skip


def test_rejoin_into_the_same_generation_is_not_a_rebalance(spark: SparkSession) -> None:
    story = GroupStory()
    story.join(0, "a", "b")
    story.join(5, "b")
    assert [(row[0], row[1], row[5]) for row in rebalance_rows(spark, story)] == [(1, 0.0, 2)]


def test_rebalance_ends_when_all_members_have_reached_the_epoch(spark: SparkSession) -> None:
    story = GroupStory()
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    story.send_epoch_heartbeats(5, 26, "a", 1)
    story.exchange(6, "b", "ConsumerGroupHeartbeat", generation_id=0, response_generation=2)
    story.exchange(30, "a", "ConsumerGroupHeartbeat", generation_id=1, response_generation=2)
    assert [row[:6] for row in rebalance_rows(spark, story)] == [
        (1, 0.001, 0.0, "a", "join", 1), (2, 6.001, 24.0, "b", "join", 2),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def real(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Return the traces of real groups, as TABLE."""
    return convert_files(spark, [str(DATA)], tmp_path_factory.mktemp("real"))


def group_view(name: str) -> GroupView:
    """Return the view of a real group, as the terminal UI shows it."""
    view = feed(GroupsOverview(), lines_of(name)).view("billing", BEGAN + 10**6 * SECOND)
    assert view is not None
    return view


@pytest.mark.parametrize("name", ["application-does-not-poll", "frozen-process", "killed-member"])
def test_rebalances_of_real_groups_match_the_terminal_ui(real: DataFrame, name: str) -> None:
    group_rebalances = rebalances(real.where(real["file"].contains(name)))
    rows = group_rebalances.selectExpr("generation", "unix_micros(since)", "unix_micros(until)").collect()
    view = group_view(name)
    assert [row[0] for row in rows] == [boundary.generation for boundary in view.boundaries]
    # The terminal UI dates a generation to the first response that contains it, the job to the last one.
    assert [row[2] for row in rows] == pytest.approx([boundary.at // 1000 for boundary in view.boundaries], abs=20_000)
    wait_starts = [stall.since // 1000 for stall in view.stalls if stall.kind is StallKind.JOIN_WAITS]
    assert set(wait_starts) <= {row[1] for row in rows}
    assert wait_starts or name == "frozen-process"


def test_epochs_that_wait_for_partitions_are_measured(real: DataFrame) -> None:
    rows = rebalances(real.where(real["file"].contains("partitions-not-given-up"))).collect()
    [longest] = [row for row in rows if row["duration_us"] > 1_000_000]
    view = group_view("partitions-not-given-up")
    [lagging_stall] = [stall for stall in view.stalls if stall.kind is StallKind.LAGGING]
    assert lagging_stall.until is not None
    assert longest["duration_us"] == (lagging_stall.until - lagging_stall.since) // 1000
    assert longest["protocol"] == "consumer"
    assert [row["generation"] for row in rows] == [boundary.generation for boundary in view.boundaries]
