"""Requests in flight: which of them a response answers."""

from __future__ import annotations

from kproxy.counting.in_flight import RequestPairing
from tests.kproxy.browse.sessions import request, response


def waiting(*offsets: int) -> RequestPairing[int]:
    """Requests with one correlation id that were sent in the same microsecond, each remembered by its offset."""
    in_flight: RequestPairing[int] = RequestPairing()
    for offset in offsets:
        assert in_flight.add(request(7, offset=offset), offset)
    return in_flight


def test_a_response_is_of_the_request_whose_offset_it_names() -> None:
    in_flight = waiting(0, 100, 200)
    assert in_flight.match(response(request(7, offset=100))) == 100
    assert in_flight.match(response(request(7, offset=100))) is None
    assert list(in_flight.values_of("n-1")) == [0, 200]
    assert in_flight.match(response(request(7, offset=200))) == 200
    assert in_flight.match(response(request(7, offset=0))) == 0
    assert list(in_flight.remove_connection("n-1")) == []


def test_in_an_older_trace_correlation_id_and_time_name_the_request() -> None:
    in_flight = waiting(0, 100)
    assert in_flight.add(request(7, at=1, offset=300), 300)
    assert in_flight.match(response(request(7, at=1), request_offset=None)) == 300
    assert in_flight.match(response(request(7), request_offset=None)) == 0
    assert list(in_flight.remove_connection("n-1")) == [100]
