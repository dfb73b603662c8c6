"""Requests in flight: which of them a response answers, and which wait no longer."""

from __future__ import annotations

import pytest

from kproxy.trace import pairing
from kproxy.trace.lines import CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.pairing import RequestPairing
from tests.kproxy.browse.sample_overviews import closed, missed, opened
from tests.kproxy.browse.sessions import request, response


def paired(*lines: Line) -> list[list[int]]:
    """For each line the requests that it is about: the numbers of their lines."""
    pairing: RequestPairing[int] = RequestPairing()
    about: list[list[int]] = []
    for number, line in enumerate(lines):
        if isinstance(line, RequestLine):
            about.append([number] if pairing.add(line, number) else [])
        elif isinstance(line, ResponseLine):
            about.append([] if (found := pairing.match(line)) is None else [found])
        elif isinstance(line, OpenLine | CloseLine | GapLine):
            about.append(list(pairing.end(line)))
    return about


def same_id(*offsets: int) -> list[RequestLine]:
    """Requests with one correlation id that were sent in the same microsecond."""
    return [request(7, offset=offset) for offset in offsets]


def test_a_response_is_of_the_request_whose_offset_it_names() -> None:
    sent = same_id(0, 100, 200)
    answers = [response(sent[number]) for number in (1, 1, 2, 0)]
    assert paired(*sent, *answers) == [[0], [1], [2], [1], [], [2], [0]]


def test_in_an_older_trace_correlation_id_and_time_name_the_request() -> None:
    sent = [*same_id(0, 100), request(7, at=1, offset=300), request(8, offset=400)]
    answers = [response(sent[number], request_offset=None) for number in (2, 0, 1, 1, 3)]
    assert paired(*sent, *answers)[4:] == [[2], [0], [1], [], [3]]


def test_a_produce_with_acks_0_waits_for_no_response() -> None:
    asked = request(1, acks=0)
    assert paired(asked, response(asked)) == [[], []]


def test_a_connection_that_ends_or_whose_id_is_used_again_ends_its_requests() -> None:
    first, other = request(1), request(2, connection_id="n-2")
    for end in (closed(), opened()):
        assert paired(first, other, end, response(first), response(other)) == [[0], [1], [0], [], [1]]


def test_what_may_have_been_answered_in_a_gap_waits_no_longer_but_may_be_answered() -> None:
    first, other = request(1), request(2, connection_id="n-2")
    assert paired(first, other, missed(), response(first), closed()) == [[0], [1], [0], [0], []]
    assert paired(first, other, missed(""), missed(), response(other)) == [[0], [1], [0, 1], [], [1]]
    assert paired(first, missed(), request(3), missed(), response(first)) == [[0], [0], [2], [2], [0]]
    assert paired(first, missed(), closed(), response(first)) == [[0], [0], [], []]
    assert paired(first, missed(direction="request"), closed()) == [[0], [], [0]]


def test_requests_that_are_never_answered_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MAX_WAITING", 3)
    in_flight: RequestPairing[int] = RequestPairing()
    sent = [request(number) for number in range(5)]
    assert [in_flight.add(each, 0) for each in sent] == [True, True, True, False, False]
    assert in_flight.add(request(1, connection_id="n-2"), 0)
    assert len(in_flight) == 4
    assert in_flight.match(response(sent[0])) == 0
    assert in_flight.match(response(sent[4])) is None
    assert in_flight.add(request(9), 0)
