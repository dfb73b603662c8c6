"""Stalls recorded in traces are reported once, exactly as the terminal UI shows them."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from kproxy.browse.rows.index import time_of
from kproxy.spark.jobs.group_stalls import group_stalls
from kproxy.trace.lines import Line
from tests.kproxy.browse.group_story import GroupStory, lines_of
from tests.kproxy.browse.sessions import BEGAN, SECOND
from tests.kproxy.browse.stall_stories import CASES, DetectedStall, detect_stalls, recorded_stalls
from tests.kproxy.spark.sample_lines import table

_REAL = ("application-does-not-poll", "frozen-process", "killed-member", "partitions-not-given-up")


def detected_by_group(rows: DataFrame) -> dict[str, list[DetectedStall]]:
    """Return the stalls in the rows of the job, by group."""
    stalls_of_group: dict[str, list[DetectedStall]] = defaultdict(list)
    for row in rows.selectExpr("*", "unix_micros(since) as a", "unix_micros(until) as b").collect():
        stall = (
            row["stall"],
            row["a"],
            row["b"],
            frozenset(row["waiting"]),
            frozenset(row["blamed"]),
            row["sentence"],
        )
        stalls_of_group[row["group_id"]].append(stall)
        assert row["look"]
        assert row["duration_us"] == row["b"] - row["a"] if row["b"] else row["duration_us"] > 0
    return {group: sorted(stalls) for group, stalls in stalls_of_group.items()}


def with_stall_lines(name: str, lines: list[Line], now: int) -> list[Line]:
    """Return lines and their stalls as a separate proxy would write them for a group of this name."""
    numbers: dict[str, int] = defaultdict(count(1).__next__)
    renamed_lines = [
        msgspec.structs.replace(line, connection_id=f"{name}-1-{numbers[line.connection_id]}") for line in lines
    ]
    for line in renamed_lines:
        if getattr(line, "group_id", None) is not None:
            line.group_id = name  # type: ignore[union-attr]
    return [*renamed_lines, *recorded_stalls(renamed_lines, now)]


@pytest.fixture(scope="module")
def stalls_by_group(spark: SparkSession) -> dict[str, list[Any]]:
    """Return the stalls that the job reports for all groups together, from lines in reverse order."""
    lines: list[Line] = []
    for name in CASES:
        lines += with_stall_lines(name, *story_lines(name))
    for name in _REAL:
        lines += with_stall_lines(name, *real_lines(name))
    return detected_by_group(group_stalls(table(spark, *reversed(lines)).coalesce(1).cache()))


def story_lines(name: str) -> tuple[list[Line], int]:
    tell_story, now = CASES[name]
    story = GroupStory(name)
    tell_story(story)
    return sorted(story.lines, key=lambda line: line.ts), BEGAN + int(now * SECOND)


def real_lines(name: str) -> tuple[list[Line], int]:
    lines = lines_of(name)
    return lines, time_of(lines[-1].ts)


@pytest.mark.parametrize("name", list(CASES))
def test_every_stall_is_reported_once_as_it_ended(stalls_by_group: dict[str, list[DetectedStall]], name: str) -> None:
    assert stalls_by_group.get(name, []) == detect_stalls(*_detection_arguments(name, *story_lines(name)))


@pytest.mark.parametrize("name", _REAL)
def test_stalls_of_real_groups_are_reported(stalls_by_group: dict[str, list[DetectedStall]], name: str) -> None:
    expected = detect_stalls(*_detection_arguments("billing", *real_lines(name)))
    assert expected
    assert stalls_by_group[name] == expected


def _detection_arguments(group: str, lines: list[Line], now: int) -> tuple[list[Line], str, int]:
    return lines, group, now


def test_trace_without_stall_lines_has_no_stalls(spark: SparkSession) -> None:
    lines, _ = story_lines("member_ignores_the_rebalance")
    assert not group_stalls(table(spark, *lines)).collect()


def test_every_proxy_reports_stalls_of_its_own_members(spark: SparkSession) -> None:
    lines, now = story_lines("leader_is_not_seen")
    lines_of_both_proxies = [*with_stall_lines("one", lines, now), *with_stall_lines("two", lines, now)]
    for line in lines_of_both_proxies:
        if getattr(line, "group_id", None) is not None:
            line.group_id = "billing"  # type: ignore[union-attr]
    rows = group_stalls(table(spark, *lines_of_both_proxies)).collect()
    assert sorted(row["connection_id"] for row in rows) == ["one-1-1", "two-1-1"]
