"""Numbers over time, against the rows that the filter of each mark selects."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kproxy.browse.pictures.over_time import over_time
from kproxy.browse.session import BrowseSession
from kproxy.filters import parse
from kproxy.trace.lines import ErrorEntry
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sessions import BEGAN, read, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA


def finished(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def picture(session: BrowseSession, api: str = "", parts: int = 48) -> dict[str, Any]:
    made: dict[str, Any] = finished(over_time(session, session.view, api, parts))
    return made


@pytest.fixture(scope="module")
def session() -> BrowseSession:
    return session_of_capture(DATA / "pcap" / "java-4.3.1.pcap.gz")


def selected(session: BrowseSession, text: str) -> int:
    view = session.new_view()
    view.visible.choose(parse(text))
    while view.visible.work(1):
        pass
    return len(view.visible)


def between(made: dict[str, Any], part: int) -> str:
    start = made["from"] + part * made["width"]
    return f"ts>={timestamp(start * 1000)} and ts<{timestamp((start + made['width']) * 1000)}"


def test_the_filter_of_a_mark_selects_what_it_counts(session: BrowseSession) -> None:
    made = picture(session, "Fetch", 12)
    assert len(made["heat"]) > 12
    for part, level, count in made["heat"][::5]:
        low, high = made["bounds"][level], made["bounds"][level + 1]
        text = f"api=Fetch and latency>={low}us and latency<{high}us and {between(made, part)}"
        assert selected(session, text) == count, text
    for part, count in enumerate(made["errors"]):
        if count:
            assert selected(session, f"error and {between(made, part)}") == count
    assert sum(made["errors"]) == 12


def test_totals_are_those_of_all_rows(session: BrowseSession) -> None:
    made = picture(session)
    assert sum(count for _, count in made["apis"]) == 342
    assert dict(made["apis"])["Fetch"] == selected(session, "api=Fetch")
    by_client = made["series"]["client"]
    assert by_client["names"][0] == "lab-java"
    sizes = session.index.size
    [broker] = made["series"]["broker"]["values"]
    frames = [entry for entry in range(len(sizes)) if session.index.api[entry] >= 0]
    assert sum(broker) == sum(sizes[entry] for entry in frames)
    totals = [sum(values) for values in by_client["values"]]
    assert totals == sorted(totals, reverse=True)


def test_percentiles_are_latencies_that_were_measured() -> None:
    asked = [request(number, at=number / 1000) for number in range(100)]
    lines = [line for number, each in enumerate(asked) for line in (each, response(each, after_us=number + 1))]
    made = picture(session_of(lines), parts=1)
    assert made["percentiles"] == [[50, 99, 100]]
    assert sum(count for *_, count in made["heat"]) == 100


def test_an_exchange_belongs_to_the_time_of_its_response() -> None:
    asked, waits = request(1), request(2, at=10)
    failed = response(asked, after_us=9_000_000, errors=[ErrorEntry("x", 6, "NOT_LEADER_OR_FOLLOWER")])
    made = picture(session_of([asked, failed, waits]), parts=2)
    assert made["from"] == BEGAN // 1000 + 9_000_000
    assert made["errors"] == [1, 0]
    assert made["unanswered"] == [0, 1]
    assert made["percentiles"] == [[9_000_000] * 3, None]


def test_the_busiest_clients_have_numbers_of_their_own() -> None:
    made = picture(session_of(request(number, client_id=f"c{number}", size=number) for number in range(1, 9)), parts=1)
    assert made["series"]["client"]["names"] == ["c8", "c7", "c6", "c5", "c4", "c3"]
    assert made["series"]["client"]["values"] == [[8], [7], [6], [5], [4], [3]]
    assert made["series"]["client"]["others"] == 2
    assert made["series"]["broker"] == {"names": ["10.0.0.2:9092"], "values": [[36]], "others": 0}


def test_without_rows_there_are_no_numbers() -> None:
    made = picture(session_of([]))
    assert made["apis"] == made["heat"] == []
    assert made["series"]["client"] == {"names": [], "values": [], "others": 0}


def test_rows_that_come_or_go_meanwhile_do_no_harm() -> None:
    session = session_of([request(number, at=number) for number in range(10)])
    steps = over_time(session, session.view, "", 4)
    next(steps)
    session.source.add(*(request(number, at=number) for number in range(10, 20)))  # type: ignore[attr-defined]
    read(session)
    session.index.forget(session.index.places[0][5])
    made = finished(steps)
    assert sum(made["unanswered"]) == 5
