"""Charts over time are compared with the rows that the filter of each mark selects."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from dissectors.trackers.allowed_waits import LONG_POLLS
from kproxy.browse.pictures.over_time import over_time
from kproxy.browse.session import BrowseSession
from kproxy.filters import parse
from kproxy.trace.lines import ErrorEntry
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sessions import BEGAN, read, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA


def run_to_end(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def draw_over_time(session: BrowseSession, api: str = "", part_count: int = 48) -> dict[str, Any]:
    data: dict[str, Any] = run_to_end(over_time(session, session.view, api, part_count))
    return data


@pytest.fixture(scope="module")
def session() -> BrowseSession:
    return session_of_capture(DATA / "pcap" / "java-4.3.1.pcap.gz")


def count_selected(session: BrowseSession, filter_text: str) -> int:
    view = session.new_view()
    view.visible.choose(parse(filter_text))
    while view.visible.work(1):
        pass
    return len(view.visible)


def part_filter(data: dict[str, Any], index: int) -> str:
    start = data["from"] + index * data["width"]
    return f"ts>={timestamp(start * 1000)} and ts<{timestamp((start + data['width']) * 1000)}"


def test_filter_of_each_mark_selects_the_rows_that_it_counts(session: BrowseSession) -> None:
    data = draw_over_time(session, "Fetch", 12)
    assert len(data["heat"]) > 12
    for part, level, count in data["heat"][::5]:
        low, high = data["bounds"][level], data["bounds"][level + 1]
        filter_text = f"api=Fetch and latency>={low}us and latency<{high}us and {part_filter(data, part)}"
        assert count_selected(session, filter_text) == count, filter_text
    for part, count in enumerate(data["errors"]):
        if count:
            assert count_selected(session, f"error and {part_filter(data, part)}") == count
    assert sum(data["errors"]) == 12


def test_highest_latencies_separate_apis_that_may_wait(session: BrowseSession) -> None:
    for api in ("", "Fetch"):
        data = draw_over_time(session, api)
        for end, us, name in filter(None, data["highest"]):
            part = (end - data["from"]) // data["width"]
            assert count_selected(session, f"api={name} and latency={us}us and {part_filter(data, part)}") == 1
        at_once, waited = data["highest"]
        highest_us = max(percentiles[2] for percentiles in data["percentiles"] if percentiles)
        assert highest_us == max(at_once[1] if at_once else 0, waited[1])
    assert at_once is None
    assert waited[2] == "Fetch"
    at_once, waited = draw_over_time(session)["highest"]
    assert at_once[2] not in LONG_POLLS
    assert not count_selected(
        session, f"not ({' or '.join(f'api={api}' for api in LONG_POLLS)}) and latency>{at_once[1]}us"
    )
    assert draw_over_time(session, "Vote")["highest"] == [None, None]


def test_totals_cover_all_rows(session: BrowseSession) -> None:
    data = draw_over_time(session)
    assert sum(count for _, count in data["apis"]) == 342
    assert dict(data["apis"])["Fetch"] == count_selected(session, "api=Fetch")
    by_client = data["series"]["client"]
    assert by_client["names"][0] == "lab-java"
    sizes = session.index.size
    [broker] = data["series"]["broker"]["values"]
    frames = [entry for entry in range(len(sizes)) if session.index.api[entry] >= 0]
    assert sum(broker) == sum(sizes[entry] for entry in frames)
    totals = [sum(values) for values in by_client["values"]]
    assert totals == sorted(totals, reverse=True)


def test_percentiles_are_latencies_that_were_measured() -> None:
    requests = [request(number, at=number / 1000) for number in range(100)]
    lines = [
        line
        for number, request_line in enumerate(requests)
        for line in (request_line, response(request_line, after_us=number + 1))
    ]
    data = draw_over_time(session_of(lines), part_count=1)
    assert data["percentiles"] == [[50, 99, 100]]
    assert sum(count for *_, count in data["heat"]) == 100


def test_exchange_is_counted_at_the_time_of_its_response() -> None:
    answered_request, unanswered_request = request(1), request(2, at=10)
    error_response = response(
        answered_request, after_us=9_000_000, errors=[ErrorEntry("x", 6, "NOT_LEADER_OR_FOLLOWER")]
    )
    data = draw_over_time(session_of([answered_request, error_response, unanswered_request]), part_count=2)
    assert data["from"] == BEGAN // 1000 + 9_000_000
    assert data["errors"] == [1, 0]
    assert data["unanswered"] == [0, 1]
    assert data["percentiles"] == [[9_000_000] * 3, None]


def test_busiest_clients_have_their_own_series() -> None:
    data = draw_over_time(
        session_of(request(number, client_id=f"c{number}", size=number) for number in range(1, 9)), part_count=1
    )
    assert data["series"]["client"]["names"] == ["c8", "c7", "c6", "c5", "c4", "c3"]
    assert data["series"]["client"]["values"] == [[8], [7], [6], [5], [4], [3]]
    assert data["series"]["client"]["others"] == 2
    assert data["series"]["broker"] == {"names": ["10.0.0.2:9092"], "values": [[36]], "others": 0}


def test_session_without_rows_has_no_series() -> None:
    data = draw_over_time(session_of([]))
    assert data["apis"] == data["heat"] == []
    assert data["series"]["client"] == {"names": [], "values": [], "others": 0}


def test_rows_added_or_dropped_during_the_chart_are_not_counted() -> None:
    session = session_of([request(number, at=number) for number in range(10)])
    steps = over_time(session, session.view, "", 4)
    next(steps)
    session.source.add(*(request(number, at=number) for number in range(10, 20)))  # type: ignore[attr-defined]
    read(session)
    session.index.forget(session.index.locations[0][5])
    data = run_to_end(steps)
    assert sum(data["unanswered"]) == 5
