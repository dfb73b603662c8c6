"""Groups of real clients: traces of consumers that hang, and the reasons reported for it."""

from __future__ import annotations

import pytest

from dissectors.groups import GroupStatus, MembershipState, Protocol, Stall, StallKind
from kproxy.browse.rows.index import time_of
from kproxy.groups import GroupsOverview, GroupView
from kproxy.trace.lines import Line, RequestLine, ResponseLine
from tests.kproxy.browse.group_story import lines_of
from tests.kproxy.browse.sample_overviews import captured, feed
from tests.kproxy.browse.sessions import SECOND


def view_after(lines: list[Line], *, seconds: float | None = None) -> GroupView:
    """Return the group after all lines, or after that many seconds of the trace."""
    end = time_of(lines[-1].ts) if seconds is None else time_of(lines[0].ts) + int(seconds * SECOND)
    view = feed(GroupsOverview(), [line for line in lines if time_of(line.ts) <= end]).view("billing", end)
    assert view is not None
    return view


def client_ids(view: GroupView, keys: tuple[str, ...]) -> set[str]:
    """Return the client ids of the lanes with these keys."""
    return {lane.member.client_id for lane in view.lanes if lane.member.key in keys}


def only_stall(view: GroupView) -> Stall:
    [stall] = view.stalls
    return stall


def test_consumer_that_does_not_poll_is_blamed_for_the_waiting_rebalance() -> None:
    lines = lines_of("application-does-not-poll")
    earlier, final = view_after(lines, seconds=20), view_after(lines)
    stall = only_stall(earlier)
    assert (earlier.row.state, earlier.row.generation, earlier.row.members) == (GroupStatus.PREPARING, 2, 3)
    assert (stall.kind, stall.until, stall.severity) == (StallKind.JOIN_WAITS, None, "warning")
    assert (client_ids(earlier, stall.waiting), client_ids(earlier, stall.blamed)) == ({"shop-b", "shop-c"}, {"shop-a"})
    assert (
        "missing: shop-a 73467b (it sends heartbeats, got REBALANCE_IN_PROGRESS 9 times but does not rejoin)"
        in stall.text
    )
    assert "poll loop" in stall.hint
    ended_stall = only_stall(final)
    assert (ended_stall.kind, ended_stall.since, ended_stall.row) == (stall.kind, stall.since, stall.row)
    assert ended_stall.until is not None
    assert (ended_stall.until - ended_stall.since) / SECOND == pytest.approx(15.8, abs=0.1)
    assert "got REBALANCE_IN_PROGRESS 16 times" in ended_stall.text


def test_killed_member_is_blamed_for_the_waiting_rebalance() -> None:
    view = view_after(lines_of("killed-member"), seconds=17)
    stall = only_stall(view)
    assert (stall.kind, client_ids(view, stall.blamed)) == (StallKind.JOIN_WAITS, {"shop-b"})
    assert "its connection was closed by the client" in stall.text
    assert "session.timeout.ms" in stall.hint
    final = view_after(lines_of("killed-member"))
    assert [stall.kind for stall in final.stalls] == [StallKind.JOIN_WAITS]
    assert [boundary.generation for boundary in final.boundaries] == [1, 2]
    assert {lane.member.client_id: lane.member.state for lane in final.lanes} == {
        "shop-a": MembershipState.LEFT,
        "shop-b": MembershipState.OUT,
        "shop-c": MembershipState.LEFT,
        "shop-d": MembershipState.LEFT,
    }
    assert final.row.rebalances == 2
    assert final.row.longest_rebalance_ns == pytest.approx(7.76 * SECOND, rel=0.01)


def test_member_that_keeps_its_partitions_is_blamed_for_the_lag() -> None:
    earlier, final = (view_after(lines_of("partitions-not-given-up"), seconds=seconds) for seconds in (25, None))
    assert (earlier.row.protocol, earlier.row.state) == (Protocol.CONSUMER, GroupStatus.RECONCILING)
    stall = only_stall(earlier)
    assert (stall.kind, client_ids(earlier, stall.blamed)) == (StallKind.LAGGING, {"shop-a"})
    assert (client_ids(earlier, stall.waiting), stall.until) == ({"shop-b"}, None)
    assert "at epoch 2, and the group at 3" in stall.text
    ended_stall = only_stall(final)
    assert ended_stall.until is not None
    assert (ended_stall.until - ended_stall.since) / SECOND == pytest.approx(23.7, abs=0.1)
    assert final.row.longest_rebalance_ns == ended_stall.until - ended_stall.since


def test_frozen_member_is_silent_and_then_refused() -> None:
    earlier, final = (view_after(lines_of("frozen-process"), seconds=seconds) for seconds in (15, None))
    stall = only_stall(earlier)
    assert (stall.kind, client_ids(earlier, stall.blamed)) == (StallKind.SILENT, {"shop-a"})
    refused, silent = final.stalls
    assert (silent.kind, silent.codes, silent.since) == (StallKind.SILENT, ("S019",), stall.since)
    assert silent.until is not None
    assert (silent.until - silent.since) / SECOND == pytest.approx(10.1, abs=0.1)
    assert refused.kind is StallKind.REFUSED
    assert "UNKNOWN_MEMBER_ID" in refused.text
    first_member, rejoined_member = (lane.member for lane in final.lanes if lane.member.client_id == "shop-a")
    assert (first_member.state, rejoined_member.state) == (MembershipState.OUT, MembershipState.LEFT)


def test_leader_of_a_real_capture_is_recognised_by_sizes() -> None:
    view = view_after(lines_of("killed-member"), seconds=5)
    [leader] = [lane.member for lane in view.lanes if lane.member.leader]
    assert view.row.leader == leader.label == "shop-b 514073"


@pytest.mark.slow
def test_counts_of_real_captures_match_the_lines() -> None:
    groups, end = feed(GroupsOverview(), captured()), time_of(captured()[-1].ts)
    frames = [line for line in captured() if isinstance(line, RequestLine | ResponseLine) and line.group_id is not None]
    group_ids = {line.group_id for line in frames if line.api in ("JoinGroup", "ConsumerGroupHeartbeat")}
    rows = {row.group: row for row in groups.rows(end)}
    assert len(group_ids) > 3
    assert group_ids <= rows.keys()
    for group_id, row in rows.items():
        responses = [line for line in frames if line.group_id == group_id and isinstance(line, ResponseLine)]
        commits = [line for line in responses if line.api in ("OffsetCommit", "TxnOffsetCommit") and not line.errors]
        assert row.commits == len(commits)
        view = groups.view(group_id, end)
        assert view is not None
        joins = [line for line in responses if line.api in ("JoinGroup", "ConsumerGroupHeartbeat") and not line.errors]
        generations = {
            line.generation_id for line in joins if line.generation_id is not None and line.generation_id > 0
        }
        assert generations <= {boundary.generation for boundary in view.boundaries}
        membership_responses = [
            line for line in responses if line.api in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit")
        ]
        errors = {error.name for line in membership_responses for error in line.errors} - {"MEMBER_ID_REQUIRED"}
        assert errors <= {name for name, _ in row.errors}
