"""Each kind of stall of a group, made with a few lines, and situations that are not stalls."""

from __future__ import annotations

import pytest

from dissectors.groups import GroupStatus, MembershipState, StallKind
from dissectors.groups.model import GroupHistory, Lane
from dissectors.groups.stalls.members import exceeded_silence_limit
from kproxy.trace.lines import FindingEntry
from tests.kproxy.browse.group_story import LEADER, TAIL, Story, kinds
from tests.kproxy.browse.sample_overviews import missed, opened
from tests.kproxy.browse.sessions import BEGAN, SECOND


def two_members(*, until: float = 10) -> Story:
    """Return a story of members a and b in generation 1, with heartbeats from second 1 to `until`."""
    story = Story()
    story.joined(0, "a", "b")
    story.beats(1, until, "a", "b")
    return story


def test_healthy_group_has_no_stalls() -> None:
    story = two_members(until=30)
    story.say(15, "a", "OffsetCommit", generation_id=1)
    view = story.view(30)
    assert view.stalls == ()
    assert (view.row.state, view.row.members, view.row.leader) == (GroupStatus.STABLE, 2, "a 5dc891")
    assert (view.row.commits, view.row.commit_at) == (1, BEGAN + 15_001_000_000)


@pytest.mark.parametrize(
    ("reason", "description"),
    [
        ("told", "b 5dc891 (it sends heartbeats, got REBALANCE_IN_PROGRESS 5 times but does not rejoin)"),
        ("silent", "b 5dc891 (silent for 8.0 s)"),
        ("killed", "b 5dc891 (its connection was closed by the client 6.8 s earlier, without LeaveGroup)"),
        ("quiet", "b 5dc891 (has not rejoined yet)"),
    ],
)
def test_waiting_join_names_the_missing_member_and_why(reason: str, description: str) -> None:
    story = two_members(until=10 if reason != "quiet" else 2)
    if reason == "killed":
        story.closes(10.2, "b")
    story.ask(11, "a", "JoinGroup")
    if reason == "told":
        story.beats(11.5, 16, "b", error="REBALANCE_IN_PROGRESS")
    at, blamed, waiting = 17, ("b" + TAIL,), ("a" + TAIL,)
    [stall] = story.stalls(at)
    assert (stall.kind, stall.waiting, stall.blamed, stall.until) == (StallKind.JOIN_WAITS, waiting, blamed, None)
    assert stall.since == BEGAN + 11 * SECOND
    assert stall.text.endswith("; missing: " + description)
    assert story.view(at).row.state is GroupStatus.PREPARING


def test_join_waits_for_an_unused_member_id() -> None:
    story = Story()
    story.joined(0, "a")
    story.say(1, "z", "JoinGroup", member=None, error="MEMBER_ID_REQUIRED")
    story.ask(2, "a", "JoinGroup")
    [stall] = story.stalls(10)
    assert (stall.kind, stall.blamed) == (StallKind.JOIN_WAITS, ())
    assert "the member id that z got 9.0 s earlier" in stall.text
    assert "did not join with it" in stall.hint


def test_join_may_wait_without_a_visible_missing_member() -> None:
    story = Story()
    story.ask(0, "a", "JoinGroup")
    [stall] = story.stalls(10)
    assert "no member visible here is missing" in stall.text
    assert "group.initial.rebalance.delay.ms" in stall.hint


def test_join_answered_within_seconds_is_not_a_stall() -> None:
    story = two_members(until=16)
    join_request = story.ask(10, "c", "JoinGroup")
    assert kinds(story.stalls(14)) == []
    story.answer(join_request, 14, generation_id=2)
    assert kinds(story.stalls(15)) == []


def test_join_left_unanswered_when_the_others_are_answered_is_a_stall() -> None:
    story = two_members()
    story.ask(10, "c", "JoinGroup")
    story.joined(12, "a", "b", generation=2)
    story.beats(13, 20, "a", "b", generation=2)
    [stall] = story.stalls(20)
    assert (stall.kind, stall.waiting) == (StallKind.JOIN_UNANSWERED, ("c" + TAIL,))
    assert "got generation 2" in stall.text


def test_leader_without_an_assignment_is_blamed_for_waiting_members() -> None:
    story = Story()
    leader_join, follower_join = (story.ask(0, client, "JoinGroup") for client in "ab")
    story.answer(leader_join, 0.1, generation_id=1, size=LEADER)
    story.answer(follower_join, 0.1, generation_id=1)
    sync_request = story.ask(0.2, "b", "SyncGroup", generation_id=1)
    [stall] = story.stalls(8)
    assert (stall.kind, stall.waiting, stall.blamed) == (StallKind.SYNC_MISSING, ("b" + TAIL,), ("a" + TAIL,))
    assert "it is the leader" in stall.text
    view = story.view(8)
    assert (view.row.state, view.row.generation, view.row.leader) == (GroupStatus.COMPLETING, 1, "a 5dc891")
    story.synced(12, "a")
    unanswered_sync, ended_stall = story.stalls(15)
    assert (unanswered_sync.kind, unanswered_sync.waiting) == (StallKind.SYNC_WAITS, ("b" + TAIL,))
    assert "a 5dc891 has been answered 3.0 s earlier" in unanswered_sync.text
    assert (ended_stall.kind, ended_stall.since, ended_stall.until) == (stall.kind, stall.since, BEGAN + 12 * SECOND)
    story.answer(sync_request, 12.002)
    assert kinds(story.stalls(15)) == ["sync-missing"]


def test_missing_sync_has_the_code_of_its_rule() -> None:
    story = Story()
    story.answer(story.ask(0, "a", "JoinGroup"), 0.1, generation_id=1)
    story.finds(60, "a", "S013", "member 'a' joined group 'billing' but sent no SyncGroup within 60 s")
    [stall] = story.stalls(61)
    assert (stall.kind, stall.codes, stall.severity) == (StallKind.SYNC_MISSING, ("S013",), "error")
    assert "a 5dc891 has sent no SyncGroup for 60.9 s after the JoinGroup response (generation 1)" in stall.text


def test_sync_waits_for_an_invisible_leader() -> None:
    story = Story()
    story.answer(story.ask(0, "b", "JoinGroup"), 0.1, generation_id=1)
    sync_request = story.ask(0.2, "b", "SyncGroup", generation_id=1)
    [stall] = story.stalls(8)
    assert (stall.kind, stall.waiting, stall.blamed) == (StallKind.SYNC_WAITS, ("b" + TAIL,), ())
    assert "the leader, which is not visible here, has not sent the assignment" in stall.text
    story.answer(sync_request, 20)
    [ended_stall] = story.stalls(21)
    assert (ended_stall.kind, ended_stall.until) == (StallKind.SYNC_WAITS, BEGAN + 20 * SECOND)


def test_coordinator_that_withholds_the_assignment_is_blamed() -> None:
    story = Story()
    story.answer(story.ask(0, "a", "JoinGroup"), 0.1, generation_id=1, size=LEADER)
    story.ask(0.2, "a", "SyncGroup", generation_id=1, size=LEADER)
    [stall] = story.stalls(8)
    assert stall.kind is StallKind.SYNC_WAITS
    assert "has sent the assignment, but the coordinator does not respond" in stall.text


def test_member_that_ignores_a_rebalance_is_named_without_a_visible_waiter() -> None:
    story = two_members(until=5)
    story.beats(5, 20, "b", error="REBALANCE_IN_PROGRESS")
    stall, not_rejoining = story.stalls(20)
    assert (stall.kind, stall.blamed) == (StallKind.SILENT, ("a" + TAIL,))
    assert (not_rejoining.kind, not_rejoining.blamed) == (StallKind.NOT_REJOINING, ("b" + TAIL,))
    assert "got REBALANCE_IN_PROGRESS 15 times within 14.0 s" in not_rejoining.text
    story.joined(21, "a", "b", generation=2)
    assert kinds(story.stalls(22)) == ["not-rejoining", "heartbeats-stopped"]


def test_stall_ends_when_heartbeats_resume() -> None:
    story = two_members(until=10)
    story.beats(10, 30, "b")
    [stall] = story.stalls(20)
    assert (stall.kind, stall.blamed, stall.until) == (StallKind.SILENT, ("a" + TAIL,), None)
    assert "has sent nothing for 11.0 s, after a heartbeat every 1.0 s" in stall.text
    story.beats(21, 30, "a")
    [ended_stall] = story.stalls(30)
    assert (ended_stall.since, ended_stall.until) == (BEGAN + 9 * SECOND, BEGAN + 21 * SECOND)


def test_unanswered_heartbeat_is_blamed_on_the_coordinator() -> None:
    story = two_members()
    heartbeat = story.ask(11, "a", "Heartbeat", generation_id=1)
    story.beats(11, 20, "b")
    [stall] = story.stalls(20)
    assert (stall.kind, stall.waiting) == (StallKind.UNANSWERED, ("a" + TAIL,))
    story.answer(heartbeat, 21)
    story.beats(22, 30, "a", "b")
    [ended_stall] = story.stalls(30)
    assert (ended_stall.kind, ended_stall.until) == (StallKind.UNANSWERED, BEGAN + 21 * SECOND)


@pytest.mark.parametrize("event", ["closes", "misses"])
def test_ended_or_unobserved_connection_has_no_waiting_request(event: str) -> None:
    story = Story()
    story.joined(0, "a")
    story.ask(1, "b", "OffsetCommit", member="a" + TAIL, generation_id=1)  # the same member on another connection
    getattr(story, event)(2, "b")
    story.beats(3, 20, "a")
    assert story.stalls(20) == []


def test_missed_lines_excuse_missing_heartbeats() -> None:
    story = two_members()
    story.ask(10, "a", "Heartbeat", generation_id=1)
    story.misses(11, "a")
    story.beats(11, 40, "b")
    assert story.stalls(40) == []


def test_rebalance_with_a_missed_end_is_over() -> None:
    story = two_members()
    story.ask(10, "a", "JoinGroup")
    story.ask(10, "b", "JoinGroup")
    story.misses(11, None)
    story.beats(12, 40, "a", "b", generation=2)
    view = story.view(40)
    assert (view.stalls, view.row.state, view.row.members) == ((), GroupStatus.STABLE, 2)


def test_missed_lines_of_all_connections_excuse_silence() -> None:
    story = two_members()
    story.misses(30, None)
    story.beats(31, 40, "a", "b")
    assert story.stalls(40) == []


def test_connection_with_a_reused_id_has_ended() -> None:
    story = two_members()
    story.ask(10, "a", "Heartbeat", generation_id=1)
    story.lines.append(opened("n-a", at=BEGAN + 20 * SECOND))
    story.say(21, "a", "OffsetFetch", member=None)
    story.beats(10, 40, "b")
    view = story.view(40)
    assert view.stalls == ()
    assert [lane.member.member_id for lane in view.lanes] == ["a" + TAIL, "b" + TAIL, ""]


def test_member_that_disconnects_without_leaving_is_lost() -> None:
    story = two_members()
    story.closes(10, "a")
    story.beats(10, 30, "b")
    [stall] = story.stalls(30)
    assert (stall.kind, stall.blamed, stall.severity) == (StallKind.LOST, ("a" + TAIL,), "warning")
    story.joined(31, "b", generation=2)
    [ended_stall] = story.stalls(35)
    assert (ended_stall.kind, ended_stall.since, ended_stall.until) == (
        StallKind.LOST,
        BEGAN + 10 * SECOND,
        BEGAN + 31_001_000_000,
    )
    assert {lane.member.state for lane in story.view(35).lanes} == {MembershipState.MEMBER, MembershipState.OUT}


def test_end_of_a_capture_does_not_lose_members() -> None:
    story = two_members()
    for client in "ab":
        story.closes(10, client, by=None)
    view = story.view(60)
    assert (view.stalls, view.row.state) == ((), GroupStatus.STABLE)


def test_member_that_leaves_is_not_missing() -> None:
    story = two_members()
    story.say(10, "a", "LeaveGroup", member=None)
    story.closes(10.5, "a")
    story.joined(11, "b", generation=2)
    story.say(12, "b", "LeaveGroup", member=None)
    view = story.view(13)
    assert (view.stalls, view.row.state, view.row.members) == ((), GroupStatus.EMPTY, 0)


def test_member_that_keeps_joining_is_in_a_join_loop() -> None:
    story = Story()
    for second in range(5):
        story.answer(story.ask(second, "a", "JoinGroup"), second + 0.1, generation_id=second + 1)
        story.say(second + 0.2, "a", "SyncGroup", error="REBALANCE_IN_PROGRESS", generation_id=second + 1)
    [stall] = story.stalls(5)
    assert (stall.kind, stall.since, stall.until) == (StallKind.JOIN_LOOP, BEGAN, None)
    assert "has joined 5 times within 4.2 s without getting an assignment" in stall.text
    story.joined(6, "a", generation=6)
    [ended_stall] = story.stalls(7)
    assert (ended_stall.kind, ended_stall.since, ended_stall.until) == (
        StallKind.JOIN_LOOP,
        BEGAN,
        BEGAN + 6_003_000_000,
    )


def test_client_with_a_new_member_id_for_each_join_is_in_a_join_loop() -> None:
    story = Story()
    for number in range(5):
        join_request = story.ask(number, "a", "JoinGroup", member=None)
        story.answer(join_request, number + 0.1, generation_id=number + 1, member_id=f"a-{number}")
    [stall] = story.stalls(4.5)
    assert (stall.kind, stall.waiting) == (StallKind.JOIN_LOOP, ("a-4",))


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
        story.say(3 + number, "a", api, error=error, generation_id=0)
    [stall] = [stall for stall in story.stalls(3 + repetitions) if stall.waiting == ("a" + TAIL,)]
    assert (stall.kind, stall.severity, stall.since) == (kind, severity, BEGAN + 3_001_000_000)
    assert error in stall.text
    assert stall.hint
    assert (f"{repetitions} times" in stall.text) == (repetitions > 1)


def test_single_illegal_generation_is_normal_in_a_rebalance() -> None:
    story = two_members()
    story.say(10, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=0)
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
    story.say(3, "a", api, error=error, generation_id=1)
    [stall] = [stall for stall in story.stalls(4) if stall.waiting == ("a" + TAIL,)]
    assert explanation in stall.text
    assert stall.hint.startswith("the broker must keep what it has given")
    stale_story = two_members(until=30)
    stale_story.say(30, "a", api, error=error, generation_id=0)
    assert not any(explanation in stall.text for stall in stale_story.stalls(31))


def test_member_that_reconnects_is_not_lost() -> None:
    """The member's coordinator was restarted. Found with real traffic."""
    story = two_members()
    story.closes(10.2, "b")
    story.beats(11, 13, "a")
    story.ask(13.5, "b", "Heartbeat", generation_id=1)
    assert not [stall for stall in story.stalls(13.6) if stall.kind is StallKind.LOST]


@pytest.mark.parametrize(
    ("connection_id", "gap_at", "is_lost"),
    [("other", 12, False), ("", 12, False), ("other", 9, True), ("n-b", 12, True)],
)
def test_member_may_have_reconnected_on_an_uninspected_connection(
    connection_id: str, gap_at: int, is_lost: bool
) -> None:
    """The inspector was behind when the coordinator was restarted. Found with real traffic."""
    story = two_members()
    if gap_at < 10:
        story.lines.append(missed(connection_id, at=BEGAN + gap_at * SECOND))
    story.closes(10, "a")
    if gap_at > 10:
        story.lines.append(missed(connection_id, at=BEGAN + gap_at * SECOND))
    story.beats(13, 30, "b")
    assert any(stall.kind is StallKind.LOST for stall in story.stalls(30)) is is_lost


def test_members_have_time_to_find_a_moved_coordinator() -> None:
    """Found with services whose brokers restarted on a busy machine."""
    story = two_members()
    story.closes(10, "a")
    story.closes(10, "b")
    for second in range(13, 60):
        story.say(second, "a", "Heartbeat", generation_id=1, server="b2:9092")
    lost_stalls = {
        now: [stall for stall in story.stalls(now) if stall.kind is StallKind.LOST] for now in (20, 27, 29, 55, 59)
    }
    assert {now: len(stalls) for now, stalls in lost_stalls.items()} == {20: 0, 27: 0, 29: 1, 55: 1, 59: 0}


def test_client_with_a_new_member_id_after_a_refusal_is_not_lost() -> None:
    for error, lost_count in ("REBALANCE_IN_PROGRESS", 0), ("", 1):
        story = two_members()
        story.say(10, "a", "SyncGroup", **({"error": error} if error else {}), generation_id=1)
        story.answer(story.ask(11, "a", "JoinGroup", member=None), 11.1, generation_id=1, member_id="a-2")
        for second in range(11, 20):
            story.say(second, "b", "Heartbeat", generation_id=1)
        lost_stalls = [stall for stall in story.stalls(20) if stall.kind is StallKind.LOST]
        assert len(lost_stalls) == lost_count


def test_error_unrelated_to_groups_is_explained_by_its_api() -> None:
    story = two_members(until=3)
    for second in range(3):
        story.say(3 + second, "a", "OffsetCommit", error="UNKNOWN_TOPIC_OR_PARTITION", generation_id=1)
    [stall] = story.stalls(6)
    assert "got UNKNOWN_TOPIC_OR_PARTITION 3 times within 2.0 s: the topic or partition does not exist" in stall.text
    assert stall.hint.startswith("create the topic, or correct its name")


def test_transient_error_is_a_stall_only_if_it_lasts() -> None:
    story = two_members(until=3)
    for second in range(5):
        story.say(3 + second, "a", "OffsetFetch", error="UNSTABLE_OFFSET_COMMIT")
    assert story.stalls(8) == []
    for second in range(5, 10):
        story.say(3 + second, "a", "OffsetFetch", error="UNSTABLE_OFFSET_COMMIT")
    [stall] = story.stalls(13)
    assert stall.kind is StallKind.REFUSED


def test_refused_commit_stall_ends_with_an_accepted_commit() -> None:
    story = two_members(until=3)
    story.say(3, "a", "OffsetCommit", error="ILLEGAL_GENERATION", generation_id=0)
    story.say(4, "a", "OffsetCommit", generation_id=1)
    [ended_stall] = story.stalls(5)
    assert (ended_stall.kind, ended_stall.until) == (StallKind.COMMIT_REFUSED, BEGAN + 4_001_000_000)


def test_search_for_a_moved_coordinator_is_a_stall() -> None:
    story = two_members(until=3)
    for second in range(3, 9):
        story.say(second, "a", "Heartbeat", error="NOT_COORDINATOR", generation_id=1)
        story.say(second, "b", "FindCoordinator", member=None)
    stall = next(stall for stall in story.stalls(9) if stall.kind is StallKind.COORDINATOR)
    assert "NOT_COORDINATOR from Heartbeat 6 times within 5.0 s" in stall.text
    story.say(10, "a", "Heartbeat", generation_id=1, server="b2:9092")
    stalls = [stall for stall in story.stalls(10) if stall.kind is StallKind.COORDINATOR]
    assert [(stall.severity, stall.until) for stall in stalls] == [
        ("warning", BEGAN + 10_001_000_000), ("info", BEGAN + 10_001_000_000),
    ]  # fmt: skip
    assert "is b2:9092, previously b1:9092: members found it 8.0 s after the last response" in stalls[1].text
    assert story.view(10).row.coordinator == "b2:9092"


def test_two_addresses_of_one_broker_are_not_a_move() -> None:
    story = two_members()
    story.say(10, "a", "Heartbeat", generation_id=1, server="b2:9092")
    assert story.stalls(11) == []


def test_finding_in_a_frame_of_the_group_is_a_stall() -> None:
    story = Story()
    finding_entry = FindingEntry("L003", "field-misplaced", "error", "throttle_time_ms stands last\x1b", hint="first")
    join_request = story.ask(0, "a", "JoinGroup")
    story.answer(
        join_request, 0.1, generation_id=1, findings=[finding_entry, FindingEntry("K001", "x", "info", "so what")]
    )
    missing, finding_stall = story.stalls(9)
    assert missing.kind is StallKind.SYNC_MISSING
    assert (finding_stall.kind, finding_stall.codes, finding_stall.text, finding_stall.hint) == (
        StallKind.FINDING, ("L003",), "throttle_time_ms stands last\\x1b", "first",
    )  # fmt: skip


def test_member_at_an_old_epoch_is_blamed_for_keeping_partitions() -> None:
    story = Story()
    story.say(0, "a", "ConsumerGroupHeartbeat", generation_id=0, to=1)
    story.epochs(5, 30, "a", 1)
    story.say(6, "b", "ConsumerGroupHeartbeat", generation_id=0, to=2)
    story.epochs(11, 30, "b", 2)
    [stall] = story.stalls(28)
    assert (stall.kind, stall.waiting, stall.blamed) == (StallKind.LAGGING, ("b" + TAIL,), ("a" + TAIL,))
    assert story.view(28).row.state is GroupStatus.RECONCILING
    story.say(30, "a", "ConsumerGroupHeartbeat", generation_id=1, to=2)
    view = story.view(31)
    assert [(stall.kind, stall.until) for stall in view.stalls] == [(StallKind.LAGGING, BEGAN + 30_001_000_000)]
    assert (view.row.state, view.row.rebalances) == (GroupStatus.STABLE, 2)


def test_fenced_member_rejoins_with_epoch_0() -> None:
    story = Story()
    story.say(0, "a", "ShareGroupHeartbeat", generation_id=0, to=1)
    story.say(5, "a", "ShareGroupHeartbeat", generation_id=1, error="FENCED_MEMBER_EPOCH")
    assert [lane.member.state for lane in story.view(6).lanes] == [MembershipState.OUT]
    story.say(6, "a", "ShareGroupHeartbeat", generation_id=0, to=2)
    view = story.view(7)
    assert kinds(view.stalls) == []  # it may have been slow, once
    assert [lane.member.state for lane in view.lanes] == [MembershipState.MEMBER]
    story.say(8, "a", "ShareGroupHeartbeat", generation_id=-1)
    assert story.view(9).row.state is GroupStatus.EMPTY


def test_burst_of_first_heartbeats_does_not_set_the_interval() -> None:
    """With KIP-848, a member reports revoked and assigned partitions in immediate heartbeats."""
    story = Story()
    story.say(0, "a", "ConsumerGroupHeartbeat", generation_id=0, to=1)
    for number in range(5):
        story.say(number / 10, "a", "ConsumerGroupHeartbeat", generation_id=1)
    story.epochs(5.4, 20, "a", 1)
    assert (story.stalls(5.3), story.stalls(20)) == ([], [])
    assert kinds(story.stalls(36)) == ["heartbeats-stopped"]


def test_pipelined_rebalance_errors_count_once() -> None:
    story = two_members(until=5)
    for number in range(4):
        story.say(5 + number / 1000, "a", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    story.joined(5.1, "a", "b", generation=2)
    assert story.stalls(6) == []


def test_fenced_join_is_blamed_on_the_broker() -> None:
    story = Story()
    story.say(0, "a", "ConsumerGroupHeartbeat", generation_id=0)
    story.say(5, "a", "ConsumerGroupHeartbeat", generation_id=1, error="FENCED_MEMBER_EPOCH")
    story.say(6, "a", "ConsumerGroupHeartbeat", generation_id=0, error="FENCED_MEMBER_EPOCH")
    [stall] = story.stalls(7)
    assert "the coordinator refuses epoch 0, with which a fenced member may always join again" in stall.text


def test_commit_without_membership_differs_from_that_of_a_removed_member() -> None:
    story = two_members()
    story.say(5, "rpk", "OffsetCommit", member=None, generation_id=-1, error="UNKNOWN_MEMBER_ID")
    [stall] = story.stalls(6)
    assert stall.kind is StallKind.COMMIT_REFUSED
    assert "commits without being a member" in stall.text
    assert "read again" not in stall.text
    assert "stop the consumers" in stall.hint
    removed = two_members()
    removed.say(11, "b", "OffsetCommit", generation_id=1, error="UNKNOWN_MEMBER_ID")
    assert "removed it from the group" in removed.stalls(12)[0].text


@pytest.mark.parametrize("reason", ["", "late", "refused", "rebalance"])
def test_unknown_member_error_for_a_live_member_is_questioned(reason: str) -> None:
    story = two_members()
    if reason == "refused":
        story.say(10, "b", "Heartbeat", generation_id=1, error="UNKNOWN_MEMBER_ID")
    elif reason == "rebalance":
        story.say(10, "b", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    refused_at = 17 if reason == "late" else 10.5
    story.say(refused_at, "b", "LeaveGroup", error="UNKNOWN_MEMBER_ID")
    explanations = [stall.text for stall in story.stalls(refused_at + 1) if stall.error == "UNKNOWN_MEMBER_ID"]
    assert explanations
    assert any("so it cannot have removed it" in text for text in explanations) is (reason == "")


def test_commit_behind_a_pending_transaction_is_a_stall_only_if_it_lasts() -> None:
    story = two_members(until=12)
    story.say(3, "a", "TxnOffsetCommit", error="CONCURRENT_TRANSACTIONS", generation_id=1)
    assert not story.stalls(3.5)
    for second in range(4, 12):
        story.say(second, "a", "TxnOffsetCommit", error="CONCURRENT_TRANSACTIONS", generation_id=1)
    [stall] = story.stalls(12)
    assert stall.kind is StallKind.COMMIT_REFUSED
    assert "CONCURRENT_TRANSACTIONS 9 times" in stall.text


def test_member_without_a_heartbeat_since_its_assignment_is_not_silent() -> None:
    """Heartbeats from the previous generation are forgotten when the member rejoins."""
    lane = Lane("m", "m", "c", "", "", 0, 0, state=MembershipState.MEMBER, heartbeat_gaps=[SECOND] * 3)
    group = GroupHistory("g", 0, 0)
    assert exceeded_silence_limit(group, lane, 1_000 * SECOND) is None
    lane.heartbeat_at = SECOND
    assert exceeded_silence_limit(group, lane, 1_000 * SECOND) == 10 * SECOND
