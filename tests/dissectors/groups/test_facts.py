"""Groups are followed from facts alone, of whatever class; a response finds its request by offset."""

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
from tests.kproxy.browse.group_story import Story
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response
from tests.kproxy.browse.stall_stories import CASES

_NAMES = {
    *GroupFrame.__annotations__,
    *GroupResponse.__annotations__,
    "topics",
    "findings",
    "repeats",
    "errors",
    "tasks",
}


def facts(line: RequestLine | ResponseLine) -> Any:
    """Only what a group needs of a frame."""
    return SimpleNamespace(**{name: getattr(line, name) for name in _NAMES if hasattr(line, name)})


def followed(lines: list[Line], *, from_facts: bool) -> GroupHistory:
    groups = ConsumerGroups(timeline=True)
    for row, line in enumerate(sorted(lines, key=lambda line: line.ts)):
        at = nanoseconds(line.ts)
        if from_facts and isinstance(line, RequestLine):
            groups.on_request(facts(line), row, at)
        elif from_facts and isinstance(line, ResponseLine):
            groups.on_response(facts(line), row, at)
        else:
            observe_line(groups, line, row, at)
    [group] = groups
    return group


@pytest.mark.parametrize("name", list(CASES))
def test_facts_are_enough(name: str) -> None:
    tell, now = CASES[name]
    tell(story := Story(name))
    at = BEGAN + int(now * SECOND)
    plain, lines = (followed(story.lines, from_facts=number) for number in (True, False))
    assert all_stalls(plain, at) == all_stalls(lines, at)
    assert (plain.status(), plain.generation, plain.rebalances) == (lines.status(), lines.generation, lines.rebalances)
    assert [lane.transitions for lane in plain.lanes.values()] == [lane.transitions for lane in lines.lanes.values()]


def test_a_frame_of_no_group_or_of_another_api_has_none() -> None:
    groups = ConsumerGroups(timeline=True)
    for other in (
        request(1),
        request(2, group_id="g"),
        request(3, api="JoinGroup"),
        request(4, api="Nope", group_id=""),
    ):
        assert groups.on_request(other, 0, 0) is None
        assert groups.on_response(response(other, group_id=other.group_id), 0, 0) is None
    assert list(groups) == []


def waiting(*asked: RequestLine) -> tuple[UnansweredRequests, list[Event]]:
    """Requests in flight, and the event of each."""
    lane = Lane("m", "m", "c", "", "", 0, 0)
    requests, events = UnansweredRequests(), [Event(EventKind.HEARTBEAT, 0, row) for row in range(len(asked))]
    for each, event in zip(asked, events, strict=True):
        assert requests.add(each, lane, event)
    return requests, events


def test_a_response_is_that_of_the_request_at_its_offset_whatever_its_correlation_id() -> None:
    asked = [request(7, offset=offset) for offset in (0, 100, 200)]
    requests, events = waiting(*asked)
    for place in (1, 0, 2):
        found = requests.pop(response(asked[place]))
        assert found is not None
        assert found[1] is events[place]
        assert requests.pop(response(asked[place])) is None
    assert requests.pop(response(request(7, connection_id="n-2"))) is None


def test_in_the_first_traces_it_is_that_of_the_oldest_request_with_its_correlation_id() -> None:
    requests, events = waiting(request(6, offset=0), request(7, offset=100), request(7, offset=200))
    answers = [requests.pop(response(request(7), request_offset=None)) for _ in range(3)]
    assert [answer and answer[1] for answer in answers] == [*events[1:], None]
    assert [event for _, event, _ in requests.remove("n-1")] == events[:1]


def test_requests_of_a_connection_or_of_all_are_removed_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered_requests, "MAX_IN_FLIGHT", 3)
    asked = [request(number, connection_id=name) for number, name in enumerate(("n-1", "n-2", "n-1"))]
    requests, events = waiting(*asked)
    lane = Lane("m", "m", "c", "", "", 0, 0)
    assert not requests.add(request(9), lane, events[0])
    assert [event for _, event, _ in requests.remove("n-1")] == [events[0], events[2]]
    assert requests.add(request(9), lane, events[0])
    assert not requests.add(request(9), lane, events[0])  # the same request again
    assert [event for _, event, _ in requests.remove(None)] == [events[1], events[0]]
    assert requests.remove(None) == []
