"""Groups can be followed from facts of any class; a response is paired with its request by offset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dissectors.groups import ConsumerGroups, unanswered_requests
from dissectors.groups.facts import GroupFrame, GroupResponse
from dissectors.groups.model import Event, EventKind, GroupHistory, Lane
from dissectors.groups.stalls.all_stalls import all_stalls
from dissectors.groups.unanswered_requests import UnansweredRequests
from kproxy.groups.overview import observe_line
from kproxy.trace.lines import Line, RequestLine, ResponseLine
from kproxy.trace.timestamps import nanoseconds
from tests.kproxy.browse.group_story import GroupStory
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response
from tests.kproxy.browse.stall_stories import CASES

_FACT_NAMES = {
    *GroupFrame.__annotations__,
    *GroupResponse.__annotations__,
    "topics",
    "findings",
    "repeats",
    "errors",
    "tasks",
}


def group_facts(line: RequestLine | ResponseLine) -> Any:
    """Return only the facts that a group needs from a frame."""
    return SimpleNamespace(**{name: getattr(line, name) for name in _FACT_NAMES if hasattr(line, name)})


def follow_group(lines: list[Line], *, from_facts: bool) -> GroupHistory:
    groups = ConsumerGroups(timeline=True)
    for row, line in enumerate(sorted(lines, key=lambda line: line.ts)):
        at = nanoseconds(line.ts)
        if from_facts and isinstance(line, RequestLine):
            groups.on_request(group_facts(line), row, at)
        elif from_facts and isinstance(line, ResponseLine):
            groups.on_response(group_facts(line), row, at)
        else:
            observe_line(groups, line, row, at)
    [group] = groups
    return group


@pytest.mark.parametrize("name", list(CASES))
def test_facts_alone_give_the_same_result_as_lines(name: str) -> None:
    tell_story, now = CASES[name]
    tell_story(story := GroupStory(name))
    at = BEGAN + int(now * SECOND)
    from_facts, from_lines = (follow_group(story.lines, from_facts=use_facts) for use_facts in (True, False))
    assert all_stalls(from_facts, at) == all_stalls(from_lines, at)
    assert (from_facts.status(), from_facts.generation, from_facts.rebalances) == (
        from_lines.status(),
        from_lines.generation,
        from_lines.rebalances,
    )
    assert [lane.transitions for lane in from_facts.lanes.values()] == [
        lane.transitions for lane in from_lines.lanes.values()
    ]


def test_frames_without_group_membership_are_ignored() -> None:
    groups = ConsumerGroups(timeline=True)
    for frame in (
        request(1),
        request(2, group_id="g"),
        request(3, api="JoinGroup"),
        request(4, api="Nope", group_id=""),
    ):
        assert groups.on_request(frame, 0, 0) is None
        assert groups.on_response(response(frame, group_id=frame.group_id), 0, 0) is None
    assert list(groups) == []


def requests_in_flight(*request_lines: RequestLine) -> tuple[UnansweredRequests, list[Event]]:
    """Return requests in flight, and the event of each."""
    lane = Lane("m", "m", "c", "", "", 0, 0)
    requests, events = UnansweredRequests(), [Event(EventKind.HEARTBEAT, 0, row) for row in range(len(request_lines))]
    for line, event in zip(request_lines, events, strict=True):
        assert requests.add(line, lane, event)
    return requests, events


def test_response_is_paired_by_request_offset_not_correlation_id() -> None:
    lines = [request(7, offset=offset) for offset in (0, 100, 200)]
    requests, events = requests_in_flight(*lines)
    for index in (1, 0, 2):
        pair = requests.pop(response(lines[index]))
        assert pair is not None
        assert pair[1] is events[index]
        assert requests.pop(response(lines[index])) is None
    assert requests.pop(response(request(7, connection_id="n-2"))) is None


def test_response_without_an_offset_is_paired_with_the_oldest_request() -> None:
    requests, events = requests_in_flight(request(6, offset=0), request(7, offset=100), request(7, offset=200))
    pairs = [requests.pop(response(request(7), request_offset=None)) for _ in range(3)]
    assert [pair and pair[1] for pair in pairs] == [*events[1:], None]
    assert [event for _, event, _ in requests.remove("n-1")] == events[:1]


def test_requests_of_a_connection_are_removed_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered_requests, "MAX_IN_FLIGHT", 3)
    lines = [request(number, connection_id=name) for number, name in enumerate(("n-1", "n-2", "n-1"))]
    requests, events = requests_in_flight(*lines)
    lane = Lane("m", "m", "c", "", "", 0, 0)
    assert not requests.add(request(9), lane, events[0])
    assert [event for _, event, _ in requests.remove("n-1")] == [events[0], events[2]]
    assert requests.add(request(9), lane, events[0])
    assert not requests.add(request(9), lane, events[0])  # the same request again
    assert [event for _, event, _ in requests.remove(None)] == [events[1], events[0]]
    assert requests.remove(None) == []
