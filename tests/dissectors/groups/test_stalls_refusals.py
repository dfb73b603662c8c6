"""Stalls of members whose requests are refused, and who is to blame for the refusals."""

from __future__ import annotations

import pytest

from dissectors.groups import GroupStatus, MembershipState, StallKind
from tests.dissectors.groups.two_members import two_members
from tests.kproxy.browse.group_story import TAIL, GroupStory, kinds
from tests.kproxy.browse.sessions import BEGAN


@pytest.mark.parametrize(
    ("api", "error", "repetitions", "kind", "severity"),
    [
        ("Heartbeat", "UNKNOWN_MEMBER_ID", 1, "refused", "warning"),
        ("Heartbeat", "UNKNOWN_MEMBER_ID", 4, "refused", "error"),
        ("Heartbeat", "ILLEGAL_GENERATION", 3, "refused", "error"),
        ("Heartbeat", "FENCED_INSTANCE_ID", 1, "fenced", "error"),
        ("OffsetCommit", "ILLEGAL_GENERATION", 1, "commit-refused", "warning"),
        ("OffsetCommit", "REBALANCE_IN_PROGRESS", 3, "commit-refused", "error"),
        ("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL", 1, "refused", "warning"),
        ("SyncGroup", "COORDINATOR_ERROR", 3, "refused", "error"),
    ],
)
def test_refused_request_is_a_stall_with_error_and_hint(
    api: str, error: str, repetitions: int, kind: str, severity: str
) -> None:
    story = two_members(until=3)
    for number in range(repetitions):
        story.exchange(3 + number, "a", api, error=error, generation_id=0)
    [stall] = [stall for stall in story.stalls(3 + repetitions) if stall.waiting == ("a" + TAIL,)]
    assert (stall.kind, stall.severity, stall.since) == (kind, severity, BEGAN + 3_001_000_000)
    assert error in stall.text
    assert stall.hint
    assert (f"{repetitions} times" in stall.text) == (repetitions > 1)


def test_single_illegal_generation_is_normal_in_a_rebalance() -> None:
    story = two_members()
    story.exchange(10, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=0)
    assert story.stalls(11) == []


@pytest.mark.parametrize(
    ("api", "error", "explanation"),
    [
        (
            "OffsetCommit",
            "ILLEGAL_GENERATION",
            "the coordinator has given the member this generation, and no newer one",
        ),
        (
            "OffsetCommit",
            "STALE_MEMBER_EPOCH",
            "the coordinator has given the member this generation, and no newer one",
        ),
        ("Heartbeat", "UNKNOWN_MEMBER_ID", "the coordinator accepted this member only a moment before"),
    ],
)
def test_coordinator_that_refuses_its_own_generation_is_blamed(api: str, error: str, explanation: str) -> None:
    story = two_members(until=3)
    story.exchange(3, "a", api, error=error, generation_id=1)
    [stall] = [stall for stall in story.stalls(4) if stall.waiting == ("a" + TAIL,)]
    assert explanation in stall.text
    assert stall.hint.startswith("the broker must keep what it has given")
    stale_story = two_members(until=30)
    stale_story.exchange(30, "a", api, error=error, generation_id=0)
    assert not any(explanation in stall.text for stall in stale_story.stalls(31))


def test_error_unrelated_to_groups_is_explained_by_its_api() -> None:
    story = two_members(until=3)
    for second in range(3):
        story.exchange(3 + second, "a", "OffsetCommit", error="UNKNOWN_TOPIC_OR_PARTITION", generation_id=1)
    [stall] = story.stalls(6)
    assert "got UNKNOWN_TOPIC_OR_PARTITION 3 times within 2.0 s: the topic or partition does not exist" in stall.text
    assert stall.hint.startswith("create the topic, or correct its name")


def test_transient_error_is_a_stall_only_if_it_lasts() -> None:
    story = two_members(until=3)
    for second in range(5):
        story.exchange(3 + second, "a", "OffsetFetch", error="UNSTABLE_OFFSET_COMMIT")
    assert story.stalls(8) == []
    for second in range(5, 10):
        story.exchange(3 + second, "a", "OffsetFetch", error="UNSTABLE_OFFSET_COMMIT")
    [stall] = story.stalls(13)
    assert stall.kind is StallKind.REFUSED


def test_refused_commit_stall_ends_with_an_accepted_commit() -> None:
    story = two_members(until=3)
    story.exchange(3, "a", "OffsetCommit", error="ILLEGAL_GENERATION", generation_id=0)
    story.exchange(4, "a", "OffsetCommit", generation_id=1)
    [ended_stall] = story.stalls(5)
    assert (ended_stall.kind, ended_stall.until) == (StallKind.COMMIT_REFUSED, BEGAN + 4_001_000_000)


def test_fenced_member_rejoins_with_epoch_0() -> None:
    story = GroupStory()
    story.exchange(0, "a", "ShareGroupHeartbeat", generation_id=0, response_generation=1)
    story.exchange(5, "a", "ShareGroupHeartbeat", generation_id=1, error="FENCED_MEMBER_EPOCH")
    assert [lane.member.state for lane in story.view(6).lanes] == [MembershipState.OUT]
    story.exchange(6, "a", "ShareGroupHeartbeat", generation_id=0, response_generation=2)
    view = story.view(7)
    assert kinds(view.stalls) == []  # being fenced once may just mean that it was slow
    assert [lane.member.state for lane in view.lanes] == [MembershipState.MEMBER]
    story.exchange(8, "a", "ShareGroupHeartbeat", generation_id=-1)
    assert story.view(9).row.state is GroupStatus.EMPTY


def test_fenced_join_is_blamed_on_the_broker() -> None:
    story = GroupStory()
    story.exchange(0, "a", "ConsumerGroupHeartbeat", generation_id=0)
    story.exchange(5, "a", "ConsumerGroupHeartbeat", generation_id=1, error="FENCED_MEMBER_EPOCH")
    story.exchange(6, "a", "ConsumerGroupHeartbeat", generation_id=0, error="FENCED_MEMBER_EPOCH")
    [stall] = story.stalls(7)
    assert "the coordinator refuses epoch 0, with which a fenced member may always join again" in stall.text


def test_commit_without_membership_is_not_taken_for_a_removed_member() -> None:
    story = two_members()
    story.exchange(5, "rpk", "OffsetCommit", member=None, generation_id=-1, error="UNKNOWN_MEMBER_ID")
    [stall] = story.stalls(6)
    assert stall.kind is StallKind.COMMIT_REFUSED
    assert "commits without being a member" in stall.text
    assert "read again" not in stall.text
    assert "stop the consumers" in stall.hint
    removed_member_story = two_members()
    removed_member_story.exchange(11, "b", "OffsetCommit", generation_id=1, error="UNKNOWN_MEMBER_ID")
    assert "removed it from the group" in removed_member_story.stalls(12)[0].text


@pytest.mark.parametrize("reason", ["", "late", "refused", "rebalance"])
def test_unknown_member_error_for_a_live_member_is_questioned(reason: str) -> None:
    story = two_members()
    if reason == "refused":
        story.exchange(10, "b", "Heartbeat", generation_id=1, error="UNKNOWN_MEMBER_ID")
    elif reason == "rebalance":
        story.exchange(10, "b", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    refused_at = 17 if reason == "late" else 10.5
    story.exchange(refused_at, "b", "LeaveGroup", error="UNKNOWN_MEMBER_ID")
    explanations = [stall.text for stall in story.stalls(refused_at + 1) if stall.error == "UNKNOWN_MEMBER_ID"]
    assert explanations
    assert any("so it cannot have removed it" in text for text in explanations) is (reason == "")


def test_commit_behind_a_pending_transaction_is_a_stall_only_if_it_lasts() -> None:
    story = two_members(until=12)
    story.exchange(3, "a", "TxnOffsetCommit", error="CONCURRENT_TRANSACTIONS", generation_id=1)
    assert not story.stalls(3.5)
    for second in range(4, 12):
        story.exchange(second, "a", "TxnOffsetCommit", error="CONCURRENT_TRANSACTIONS", generation_id=1)
    [stall] = story.stalls(12)
    assert stall.kind is StallKind.COMMIT_REFUSED
    assert "CONCURRENT_TRANSACTIONS 9 times" in stall.text
