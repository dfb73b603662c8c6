"""Lanes, generations and events of groups; torn, hostile and many lines."""

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
from tests.kproxy.browse.group_story import TAIL, Story
from tests.kproxy.browse.sample_overviews import feed, feed_torn, missed
from tests.kproxy.browse.sample_overviews import torn as any_lines
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response


@pytest.mark.parametrize(
    ("client", "member", "shown"),
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
def test_members_have_short_names(client: str, member: str, shown: str) -> None:
    assert label(client, member) == shown


def test_a_member_is_one_lane_from_the_search_for_its_coordinator_on() -> None:
    story = Story()
    story.say(0, "a", "FindCoordinator", member=None)
    asked = story.ask(1, "a", "JoinGroup", member=None)
    [seeking] = story.view(1.5).lanes
    assert (seeking.member.label, seeking.member.member_id, seeking.member.state) == ("a", "", MembershipState.JOINING)
    story.answer(asked, 2, error="MEMBER_ID_REQUIRED", member_id="a" + TAIL)
    story.joined(3, "a")
    story.say(4, "a", "OffsetFetch", member=None)
    story.say(5, "a", "Heartbeat", generation_id=1)
    story.say(6, "a", "OffsetCommit", generation_id=1)
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


def test_a_heartbeat_that_forgets_its_member_id_is_still_its_members() -> None:
    """As librdkafka sends them when it starts anew: heartbeat and JoinGroup at once, both without member id."""
    story = Story()
    story.joined(0, "a")
    beat = story.ask(1, "a", "Heartbeat", member=None, generation_id=1)
    join = story.ask(1, "a", "JoinGroup", member=None)
    story.answer(beat, 1.1, error="UNKNOWN_MEMBER_ID")
    story.answer(join, 1.2, error="MEMBER_ID_REQUIRED", member_id="a-2")
    old, new = sorted(story.view(2).lanes, key=lambda lane: lane.member.first_at)
    assert [event.error for event in old.recurring] == ["UNKNOWN_MEMBER_ID"]
    assert (old.member.state, new.member.member_id, new.member.state) == (
        MembershipState.OUT,
        "a-2",
        MembershipState.SEEN,
    )


def test_a_member_id_that_two_connections_have_is_one_lane() -> None:
    story = Story()
    story.joined(0, "a")
    asked = story.ask(1, "b", "JoinGroup", member=None)
    story.answer(asked, 2, member_id="a" + TAIL, generation_id=2)
    [lane] = story.view(3).lanes
    assert [event.kind for event in lane.transitions] == [EventKind.JOIN, EventKind.SYNC, EventKind.JOIN]


def test_who_only_commits_is_no_member() -> None:
    story = Story()
    story.say(0, "tool", "OffsetCommit", member=None, generation_id=-1)
    story.say(1, "tool", "OffsetFetch", member=None)
    view = story.view(2)
    assert (view.row.protocol, view.row.members, view.row.lanes, view.row.commits) == (Protocol.UNKNOWN, 0, 1, 1)


def test_generations_and_the_rebalances_between_them() -> None:
    story = Story()
    story.joined(0, "a")
    asked = story.ask(5, "b", "JoinGroup")
    story.say(6, "a", "Heartbeat", generation_id=1, error="REBALANCE_IN_PROGRESS")
    again = story.ask(6.5, "a", "JoinGroup")
    for each in (asked, again):
        story.answer(each, 6.6, generation_id=2)
    story.synced(6.7, "a", "b", generation=2)
    view = story.view(8)
    assert [boundary.generation for boundary in view.boundaries] == [1, 2]
    assert (view.row.rebalances, view.row.longest_rebalance_ns) == (2, 1_701_000_000)


def test_a_coordinator_that_has_lost_the_group_begins_at_one_again() -> None:
    story = Story()
    story.joined(0, "a", "b", generation=7)
    story.beats(1, 10, "a", "b", generation=7)
    for who in ("a", "b"):
        story.say(10, who, "Heartbeat", generation_id=7, error="UNKNOWN_MEMBER_ID")
    story.joined(11, "a", "b", generation=1)
    view = story.view(15)
    assert [boundary.generation for boundary in view.boundaries] == [7, 1]
    assert (view.row.generation, view.row.state, view.row.members) == (1, "stable", 2)


def test_a_static_member_that_comes_back_is_no_rebalance() -> None:
    story = Story()
    story.joined(0, "a", "b")
    story.beats(1, 5, "a", "b")
    story.joined(5, "b")
    view = story.view(6)
    assert (view.row.rebalances, view.row.generation, view.row.state) == (1, 1, "stable")


def test_what_its_connection_took_with_it_was_not_answered() -> None:
    story = Story()
    story.joined(0, "a")
    story.ask(1, "a", "OffsetCommit", generation_id=1)
    story.closes(2, "a", by="server")
    [lane] = story.view(3).lanes
    [commit] = lane.recurring
    assert (commit.until, commit.error, commit.severity) == (BEGAN + 2 * SECOND, "connection ended", "warning")
    assert (lane.transitions[-1].kind, lane.member.state) == (EventKind.CLOSED, MembershipState.LOST)


def test_requests_that_were_not_seen_leave_those_in_flight_alone() -> None:
    story = Story()
    story.joined(0, "a")
    asked = story.ask(1, "a", "Heartbeat", generation_id=1)
    story.lines.append(missed("n-a", "request", at=BEGAN + 2 * SECOND))
    story.answer(asked, 3)
    [lane] = story.view(4).lanes
    assert [(event.at, event.until) for event in lane.recurring] == [(BEGAN + SECOND, BEGAN + 3 * SECOND)]


def test_a_group_whose_members_have_all_gone_without_leaving_has_an_unknown_state() -> None:
    story = Story()
    story.joined(0, "a", "b")
    story.closes(1, "a")
    assert story.view(1).row.state is GroupStatus.STABLE
    story.closes(2, "b")
    assert story.view(2).row.state is GroupStatus.UNKNOWN


@given(group_story.torn)
def test_torn_lines_about_groups_never_raise(lines: list[tuple[Line, int]]) -> None:
    groups = feed_torn(GroupsOverview(), lines)
    for now in (0, BEGAN + 60 * SECOND, BEGAN + 7200 * SECOND):
        for row in groups.rows(now):
            view = groups.view(row.group, now)
            assert view is not None
            assert view.row == row
            assert all(stall.text or stall.kind == "finding" for stall in view.stalls)
            assert all("\x1b" not in stall.text + stall.hint for stall in view.stalls)


@given(any_lines)
def test_torn_lines_of_any_kind_never_raise(lines: list[tuple[Line, int]]) -> None:
    groups = feed_torn(GroupsOverview(), lines)
    assert all(groups.view(row.group, 0) for row in groups.rows(0))


def test_a_million_of_everything_leaves_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small: groups, members, events, connections, requests that nobody answers, errors that nobody knows."""
    monkeypatch.setattr(consumer_groups, "MAX_EVENTS", 1_000)
    lines: list[Line] = []
    for number in range(2_000):
        name = "x" * MAX_NAME_LENGTH * 2 + str(number) if number % 50 == 0 else "g"
        asked = request(
            number, at=number, api=("JoinGroup", "Heartbeat")[number % 2], api_key=11, group_id=f"{number}{name}",
            member_id=f"{number}", connection_id=f"n-{number}", generation_id=number,
        )  # fmt: skip
        lines += [asked, response(asked, group_id=asked.group_id, errors=[ErrorEntry("error_code", 1, f"E{number}")])]
    groups = feed(GroupsOverview(), lines)
    assert (len(groups.rows(0)), groups.evicted) == (consumer_groups.MAX_GROUPS, 2_000 - consumer_groups.MAX_GROUPS)
    assert all(len(row.group) <= MAX_NAME_LENGTH for row in groups.rows(0))

    one = [
        request(
            number, at=number / 1000, api="Heartbeat", api_key=12, group_id="g", member_id=f"m-{number % 3_000}",
            connection_id="n-1", generation_id=number,
        )
        for number in range(30_000)
    ]  # fmt: skip
    groups = feed(GroupsOverview(), one)
    view = groups.view("g", BEGAN)
    assert view is not None
    assert (len(view.lanes), view.lanes_evicted) == (MAX_LANES_PER_GROUP, 29_000)
    kept = sum(len(lane.transitions) + len(lane.recurring) for lane in view.lanes)
    assert kept <= MAX_LANES_PER_GROUP * consumer_groups.MIN_LANE_EVENTS


def test_a_request_whose_response_may_be_in_a_gap_no_longer_waits() -> None:
    story = Story()
    asked = story.ask(0, "a", "JoinGroup")
    groups = feed(GroupsOverview(), [*story.lines, missed(asked.connection_id, at=BEGAN + SECOND)])
    view = groups.view(asked.group_id or "", BEGAN + 2 * SECOND)
    assert view is not None
    [lane] = view.lanes
    assert [(event.kind, event.until) for event in lane.transitions] == [(EventKind.JOIN, BEGAN + SECOND)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((consumer_groups, "MAX_GROUPS"), (unanswered_requests, "MAX_IN_FLIGHT"), (lanes, "MAX_LANES"),
                         (lanes, "MAX_CONNECTIONS"), (model, "MAX_LANES_PER_GROUP")):  # fmt: skip
        monkeypatch.setattr(module, name, 300)
    tracemalloc.start()
    groups, used = GroupsOverview(), []
    for number in range(3_000):
        line = request(
            number, at=number / 1000, api="JoinGroup", api_key=11, group_id=f"g-{number % 400}", member_id=f"{number}",
            connection_id=f"n-{number}", client_id=f"c-{number}",
        )  # fmt: skip
        groups.observe(line, number, time_of(line.ts))
        if number % 1_000 == 999:
            used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[2] < used[1] * 1.05
