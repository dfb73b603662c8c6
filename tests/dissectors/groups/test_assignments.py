"""Partitions of a lost member: the other members' assignments show which of them nobody reads."""

from __future__ import annotations

import pytest

from dissectors.groups import MembershipState, StallKind
from dissectors.groups.model import Stall
from kproxy.trace.lines import TopicEntry
from tests.kproxy.browse.group_story import TAIL, GroupStory

SHARE, CONSUMER = "ShareGroupHeartbeat", "ConsumerGroupHeartbeat"


def add_heartbeat(
    story: GroupStory, at: float, client: str, epoch: int, *partitions: int, api: str = SHARE, joins: bool = False
) -> None:
    """Add a heartbeat whose response holds the epoch and, if any are given, the member's partitions of a topic."""
    request = story.request(at, client, api, generation_id=0 if joins else epoch)
    topics = [TopicEntry("jobs", "T-id", list(partitions))] if partitions else []
    story.answer(request, at + 0.001, generation_id=epoch, topics=topics)


def story_of_a_killed_member(
    partitions_of_a: tuple[int, ...], partitions_of_b: tuple[int, ...], api: str = SHARE
) -> GroupStory:
    """Return a story of members a and b with these partitions, in which b is killed at second 3."""
    story = GroupStory()
    add_heartbeat(story, 0, "a", 1, *partitions_of_a, api=api, joins=True)
    add_heartbeat(story, 0.1, "b", 2, *partitions_of_b, api=api, joins=True)
    for second in range(1, 3):
        add_heartbeat(story, second, "a", 2, api=api)
        add_heartbeat(story, second, "b", 2, api=api)
    story.close_connection(3, "b")
    for second in range(3, 8):
        add_heartbeat(story, second + 0.1, "a", 2, api=api)
    return story


def lost_stall(story: GroupStory, now: float) -> Stall:
    [stall] = [stall for stall in story.stalls(now) if stall.kind is StallKind.LOST]
    return stall


def test_lost_share_consumer_is_harmless_if_others_have_its_partitions() -> None:
    stall = lost_stall(story_of_a_killed_member((0, 1), (0, 1)), 8)
    assert stall.severity == "info"
    assert "other members are assigned all of its partitions and read on" in stall.text
    assert "nobody" not in stall.text
    assert "group.share.session.timeout.ms" in stall.hint


def test_partition_assigned_only_to_the_lost_share_consumer_is_named() -> None:
    stall = lost_stall(story_of_a_killed_member((0, 1), (1, 2)), 8)
    assert stall.severity == "warning"
    assert "nobody reads jobs[2], which no other member is assigned" in stall.text


def test_long_list_of_unread_partitions_is_shortened() -> None:
    assert (
        "nobody reads jobs[1], jobs[2], jobs[3] and 2 more,"
        in lost_stall(story_of_a_killed_member((0,), (1, 2, 3, 4, 5)), 8).text
    )


@pytest.mark.parametrize(
    ("api", "severity", "ending"),
    [
        (SHARE, "info", "its assignment was not observed, so it is unknown whether other members have its partitions"),
        (CONSUMER, "warning", "until its session expires, nobody reads the partitions assigned to it"),
    ],
)
def test_lost_member_without_an_observed_assignment_is_harmless_only_in_a_share_group(
    api: str, severity: str, ending: str
) -> None:
    stall = lost_stall(story_of_a_killed_member((), (), api), 8)
    assert stall.severity == severity
    assert stall.text.endswith(f": {ending}")


@pytest.mark.parametrize("api", [SHARE, CONSUMER])
def test_stall_ends_when_another_member_gets_the_partitions(api: str) -> None:
    story = story_of_a_killed_member((0,), (1,), api)
    add_heartbeat(story, 8.1, "a", 2, 0, 1, api=api)
    stall = lost_stall(story, 9)
    assert stall.until is not None
    assert "nobody reads jobs[1]" in stall.text
    [lost_member] = [lane.member for lane in story.view(9).lanes if lane.member.member_id == "b" + TAIL]
    assert lost_member.state is MembershipState.OUT


def test_stall_ends_when_the_coordinator_raises_the_epoch() -> None:
    story = story_of_a_killed_member((0, 1), (0, 1))
    add_heartbeat(story, 8.1, "a", 3)
    assert lost_stall(story, 9).until is not None
    cause = story.view(9).boundaries[-1].cause
    assert cause is not None
    assert (cause.by, cause.text) == ("b" + TAIL, "the session of b 5dc891 expired")


def test_stall_continues_if_another_member_caused_the_new_epoch() -> None:
    story = story_of_a_killed_member((0, 1), (0, 1))
    add_heartbeat(story, 8.1, "c", 3, 0, 1, joins=True)
    add_heartbeat(story, 8.2, "a", 3)
    assert lost_stall(story, 9).until is None


def test_refused_acknowledgements_are_reported_with_their_effect() -> None:
    story = story_of_a_killed_member((0,), (0,))
    story.exchange(4, "a", "ShareAcknowledge", error="INVALID_RECORD_STATE")
    story.exchange(5, "a", "ShareAcknowledge", error="KAFKA_STORAGE_ERROR")
    [stall] = [stall for stall in story.stalls(6) if stall.kind is StallKind.COMMIT_REFUSED]
    assert stall.error == "KAFKA_STORAGE_ERROR"
    assert stall.text.endswith("; the acknowledgements are not stored, so these records will be delivered again")
