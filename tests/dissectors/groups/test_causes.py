"""Causes of generations, and the process that causes one rebalance after another."""

from __future__ import annotations

from dissectors.groups import StallKind
from tests.kproxy.browse.group_story import GroupStory


def causes(story: GroupStory, now: float) -> list[str]:
    """Return the cause of each generation."""
    return [
        f"{boundary.generation}: {boundary.cause.text}"
        for boundary in story.view(now).boundaries
        if boundary.cause is not None
    ]


def let_both_join(story: GroupStory, at: float, generation: int, first: str, second: str) -> None:
    """Let one client join; the other learns of it and rejoins, and both get their assignments."""
    requests = [story.request(at, first, "JoinGroup")]
    story.exchange(at + 0.1, second, "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=generation - 1)
    requests.append(story.request(at + 0.2, second, "JoinGroup"))
    for request in requests:
        story.answer(request, at + 0.3, generation_id=generation)
    story.sync(at + 0.4, first, second, generation=generation)


def test_each_generation_has_a_cause() -> None:
    story = GroupStory()
    story.join(0, "a")
    let_both_join(story, 10, 2, "b", "a")
    let_both_join(story, 20, 3, "a", "b")
    story.exchange(30, "b", "LeaveGroup", generation_id=3)
    story.exchange(31, "a", "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=3)
    story.join(32, "a", generation=4)
    let_both_join(story, 40, 5, "c", "a")
    story.close_connection(41, "c")
    story.exchange(90, "a", "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=5)
    story.join(91, "a", generation=6)
    story.exchange(100, "a", "Heartbeat", error="REBALANCE_IN_PROGRESS", generation_id=6)
    story.join(101, "a", generation=7)
    story.exchange(110, "a", "LeaveGroup", generation_id=7)
    story.join(120, "d", generation=9)
    assert causes(story, 130) == [
        "1: a 5dc891 joined",
        "2: b 5dc891 joined",
        "3: a 5dc891 rejoined by itself",
        "4: b 5dc891 left",
        "5: c 5dc891 joined",
        "6: the session of c 5dc891 expired",
        "7: the coordinator began it, for no visible reason",
        "9: d 5dc891 joined",
    ]
    assert not [stall for stall in story.stalls(130) if stall.kind is StallKind.DISTURBED]


def test_refused_join_is_not_a_cause() -> None:
    story = GroupStory()
    story.join(0, "a")
    story.exchange(5, "b", "JoinGroup", error="INCONSISTENT_GROUP_PROTOCOL")
    story.join(10, "a", generation=2)
    assert causes(story, 11)[-1] == "2: a 5dc891 (the leader) rejoined by itself"


def test_each_epoch_has_a_cause() -> None:
    story = GroupStory()
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0, response_generation=1)
    story.exchange(5, "b", "ConsumerGroupHeartbeat", generation_id=0, response_generation=2)
    story.exchange(10, "a", "ConsumerGroupHeartbeat", generation_id=1, response_generation=2)
    story.exchange(15, "b", "ConsumerGroupHeartbeat", generation_id=-1)
    story.exchange(20, "a", "ConsumerGroupHeartbeat", generation_id=2, response_generation=3)
    story.exchange(25, "a", "ConsumerGroupHeartbeat", generation_id=3, response_generation=4)
    assert causes(story, 26) == [
        "1: a 5dc891 joined", "2: b 5dc891 joined", "3: b 5dc891 left", "4: the coordinator began it",
    ]  # fmt: skip


def test_process_that_causes_repeated_rebalances_is_named() -> None:
    story = GroupStory()
    story.join(0, "a")
    for number in range(6):
        let_both_join(story, 5 + 5 * number, 2 + number, "b", "a")
    [stall] = [stall for stall in story.stalls(31) if stall.kind is StallKind.DISTURBED]
    assert stall.text == (
        "b 5dc891 caused 5 rebalances within 25.0 s: it joined as a new member 1 time, rejoined by itself 4 times"
    )
    assert not [stall for stall in story.stalls(50) if stall.kind is StallKind.DISTURBED]  # it is over


def test_second_join_of_a_cooperative_member_is_not_a_disturbance() -> None:
    """The member has given up partitions, which the second rebalance assigns. Found with the Java client."""
    story = GroupStory()
    story.join(0, "a")
    for number in range(8):
        joiner = chr(ord("b") + number)
        let_both_join(story, 4 + 4 * number, 2 + 2 * number, joiner, "a")
        let_both_join(story, 6 + 4 * number, 3 + 2 * number, "a", joiner)
    assert not [stall for stall in story.stalls(37) if stall.kind is StallKind.DISTURBED]


def test_distant_or_requested_rebalances_are_not_a_disturbance() -> None:
    for interval, error in (16, ""), (5, "REBALANCE_IN_PROGRESS"), (5, "ILLEGAL_GENERATION"), (5, "NOT_COORDINATOR"):
        story = GroupStory()
        for number in range(9):
            story.join(interval * number, "a", generation=number + 1)
            if error:
                story.exchange(interval * number + 1, "a", "Heartbeat", error=error, generation_id=number + 1)
        stalls = story.stalls(interval * 8 + 1)
        assert not [stall for stall in stalls if stall.kind is StallKind.DISTURBED], interval
