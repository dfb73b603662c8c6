"""The overview of connections is compared with a simple recount, and is fed inconsistent and very many lines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import chain

import pytest
from hypothesis import given

from kproxy.browse.overviews import connections
from kproxy.browse.overviews.connection import ConnectionSummary, ThrottledResponse, WaitingRequest
from kproxy.browse.overviews.connections import MAX_CLIENT_IDS, ConnectionsOverview
from kproxy.browse.rows.index import time_of
from kproxy.counting.counts import Severities
from kproxy.trace.lines import CloseLine, ErrorEntry, GapLine, Line, RepeatEntry, RequestLine, ResponseLine, StallLine
from tests.kproxy.browse.sample_overviews import (
    captured,
    close_line,
    feed,
    feed_torn,
    inconsistent_lines,
    make_gap,
    open_line,
)
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response


def single_connection(*lines: Line) -> ConnectionSummary:
    [connection] = feed(ConnectionsOverview(), lines).rows()
    return connection


def lines_by_connection() -> dict[str, list[Line]]:
    lines_of_connection: dict[str, list[Line]] = defaultdict(list)
    for line in captured():
        if not isinstance(line, StallLine):  # stall lines are written later and concern a group, not a connection
            lines_of_connection[line.connection_id].append(line)
    return lines_of_connection


def percentile(latencies: list[int], quantile: float) -> int:
    return sorted(latencies)[max(1, math.ceil(quantile * len(latencies))) - 1]


def test_counts_of_real_captures_equal_a_simple_recount() -> None:
    rows = {row.connection_id: row for row in feed(ConnectionsOverview(), captured()).rows()}
    expected = lines_by_connection()
    assert rows.keys() == expected.keys()
    for connection_id, lines in expected.items():
        row = rows[connection_id]
        requests = [line for line in lines if isinstance(line, RequestLine)]
        responses = [line for line in lines if isinstance(line, ResponseLine)]
        [close_line] = [line for line in lines if isinstance(line, CloseLine)]
        assert (
            (row.requests, row.responses)
            == (len(requests), len(responses))
            == (close_line.requests, close_line.responses)
        )
        assert row.request_bytes == sum(line.size for line in requests)
        assert row.response_bytes == sum(line.size for line in responses)
        assert (row.client, row.server) == (close_line.client, close_line.server)
        assert (row.first_at, row.last_at) == (time_of(lines[0].ts), time_of(lines[-1].ts))
        assert (row.closed_by, row.closed_how, row.unanswered) == (close_line.by, close_line.how, close_line.unanswered)
        pairs = {(line.api, line.api_version) for line in requests if line.api}
        assert {(api, version) for api, versions in row.versions.items() for version in versions} == pairs
        assert set(row.client_ids) == {line.client_id for line in requests if line.client_id is not None}
        latencies = [line.latency_us for line in responses if line.latency_us is not None]
        for actual, quantile in ((row.p50_us, 0.5), (row.p99_us, 0.99)):
            assert actual == pytest.approx(percentile(latencies, quantile), rel=1 / 64) if latencies else actual is None
        assert row.max_us == max(latencies, default=None)
        assert row.refusals == sum(bool(line.errors) for line in responses)
        error_counts = Counter(chain.from_iterable({error.name for error in line.errors} for line in responses))
        assert dict(row.errors) == error_counts
        severities = Counter(finding.severity for line in requests + responses for finding in line.findings)
        severities += Counter(line.severity for line in lines if line.__class__.__name__ == "FindingLine")
        assert row.findings == Severities(severities["info"], severities["warning"], severities["error"])
        throttle_times = [line.throttle_time_ms for line in responses if line.throttle_time_ms]
        assert (row.throttled, row.throttled_ms) == (len(throttle_times), sum(throttle_times))


def test_requests_in_flight_match_a_simple_model() -> None:
    in_flight_by_connection: dict[str, list[RequestLine]] = defaultdict(list)
    overview, checked_requests = ConnectionsOverview(), 0
    for number, line in enumerate(captured()):
        feed(overview, [line])
        in_flight = in_flight_by_connection[line.connection_id]
        if isinstance(line, RequestLine) and line.acks != 0 and line.api:
            in_flight.append(line)
        elif isinstance(line, ResponseLine) and line.api:
            in_flight.remove(
                next(request_line for request_line in in_flight if request_line.correlation_id == line.correlation_id)
            )
        elif isinstance(line, CloseLine):
            in_flight.clear()
        if number % 97 == 0:
            checked_requests += check_in_flight(overview, in_flight_by_connection)
    assert checked_requests > 10


def check_in_flight(overview: ConnectionsOverview, in_flight_by_connection: dict[str, list[RequestLine]]) -> int:
    for row in overview.rows():
        in_flight = in_flight_by_connection[row.connection_id]
        assert row.in_flight == len(in_flight)
        assert (row.oldest is None) == (not in_flight)
        if row.oldest is not None:
            assert row.oldest[:4] == (
                in_flight[0].api,
                in_flight[0].api_version,
                in_flight[0].correlation_id,
                time_of(in_flight[0].ts),
            )
    return sum(map(len, in_flight_by_connection.values()))


def test_oldest_request_in_flight_refers_to_its_row() -> None:
    requests = [request(1), request(2, at=1), request(3, at=2, acks=0), request(4, at=3)]
    row = single_connection(open_line(), *requests, response(requests[0]))
    assert (row.in_flight, row.oldest) == (2, WaitingRequest("Fetch", 12, 2, BEGAN + SECOND, 2))
    assert row.is_open
    assert (row.first_row, row.last_row) == (0, 1)


def test_requests_with_the_same_correlation_id_are_distinguished_by_time() -> None:
    first, second = request(7, offset=0), request(7, at=1, offset=100)
    assert single_connection(first, second).in_flight == 2
    assert single_connection(first, second, response(second)).oldest == WaitingRequest("Fetch", 12, 7, BEGAN, 0)
    assert single_connection(first, second, response(first), response(second)).in_flight == 0


def test_closed_connection_shows_why_it_closed_and_its_unanswered_requests() -> None:
    row = single_connection(
        open_line(tls=True), request(1), close_line(by="server", how="reset", unanswered=1, at=BEGAN + SECOND)
    )
    assert (row.is_open, row.closed_by, row.closed_how, row.unanswered) == (False, "server", "reset", 1)
    assert (row.opened_at, row.closed_at, row.in_flight, row.tls) == (BEGAN, BEGAN + SECOND, 0, True)


def test_connection_without_its_start_is_midstream() -> None:
    request_line = request(1)
    row = single_connection(response(request_line), close_line())
    assert (row.opened_at, row.midstream, row.responses) == (None, True, 1)


def test_throttling_gaps_and_repeated_findings_are_counted() -> None:
    gap = GapLine(v=1, ts=open_line().ts, connection_id="n-1", direction="request", bytes=70, reason="lost")
    request_line = request(1)
    row = single_connection(
        open_line(), request_line, response(request_line, throttle_time_ms=250),
        request(2), response(request(2), throttle_time_ms=50),
        gap, close_line(repeated=[RepeatEntry("L001", "x", 4), RepeatEntry("L002", "y", 3)]),
    )  # fmt: skip
    assert (row.throttled, row.throttled_ms) == (2, 300)
    assert row.last_throttle == ThrottledResponse(50, BEGAN + 1_000_000, 2)
    assert (row.gaps, row.gap_bytes, row.repeated) == (1, 70, 7)


def test_connection_lists_its_software_and_client_ids() -> None:
    api_versions = request(1, api="ApiVersions", api_key=18, software_name="librdkafka", software_version="2.1.0")
    row = single_connection(
        open_line(), api_versions, *(request(number, client_id=f"c{number}") for number in range(2, 20))
    )
    assert (row.software_name, row.software_version) == ("librdkafka", "2.1.0")
    assert row.client_ids == ("shop", *(f"c{number}" for number in range(2, MAX_CLIENT_IDS + 1)))
    assert row.more_client_ids


def _exchange(number: int, api: str, **more: object) -> list[Line]:
    request_line = request(number, api=api, api_key=17)
    return [request_line, response(request_line, **more)]


def test_connection_shows_the_state_of_a_sasl_login() -> None:
    login_error = ErrorEntry("error_code", 58, "SASL_AUTHENTICATION_FAILED")
    handshake = _exchange(1, "SaslHandshake")
    assert single_connection(*_exchange(1, "ApiVersions")).sasl is None
    assert single_connection(*handshake).sasl == "asked"
    assert single_connection(*handshake, *_exchange(2, "SaslAuthenticate")).sasl == "done"
    connection = single_connection(*handshake, *_exchange(2, "SaslAuthenticate", errors=[login_error]))
    assert (connection.sasl, connection.sasl_error) == ("failed", "SASL_AUTHENTICATION_FAILED")
    # In between, SASL tokens were exchanged without a Kafka request header.
    assert single_connection(*handshake, *_exchange(3, "Metadata")).sasl == "done"


def test_unchanged_row_is_returned_as_the_same_object() -> None:
    overview = feed(ConnectionsOverview(), [open_line("n-1"), open_line("n-2")])
    first = overview.rows()
    feed(overview, [request(1)])
    second = overview.rows()
    assert second[1] is first[1]
    assert (first[0].requests, second[0].requests) == (0, 1)


@pytest.mark.slow
def test_open_connections_are_kept_in_preference_to_closed_ones() -> None:
    overview = ConnectionsOverview()
    feed(overview, [open_line("waits"), request(1, connection_id="waits")])
    for number in range(connections.MAX_CONNECTIONS + 2000):
        feed(overview, [open_line(f"n-{number}"), close_line(f"n-{number}")])
    rows = overview.rows()
    assert len(rows) == connections.MAX_CONNECTIONS
    assert overview.others == 2001
    assert rows[0].connection_id == "waits"
    assert rows[0].in_flight == 1
    assert rows[-1].connection_id == f"n-{number}"


def test_only_the_most_recently_active_open_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 10)
    overview = ConnectionsOverview()
    for number in range(30):
        feed(overview, [request(0, connection_id=f"n-{number}"), request(number, connection_id="talks")])
    rows = overview.rows()
    assert {row.connection_id for row in rows} == {"talks", *(f"n-{number}" for number in range(21, 30))}
    assert overview.others == 21
    assert sum(row.in_flight for row in rows) == 30 + 9


def test_requests_possibly_answered_in_a_gap_are_not_in_flight() -> None:
    for gap, in_flight in ((make_gap(), 0), (make_gap(""), 0), (make_gap(direction="request"), 1)):
        overview = feed(ConnectionsOverview(), [open_line(), request(1)])
        assert overview.rows()[0].in_flight == 1
        feed(overview, [gap])
        [row] = overview.rows()
        assert (row.in_flight, row.oldest is None) == (in_flight, not in_flight)


def test_reused_connection_id_counts_as_a_new_connection() -> None:
    overview = feed(ConnectionsOverview(), [open_line(), request(1), close_line(), open_line(), request(2), request(3)])
    [row] = overview.rows()
    assert (row.requests, row.is_open, overview.others) == (2, True, 1)


@pytest.mark.slow
@given(inconsistent_lines)
def test_lines_are_counted_in_any_order(lines: list[tuple[Line, int]]) -> None:
    overview = feed_torn(ConnectionsOverview(), lines)
    rows = overview.rows()
    assert len({row.connection_id for row in rows}) == len(rows)
    assert all(row.in_flight >= 0 for row in rows)
    assert sum(row.requests for row in rows) <= sum(isinstance(line, RequestLine) for line, _ in lines)
