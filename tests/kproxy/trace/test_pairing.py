"""Requests in flight are paired with their responses, or stop waiting."""

from __future__ import annotations

import pytest

from kproxy.trace import pairing
from kproxy.trace.lines import CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.pairing import RequestPairing
from tests.kproxy.browse.sample_overviews import close_line, make_gap, open_line
from tests.kproxy.browse.sessions import request, response


def pair_lines(*lines: Line) -> list[list[int]]:
    """Return, for each line, the numbers of the request lines that it refers to."""
    pairing: RequestPairing[int] = RequestPairing()
    pairs: list[list[int]] = []
    for number, line in enumerate(lines):
        if isinstance(line, RequestLine):
            pairs.append([number] if pairing.add(line, number) else [])
        elif isinstance(line, ResponseLine):
            pairs.append([] if (match := pairing.match(line)) is None else [match])
        elif isinstance(line, OpenLine | CloseLine | GapLine):
            pairs.append(list(pairing.end(line)))
    return pairs


def requests_with_same_id(*offsets: int) -> list[RequestLine]:
    """Return requests with one correlation id that were sent in the same microsecond."""
    return [request(7, offset=offset) for offset in offsets]


def test_response_belongs_to_the_request_at_its_offset() -> None:
    requests = requests_with_same_id(0, 100, 200)
    responses = [response(requests[number]) for number in (1, 1, 2, 0)]
    assert pair_lines(*requests, *responses) == [[0], [1], [2], [1], [], [2], [0]]


def test_older_traces_are_paired_by_correlation_id_and_time() -> None:
    requests = [*requests_with_same_id(0, 100), request(7, at=1, offset=300), request(8, offset=400)]
    responses = [response(requests[number], request_offset=None) for number in (2, 0, 1, 1, 3)]
    assert pair_lines(*requests, *responses)[4:] == [[2], [0], [1], [], [3]]


def test_produce_with_acks_0_waits_for_no_response() -> None:
    produce = request(1, acks=0)
    assert pair_lines(produce, response(produce)) == [[], []]


def test_requests_stop_waiting_when_their_connection_ends_or_is_reused() -> None:
    first, unrelated = request(1), request(2, connection_id="n-2")
    for end in (close_line(), open_line()):
        assert pair_lines(first, unrelated, end, response(first), response(unrelated)) == [[0], [1], [0], [], [1]]


def test_requests_before_a_gap_do_not_wait_but_may_be_answered() -> None:
    first, unrelated = request(1), request(2, connection_id="n-2")
    assert pair_lines(first, unrelated, make_gap(), response(first), close_line()) == [[0], [1], [0], [0], []]
    assert pair_lines(first, unrelated, make_gap(""), make_gap(), response(unrelated)) == [[0], [1], [0, 1], [], [1]]
    assert pair_lines(first, make_gap(), request(3), make_gap(), response(first)) == [[0], [0], [2], [2], [0]]
    assert pair_lines(first, make_gap(), close_line(), response(first)) == [[0], [0], [], []]
    assert pair_lines(first, make_gap(direction="request"), close_line()) == [[0], [], [0]]


def test_number_of_unanswered_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MAX_WAITING", 3)
    request_pairing: RequestPairing[int] = RequestPairing()
    requests = [request(number) for number in range(5)]
    assert [request_pairing.add(sent_request, 0) for sent_request in requests] == [True, True, True, False, False]
    assert request_pairing.add(request(1, connection_id="n-2"), 0)
    assert len(request_pairing) == 4
    assert request_pairing.match(response(requests[0])) == 0
    assert request_pairing.match(response(requests[4])) is None
    assert request_pairing.add(request(9), 0)
