"""The overview of APIs is compared with a simple recount, and is fed inconsistent, hostile and very many lines."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from itertools import chain

import pytest
from hypothesis import given

from dissectors.error_counts import MAX_NAMES, OTHERS
from kproxy.browse.overviews.apis import MAX_UNKNOWN, Apis, ApiUsage
from kproxy.browse.rows.index import time_of
from kproxy.counting.counts import Severities
from kproxy.counting.rates import MINUTE
from kproxy.trace.lines import CloseLine, ErrorEntry, Line, RequestLine, ResponseLine
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sample_overviews import (
    captured,
    close_line,
    feed,
    feed_torn,
    inconsistent_lines,
    make_gap,
    open_line,
)
from tests.kproxy.browse.sessions import BEGAN, SECOND, finding, request, response

Frame = RequestLine | ResponseLine


def frames_by_version() -> dict[tuple[str | None, int | None], list[Frame]]:
    frames: dict[tuple[str | None, int | None], list[Frame]] = defaultdict(list)
    for line in captured():
        if isinstance(line, RequestLine | ResponseLine):
            frames[line.api, line.api_version].append(line)
    return frames


def unanswered_by_version() -> Counter[tuple[str | None, int | None]]:
    """Count requests without a response, by API and version."""
    unanswered = Counter(
        (line.connection_id, line.correlation_id, line.api, line.api_version)
        for line in captured()
        if isinstance(line, RequestLine) and line.acks != 0 and line.api
    )
    unanswered.subtract(
        (line.connection_id, line.correlation_id, line.api, line.api_version)
        for line in captured()
        if isinstance(line, ResponseLine) and line.api
    )
    by_version: Counter[tuple[str | None, int | None]] = Counter()
    for (_, _, api, version), count in unanswered.items():
        by_version[api, version] += count
    return +by_version


@functools.cache
def latest_time() -> int:
    return time_of(max(line.ts for line in captured()))


def check_usage(row: ApiUsage, frames: list[Frame], unanswered: int) -> None:
    requests = [line for line in frames if isinstance(line, RequestLine)]
    responses = [line for line in frames if isinstance(line, ResponseLine)]
    assert (row.requests, row.responses) == (len(requests), len(responses))
    assert row.request_bytes == sum(line.size for line in requests)
    assert row.response_bytes == sum(line.size for line in responses)
    latencies = sorted(line.latency_us for line in responses if line.latency_us is not None)
    for actual, quantile in ((row.p50_us, 0.5), (row.p95_us, 0.95), (row.p99_us, 0.99)):
        if latencies:
            assert actual == pytest.approx(latencies[math.ceil(quantile * len(latencies)) - 1], rel=1 / 64)
        else:
            assert actual is None
    assert row.max_us == (latencies[-1] if latencies else None)
    error_counts = Counter(chain.from_iterable({error.name for error in line.errors} for line in responses))
    assert dict(row.errors) == error_counts
    assert row.refusals == sum(bool(line.errors) for line in responses)
    severity_counts = Counter(entry.severity for line in frames for entry in line.findings)
    assert row.findings == Severities(severity_counts["info"], severity_counts["warning"], severity_counts["error"])
    assert row.one_way == sum(line.acks == 0 for line in requests)
    assert (row.in_flight, row.unanswered) == (0, unanswered)
    assert sum(row.all_time) == len(requests)
    last_second = latest_time() // SECOND
    assert sum(row.minute) == sum(last_second - MINUTE < time_of(line.ts) // SECOND <= last_second for line in requests)


@pytest.mark.slow
def test_counts_of_real_captures_equal_a_simple_recount() -> None:
    rows = feed(Apis(), captured()).rows()
    frames, unanswered = frames_by_version(), unanswered_by_version()
    assert {(row.api, version.version) for row in rows for version in row.versions} == frames.keys()
    assert unanswered.total() > 0
    for row in rows:
        frames_of_api = [line for (api, _), lines in frames.items() if api == row.api for line in lines]
        check_usage(row, frames_of_api, sum(count for (api, _), count in unanswered.items() if api == row.api))
        assert [version.version for version in row.versions] == sorted(
            (version.version for version in row.versions), key=lambda version: -1 if version is None else version
        )
        for version in row.versions:
            check_usage(version, frames[row.api, version.version], unanswered[row.api, version.version])
    assert [row.requests for row in rows] == sorted((row.requests for row in rows), reverse=True)


def single_row(*lines: Line) -> ApiUsage:
    [row] = feed(Apis(), lines).rows()
    return row


def test_requests_in_flight_become_unanswered_when_the_connection_ends() -> None:
    requests = [request(1), request(2, at=1), request(3, at=2, acks=0)]
    row = single_row(open_line(), *requests, response(requests[0]))
    assert (row.in_flight, row.unanswered, row.one_way) == (1, 0, 1)
    row = single_row(open_line(), *requests, response(requests[0]), close_line())
    assert (row.in_flight, row.unanswered) == (0, 1)


def test_requests_possibly_answered_in_a_gap_are_not_in_flight() -> None:
    requests = [request(1), request(2)]
    for gap in (make_gap(), make_gap("")):
        row = single_row(open_line(), *requests, gap, close_line())
        assert (row.in_flight, row.unanswered) == (0, 0)
    row = single_row(*requests, make_gap(direction="request"))
    assert row.in_flight == 2
    row = single_row(open_line(), *requests, open_line(), request(1, at=1))
    assert (row.in_flight, row.unanswered) == (1, 2)


def test_slowest_request_is_found() -> None:
    requests = [request(number, api_version=4 + number % 2) for number in range(10)]
    row = single_row(*requests, *(response(line, after_us=(number * 7) % 10) for number, line in enumerate(requests)))
    assert (row.max_us, row.slowest_row) == (9, 7)
    assert [(version.version, version.max_us, version.slowest_row) for version in row.versions] == [
        (4, 8, 4),
        (5, 9, 7),
    ]


def test_rate_covers_the_last_ten_seconds() -> None:
    apis = feed(Apis(), [request(number, at=number / 10) for number in range(600)])
    [row] = apis.rows(now=apis.now)
    assert row.rate == pytest.approx(10, rel=0.02)
    assert row.minute == (10,) * MINUTE
    [row] = apis.rows(now=BEGAN + 65 * SECOND)
    # Requests were sent in four of these ten seconds; the last second has only just begun, so nine count.
    assert row.rate == pytest.approx(10 * 4 / 9, rel=0.02)
    assert apis.rows(now=BEGAN + 600 * SECOND)[0].rate == 0


def test_mean_rate_covers_the_time_between_first_and_last_line() -> None:
    apis = feed(Apis(), [request(number, at=number / 10) for number in range(600)])
    assert apis.rows()[0].rate == pytest.approx(10, rel=0.02)
    assert single_row(request(1), request(2, at=0.01)).rate == 2


def test_all_apis_share_one_time_axis() -> None:
    lines = [request(1), request(2, at=100, api="Metadata", api_key=3), request(3, at=200)]
    apis = feed(Apis(), lines)
    fetch, metadata = apis.rows()
    assert len(fetch.all_time) == len(metadata.all_time)
    assert [bucket for bucket, count in enumerate(fetch.all_time) if count] == [0, len(fetch.all_time) - 1]
    assert apis.width * len(fetch.all_time) >= 200 * SECOND


def test_number_of_distinct_error_names_is_limited() -> None:
    request_line = request(1)
    errors = [ErrorEntry("error_code", code, f"UNKNOWN_ERROR_{code}") for code in range(2000)]
    row = single_row(request_line, response(request_line, errors=errors[:1]), response(request_line, errors=errors))
    assert row.refusals == 2
    assert dict(row.errors)["UNKNOWN_ERROR_0"] == 2
    assert dict(row.errors)[OTHERS] == 2000 - MAX_NAMES
    assert len(row.errors) == MAX_NAMES + 1


def test_findings_are_counted_by_severity() -> None:
    row = single_row(request(1, findings=[finding("error"), finding("error"), finding("warning")]))
    assert row.findings == Severities(warning=1, error=2)


def test_known_apis_stay_listed_among_many_unknown_ones() -> None:
    apis = Apis()
    for number in range(3 * MAX_UNKNOWN):
        line = request(number, at=0, api=f"API {1000 + number}", api_key=1000 + number)
        apis.observe(line, number, BEGAN, ())
    apis.observe(request(1), 0, BEGAN, ())
    rows = apis.rows()
    assert len(rows) == MAX_UNKNOWN + 1
    assert apis.others == 2 * MAX_UNKNOWN
    assert any(row.api == "Fetch" for row in rows)


@pytest.mark.slow
@given(inconsistent_lines)
def test_lines_are_counted_in_any_order(lines: list[tuple[Line, int]]) -> None:
    apis = feed_torn(Apis(), lines)
    rows = apis.rows()
    frame_count = sum(isinstance(line, RequestLine | ResponseLine) for line, _ in lines)
    assert sum(row.requests + row.responses for row in rows) + apis.others == frame_count
    assert all(row.in_flight >= 0 for row in rows)


def test_lines_without_a_valid_time_are_counted() -> None:
    line = request(1)
    line.ts = timestamp(0)
    assert single_row(line, CloseLine(v=1, ts="", connection_id="n-1", client="", server="")).requests == 1
