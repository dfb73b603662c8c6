"""The records held by members of a share group are read from trace lines."""

from __future__ import annotations

import pytest

from kproxy.shares import HeldRecords, SharesOverview
from kproxy.trace.lines import AcknowledgedEntry, AcquiredEntry, ResponseLine
from kproxy.trace.timestamps import nanoseconds
from tests.kproxy.stories import StoryPlayer

SECOND = 1_000_000_000
TOPIC = "iQ2TY3LnUY29Lbs4b27PzA"
METADATA = f"""
> Metadata v12 {{"topics": [{{"name": "jobs"}}]}}
< {{"topics": [{{"name": "jobs", "topic_id": "{TOPIC}", "partitions": [{{}}]}}]}}
"""


def share_fetch(
    number: int, member: str, *ranges: tuple[int, int, int], acknowledged: str = "", epoch: int = 1, error: int = 0
) -> str:
    """Return a ShareFetch exchange that acknowledges records and acquires `ranges` (first, last, delivery count)."""
    entry = '{{"first_offset": {}, "last_offset": {}, "delivery_count": {}}}'
    acquired = ", ".join(entry.format(*acquired_range) for acquired_range in ranges)
    return f"""
{number}> ShareFetch v1 {{"group_id": "work", "member_id": "{member}", "share_session_epoch": {epoch},
  "topics": [{{"topic_id": "{TOPIC}", "partitions": [{{"acknowledgement_batches": [{acknowledged}]}}]}}]}}
{number}< {{"acquisition_lock_timeout_ms": 30000, "responses": [{{"topic_id": "{TOPIC}", "partitions": [
  {{"acknowledge_error_code": {error}, "acquired_records": [{acquired}]}}]}}]}}
"""


def acknowledgement_batch(first: int, last: int, *types: int) -> str:
    return f'{{"first_offset": {first}, "last_offset": {last}, "acknowledge_types": {list(types)}}}'


def overview_of(story: str) -> tuple[SharesOverview, int, list[ResponseLine]]:
    player, overview = StoryPlayer(), SharesOverview()
    player.play(METADATA + story)
    for line in player.lines:
        overview.observe(line, nanoseconds(line.ts))
    return overview, player.at, [line for line in player.lines if isinstance(line, ResponseLine)]


def held_at_end(story: str) -> dict[str, list[tuple[int, int, int]]]:
    """Return the ranges that each member holds at the end of the story, with their delivery counts."""
    overview, now, _ = overview_of(story)
    return {
        member: [(row.first, row.last, row.deliveries) for row in rows]
        for member, rows in overview.held_records("work", now).items()
    }


def test_trace_lines_list_acquired_and_acknowledged_records() -> None:
    story = share_fetch(1, "a", (0, 9, 1), epoch=0) + share_fetch(
        1, "a", acknowledged=f"{acknowledgement_batch(0, 4, 1)}, {acknowledgement_batch(5, 6, 2, 3)}"
    )
    _, _, lines = overview_of(story)
    assert lines[-2].acquired == [AcquiredEntry("jobs", 0, 0, 9, 1)]
    assert lines[-2].lock_ms == 30000
    assert lines[-1].acknowledged == [
        AcknowledgedEntry("jobs", 0, 0, 4, "accept"),
        AcknowledgedEntry("jobs", 0, 5, 5, "release"),
        AcknowledgedEntry("jobs", 0, 6, 6, "reject"),
    ]


def test_members_hold_records_that_they_have_not_acknowledged() -> None:
    overview, now, _ = overview_of(
        share_fetch(1, "a", (0, 9, 1), epoch=0) + share_fetch(2, "b", (10, 14, 2), epoch=0)
        + share_fetch(1, "a", acknowledged=acknowledgement_batch(0, 4, 1))
    )  # fmt: skip
    assert overview.held_records("work", now) == {
        "a": [HeldRecords("jobs", 0, 5, 9, 1, now - 5_000_000 + 30 * SECOND, gone=False)],
        "b": [HeldRecords("jobs", 0, 10, 14, 2, now - 2_000_000 + 30 * SECOND, gone=False)],
    }
    assert overview.acknowledged_counts("work") == {"accept": 5}


def test_records_acquired_by_another_member_are_held_by_it() -> None:
    assert held_at_end(share_fetch(1, "a", (0, 9, 1), epoch=0) + share_fetch(2, "b", (3, 5, 2), epoch=0)) == {
        "a": [(0, 2, 1), (6, 9, 1)],
        "b": [(3, 5, 2)],
    }


def test_acquisition_lock_expires_unless_renewed() -> None:
    story = (
        share_fetch(1, "a", (0, 9, 1), epoch=0)
        + "+20s\n"
        + share_fetch(1, "a", acknowledged=acknowledgement_batch(0, 1, 4))
        + "+15s\n"
    )
    assert held_at_end(story) == {"a": [(0, 1, 1)]}


def test_rejected_acknowledgement_releases_nothing() -> None:
    assert held_at_end(
        share_fetch(1, "a", (0, 9, 1), epoch=0)
        + share_fetch(1, "a", acknowledged=acknowledgement_batch(0, 9, 1), error=121)
    ) == {"a": [(0, 9, 1)]}


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ('1> ShareGroupHeartbeat v1 {"group_id": "work", "member_id": "a", "member_epoch": -1}\n', {}),
        ("1 lose > 100 frames=1\n", {}),
        ("2 lose > 100 frames=1 behind\n", {}),
        ('1> skipped ShareFetch v1 {"group_id": "work", "member_id": "a"}\n', {}),
        ('1> skipped ShareAcknowledge v1 {"group_id": "work", "member_id": "a"}\n', {}),
        ('1> ShareGroupHeartbeat v1 {"group_id": "work", "member_id": "a", "member_epoch": 3}\n', {"a": [(0, 9, 1)]}),
        ("1> skipped Produce v9 {}\n", {"a": [(0, 9, 1)]}),
    ],
)
def test_possibly_released_records_are_not_shown_as_held(
    ending: str, expected: dict[str, list[tuple[int, int, int]]]
) -> None:
    assert held_at_end(share_fetch(1, "a", (0, 9, 1), epoch=0) + ending) == expected


def test_member_without_a_connection_still_holds_its_records() -> None:
    overview, now, _ = overview_of(share_fetch(1, "a", (0, 9, 1), epoch=0) + "1 close by=client how=reset\n")
    [records] = overview.held_records("work", now)["a"]
    assert records.gone
    assert not overview.held_records("other", now)
