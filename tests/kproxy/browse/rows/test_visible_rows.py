"""Visible rows are filtered, limited to findings and sorted while rows are added and changed."""

import pytest

from kproxy.browse.rows.visible_rows import Order
from kproxy.browse.session import BrowseSession, Note
from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import parse
from kproxy.trace.lines import Line
from tests.kproxy.browse.sessions import LinesSource, finding, read, request, response, session_of


def visible_rows(session: BrowseSession) -> list[int]:
    read(session)
    return [session.visible[position] for position in range(len(session.visible))]


def exchanges(*latencies: int) -> list[Line]:
    lines: list[Line] = []
    for number, latency in enumerate(latencies):
        request_line = request(number, at=number, api_key=1 if number % 2 else 3, client_id=f"c{9 - number}")
        lines += [request_line, response(request_line, after_us=latency, findings=[finding()] if latency > 500 else [])]
    return lines


def test_filter_treats_request_and_response_as_one_row() -> None:
    request_line = request(0, acks=1)
    session = session_of([request_line, response(request_line, after_us=900), *exchanges(5)])
    session.visible.choose(parse("acks=1 and latency>500us"))
    assert visible_rows(session) == [0]


def test_row_appears_or_disappears_with_its_response() -> None:
    request_line = request(0)
    session = session_of([request_line])
    session.visible.choose(parse("kind=request"))
    assert visible_rows(session) == [0]
    assert isinstance(session.source, LinesSource)
    session.source.add(response(request_line))
    assert visible_rows(session) == []
    session.visible.choose(parse("latency>1us"))
    second = request(1)
    session.source.add(second)
    assert visible_rows(session) == [0]
    session.source.add(response(second))
    assert visible_rows(session) == [0, 1]


def test_filter_can_be_combined_with_only_findings() -> None:
    session = session_of(exchanges(5, 600, 700, 6))
    session.visible.choose(None, only_findings=True)
    assert visible_rows(session) == [1, 2]
    session.visible.choose(parse("api_key=1"), only_findings=True)
    assert visible_rows(session) == [1]
    assert session.visible.has(1)
    assert not session.visible.has(3)
    session.visible.choose(None)
    assert visible_rows(session) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order.TIME, [0, 1, 2, 3]),
        (Order.LATENCY, [2, 1, 3, 0]),
        (Order.API, [1, 3, 0, 2]),
        (Order.CLIENT, [3, 2, 1, 0]),
        (Order.SEVERITY, [1, 2, 0, 3]),
    ],
)
def test_rows_are_sorted_by_each_order(order: Order, expected: list[int]) -> None:
    session = session_of(exchanges(5, 600, 700, 6))
    session.visible.sort(order)
    assert visible_rows(session) == expected
    assert [session.visible.position(row) for row in expected] == [0, 1, 2, 3]


def test_sort_order_can_be_reversed() -> None:
    session = session_of(exchanges(5, 600, 700, 6))
    session.visible.sort(Order.LATENCY, reverse=True)
    assert visible_rows(session) == [0, 3, 1, 2]
    session.visible.sort(Order.TIME, reverse=True)
    assert visible_rows(session) == [3, 2, 1, 0]


@pytest.mark.parametrize(("reverse", "expected"), [(False, [1, 0, 2]), (True, [0, 1, 2])])
def test_row_without_a_latency_is_last_in_both_orders(reverse: bool, expected: list[int]) -> None:
    session = session_of([*exchanges(5, 600), request(7, acks=0)])
    session.visible.sort(Order.LATENCY, reverse=reverse)
    assert visible_rows(session) == expected


def test_rows_added_later_are_inserted_in_sort_order() -> None:
    session = session_of(exchanges(5, 600))
    session.visible.sort(Order.LATENCY)
    assert visible_rows(session) == [1, 0]
    assert isinstance(session.source, LinesSource)
    request_line = request(9, at=9)
    session.source.add(request_line, response(request_line, after_us=100))
    session.visible._sort_took = 0
    assert visible_rows(session) == [1, 2, 0]


def unordered_lines() -> list[Line]:
    """Return the requests of rows 0 to 5, sent at 0, 2, 1, 5, 3 and 4 s."""
    return [request(number, at=at, client_id=f"c{number % 2}") for number, at in enumerate([0, 2, 1, 5, 3, 4])]


def test_rows_are_sorted_by_time() -> None:
    session = session_of(unordered_lines())
    assert visible_rows(session) == [0, 2, 1, 4, 5, 3]
    assert [session.visible.position(row) for row in range(6)] == [0, 2, 1, 5, 3, 4]
    session.visible.sort(Order.TIME, reverse=True)
    assert visible_rows(session) == [3, 5, 4, 1, 2, 0]


def test_filtered_rows_are_sorted_by_time() -> None:
    session = session_of(unordered_lines())
    session.visible.choose(parse("client=c0"))
    assert visible_rows(session) == [0, 2, 4]
    session.visible.choose(parse("client=c1"))
    assert visible_rows(session) == [1, 5, 3]
    assert [session.visible.has(row) for row in range(6)] == [False, True, False, True, False, True]
    assert isinstance(session.source, LinesSource)
    session.source.add(request(7, at=3.5, client_id="c1"))
    assert visible_rows(session) == [1, 6, 5, 3]


def test_dropped_rows_are_no_longer_visible() -> None:
    lines = [request(number, at=number + (1.5 if number % 3 == 1 else 0)) for number in range(200)]
    session = session_of([], keep=8192, phase=SourcePhase.LIVE)
    assert isinstance(session.source, LinesSource)
    for start in range(0, 200, 10):
        session.source.add(*lines[start : start + 10])
        read(session)
    assert session.index.first > 0
    expected = sorted(range(session.index.first, 200), key=lambda row: (lines[row].ts, row))
    assert visible_rows(session) == expected
    session.visible.choose(parse("kind=request"))
    assert visible_rows(session) == expected
    session.source.add(*(request(number, at=number + 300) for number in range(100)))
    kept = visible_rows(session)
    assert kept == sorted(range(session.index.first, 300), key=lambda row: (session.index.time(row), row))
    assert session.index.first > expected[0]


def test_filter_also_searches_unsaved_notes() -> None:
    session = session_of(exchanges(5, 600, 700))
    session.visible.choose(parse("note~odd or marked"))
    assert visible_rows(session) == []
    session.annotate(1, Note(text="odd"))
    session.annotate(2, Note(marked=True))
    assert visible_rows(session) == [1, 2]
    session.annotate(1, Note())
    assert visible_rows(session) == [2]
    session.annotate(0, Note(text="see order 17"))
    session.visible.choose(parse("'order 17'"))
    assert visible_rows(session) == [0]
