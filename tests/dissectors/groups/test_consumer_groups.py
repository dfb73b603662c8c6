"""Lanes, generations and events of groups, also from torn, hostile and very many lines."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given

from dissectors.bounded import MAX_NAME_LENGTH
from dissectors.groups import (
    EventKind,
    GroupStatus,
    MembershipState,
    Protocol,
    consumer_groups,
    lanes,
    model,
    unanswered_requests,
)
from dissectors.groups.lanes import label
from dissectors.groups.model import MAX_LANES_PER_GROUP
from kproxy.browse.rows.index import time_of
from kproxy.groups import GroupsOverview
from kproxy.trace.lines import ErrorEntry, Line
from tests.kproxy.browse import group_story
from tests.kproxy.browse.group_story import TAIL, GroupStory
from tests.kproxy.browse.sample_overviews import feed, feed_torn, make_gap
from tests.kproxy.browse.sample_overviews import inconsistent_lines as any_lines
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response


@pytest.mark.parametrize(
    ("client", "member", "expected_label"),
    [
        ("shop", "shop-5dc89100-0000-4000-8000-000000000000", "shop 5dc891"),
        ("shop", "node-1-77e50000-0000-4000-8000-000000000000", "shop node-1-77e5"),  # a static member
        ("shop", "ZqE31/ciSVKJoETpwJ7+/A", "shop ZqE31/"),  # KIP-848
        ("", "m", "m"),
        ("shop", "", "shop"),
        ("", "", "(no client id)"),
        ("\x1b[2J" * 20, "\ud800", "\\x1b[2J" * 9 + "\\x1b[2 \\ud800"),
    ],
)
def test_member_labels_are_short(client: str, member: str, expected_label: str) -> None:
    assert label(client, member) == expected_label


def test_coordinator_lookup_and_membership_share_a_lane() -> None:
    story = GroupStory()
    story.exchange(0, "a", "FindCoordinator", member=None)
    join_request = story.request(1, "a", "JoinGroup", member=None)
    [joining_lane] = story.view(1.5).lanes
    assert (joining_lane.member.label, joining_lane.member.member_id, joining_lane.member.state) == (
        "a",
        "",
        MembershipState.JOINING,
    )
    story.answer(join_request, 2, error="MEMBER_ID_REQUIRED", member_id="a" + TAIL)
    story.join(3, "a")
    story.exchange(4, "a", "OffsetFetch", member=None)
    story.exchange(5, "a", "Heartbeat", generation_id=1)
    story.exchange(6, "a", "OffsetCommit", generation_id=1)
    [lane] = story.view(7).lanes
    assert (lane.member.member_id, lane.member.state, lane.member.generation) == ("a" + TAIL, MembershipState.MEMBER, 1)
    assert [event.kind for event in lane.transitions] == [
        EventKind.COORDINATOR,
        EventKind.JOIN,
        EventKind.JOIN,
        EventKind.SYNC,
    ]
    assert [event.kind for event in lane.recurring] == [EventKind.OFFSETS, EventKind.HEARTBEAT, EventKind.COMMIT]
    first, second = (event for event in lane.transitions if event.kind is EventKind.JOIN)
    assert (first.at, first.until, first.error, first.severity) == (
        BEGAN + SECOND, BEGAN + 2 * SECOND, "MEMBER_ID_REQUIRED", "",
    )  # fmt: skip
    assert (second.generation, second.severity) == (1, "")
    assert [event.row for event in lane.transitions] == [0, 1, 2, 3]
    assert lane.memberships == ((lane.transitions[-1].until, None),)
    assert (lane.member.commits, lane.member.row) == (1, 0)


def test_heartbeat_without_a_member_id_stays_in_the_lane_of_its_member() -> None:
    """When librdkafka restarts, it sends Heartbeat and JoinGroup at the same time, both without a member id."""
    story = GroupStory()
    story.join(0, "a")
    heartbeat = story.request(1, "a", "Heartbeat", member=None, generation_id=1)
    join = story.request(1, "a", "JoinGroup", member=None)
    story.answer(heartbeat, 1.1, error="UNKNOWN_MEMBER_ID")
    story.answer(join, 1.2, error="MEMBER_ID_REQUIRED", member_id="a-2")
    old_lane, new_lane = sorted(story.view(2).lanes, key=lambda lane: lane.member.first_at)
    assert [event.error for event in old_lane.recurring] == ["UNKNOWN_MEMBER_ID"]
    assert (old_lane.member.state, new_lane.member.member_id, new_lane.member.state) == (
        MembershipState.OUT,
        "a-2",
        MembershipState.SEEN,
    )


def test_member_id_on_two_connections_has_a_single_lane() -> None:
    story = GroupStory()
    story.join(0, "a")
    join_request = story.request(1, "b", "JoinGroup", member=None)
    story.answer(join_request, 2, member_id="a" + TAIL, generation_id=2)
    [lane] = story.view(3).lanes
    assert [event.kind for event in lane.transitions] == [EventKind.JOIN, EventKind.SYNC, EventKind.JOIN]


def test_client_that_only_commits_is_not_a_member() -> None:
    story = GroupStory()
    story.exchange(0, "tool", "OffsetCommit", member=None, generation_id=-1)
    story.exchange(1, "tool", "OffsetFetch", member=None)
    view = story.view(2)
    assert (view.row.protocol, view.row.members, view.row.lanes, view.row.commits) == (Protocol.UNKNOWN, 0, 1, 1)


def test_rebalances_between_generations_are_counted() -> None:
    story = GroupStory()
    story.join(0, "a")
    first_join = story.request(5, "b", "JoinGroup")
    story.exchange(6, "a", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    second_join = story.request(6.5, "a", "JoinGroup")
    for join_request in (first_join, second_join):
        story.answer(join_request, 6.6, generation_id=2)
    story.sync(6.7, "a", "b", generation=2)
    view = story.view(8)
    assert [boundary.generation for boundary in view.boundaries] == [1, 2]
    assert (view.row.rebalances, view.row.longest_rebalance_ns) == (2, 1_701_000_000)


def test_generation_restarts_after_the_coordinator_lost_the_group() -> None:
    story = GroupStory()
    story.join(0, "a", "b", generation=7)
    story.send_heartbeats(1, 10, "a", "b", generation=7)
    for client in ("a", "b"):
        story.exchange(10, client, "Heartbeat", generation_id=7, error="UNKNOWN_MEMBER_ID")
    story.join(11, "a", "b", generation=1)
    view = story.view(15)
    assert [boundary.generation for boundary in view.boundaries] == [7, 1]
    assert (view.row.generation, view.row.state, view.row.members) == (1, "stable", 2)


def test_return_of_a_static_member_does_not_count_as_a_rebalance() -> None:
    story = GroupStory()
    story.join(0, "a", "b")
    story.send_heartbeats(1, 5, "a", "b")
    story.join(5, "b")
    view = story.view(6)
    assert (view.row.rebalances, view.row.generation, view.row.state) == (1, 1, "stable")


def test_requests_of_a_closed_connection_end_unanswered() -> None:
    story = GroupStory()
    story.join(0, "a")
    story.request(1, "a", "OffsetCommit", generation_id=1)
    story.close_connection(2, "a", by="server")
    [lane] = story.view(3).lanes
    [commit] = lane.recurring
    assert (commit.until, commit.error, commit.severity) == (BEGAN + 2 * SECOND, "connection ended", "warning")
    assert (lane.transitions[-1].kind, lane.member.state) == (EventKind.CLOSED, MembershipState.LOST)


def test_missed_requests_do_not_end_requests_in_flight() -> None:
    story = GroupStory()
    story.join(0, "a")
    heartbeat = story.request(1, "a", "Heartbeat", generation_id=1)
    story.lines.append(make_gap("n-a", "request", at=BEGAN + 2 * SECOND))
    story.answer(heartbeat, 3)
    [lane] = story.view(4).lanes
    assert [(event.at, event.until) for event in lane.recurring] == [(BEGAN + SECOND, BEGAN + 3 * SECOND)]


def test_state_is_unknown_after_all_members_disconnect_without_leaving() -> None:
    story = GroupStory()
    story.join(0, "a", "b")
    story.close_connection(1, "a")
    assert story.view(1).row.state is GroupStatus.STABLE
    story.close_connection(2, "b")
    assert story.view(2).row.state is GroupStatus.UNKNOWN


@pytest.mark.slow
@given(group_story.inconsistent_lines)
def test_torn_lines_about_groups_never_raise(lines: list[tuple[Line, int]]) -> None:
    groups = feed_torn(GroupsOverview(), lines)
    for now in (0, BEGAN + 60 * SECOND, BEGAN + 7200 * SECOND):
        for row in groups.rows(now):
            view = groups.view(row.group, now)
            assert view is not None
            assert view.row == row
            assert all(stall.text or stall.kind == "finding" for stall in view.stalls)
            assert all("\x1b" not in stall.text + stall.hint for stall in view.stalls)


@pytest.mark.slow
@given(any_lines)
def test_torn_lines_of_any_kind_never_raise(lines: list[tuple[Line, int]]) -> None:
    groups = feed_torn(GroupsOverview(), lines)
    assert all(groups.view(row.group, 0) for row in groups.rows(0))


@pytest.mark.slow
def test_numbers_of_groups_members_and_events_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many groups, members, events, connections, unanswered requests and unknown errors, with a low limit of events."""
    monkeypatch.setattr(consumer_groups, "MAX_EVENTS", 1_000)
    lines: list[Line] = []
    for number in range(2_000):
        name = "x" * MAX_NAME_LENGTH * 2 + str(number) if number % 50 == 0 else "g"
        group_request = request(
            number, at=number, api=("JoinGroup", "Heartbeat")[number % 2], api_key=11, group_id=f"{number}{name}",
            member_id=f"{number}", connection_id=f"n-{number}", generation_id=number,
        )  # fmt: skip
        lines += [
            group_request,
            response(
                group_request, group_id=group_request.group_id, errors=[ErrorEntry("error_code", 1, f"E{number}")]
            ),
        ]
    groups = feed(GroupsOverview(), lines)
    assert (len(groups.rows(0)), groups.evicted) == (consumer_groups.MAX_GROUPS, 2_000 - consumer_groups.MAX_GROUPS)
    assert all(len(row.group) <= MAX_NAME_LENGTH for row in groups.rows(0))

    lines_of_one_group = [
        request(
            number, at=number / 1000, api="Heartbeat", api_key=12, group_id="g", member_id=f"m-{number % 3_000}",
            connection_id="n-1", generation_id=number,
        )
        for number in range(30_000)
    ]  # fmt: skip
    groups = feed(GroupsOverview(), lines_of_one_group)
    view = groups.view("g", BEGAN)
    assert view is not None
    assert (len(view.lanes), view.lanes_evicted) == (MAX_LANES_PER_GROUP, 29_000)
    event_count = sum(len(lane.transitions) + len(lane.recurring) for lane in view.lanes)
    assert event_count <= MAX_LANES_PER_GROUP * consumer_groups.MIN_LANE_EVENTS


def test_request_no_longer_waits_if_its_response_may_be_in_a_gap() -> None:
    story = GroupStory()
    join_request = story.request(0, "a", "JoinGroup")
    groups = feed(GroupsOverview(), [*story.lines, make_gap(join_request.connection_id, at=BEGAN + SECOND)])
    view = groups.view(join_request.group_id or "", BEGAN + 2 * SECOND)
    assert view is not None
    [lane] = view.lanes
    assert [(event.kind, event.until) for event in lane.transitions] == [(EventKind.JOIN, BEGAN + SECOND)]


@pytest.mark.slow
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((consumer_groups, "MAX_GROUPS"), (unanswered_requests, "MAX_IN_FLIGHT"), (lanes, "MAX_LANES"),
                         (lanes, "MAX_CONNECTIONS"), (model, "MAX_LANES_PER_GROUP")):  # fmt: skip
        monkeypatch.setattr(module, name, 300)
    tracemalloc.start()
    groups, traced_sizes = GroupsOverview(), []
    for number in range(3_000):
        line = request(
            number, at=number / 1000, api="JoinGroup", api_key=11, group_id=f"g-{number % 400}", member_id=f"{number}",
            connection_id=f"n-{number}", client_id=f"c-{number}",
        )  # fmt: skip
        groups.observe(line, number, time_of(line.ts))
        if number % 1_000 == 999:
            traced_sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert traced_sizes[2] < traced_sizes[1] * 1.05
