"""The row index: which lines form a row, the states of rows, and when rows are dropped."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.browse.rows.index import RowState, time_of
from kproxy.browse.rows.store import FileStore
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import FindingLine, GapLine
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sample_overviews import close_line, make_gap, open_line
from tests.kproxy.browse.sessions import BEGAN, LinesSource, finding, read, request, response, session_of
from tests.kproxy.capture_results import DATA, lines_of


def states(session: BrowseSession) -> list[RowState]:
    return [RowState(state) for state in session.index.state]


def test_request_and_its_response_share_one_row() -> None:
    first, second = request(1), request(2, at=0.5)
    session = session_of([first, second, response(second, after_us=70), response(first, findings=[finding()])])
    assert list(session.index.latency) == [1000, 70]
    assert states(session) == [RowState.ANSWERED, RowState.ANSWERED]
    assert list(session.index.severity) == [2, 0]
    exchange = session.exchange(0)
    assert exchange is not None
    assert (exchange.request, exchange.response) == (first, response(first, findings=[finding()]))


def test_request_without_a_response_waits_until_its_connection_ends() -> None:
    one_way = request(2, api="Produce", api_key=0, acks=0)
    session = session_of([request(1), one_way])
    assert states(session) == [RowState.WAITING, RowState.ONE_WAY]
    assert session.index.waiting() == 1
    assert session.index.latency_or_wait(0, BEGAN + 5_000_000) == 5000
    assert isinstance(session.source, LinesSource)
    session.source.add(close_line())
    read(session)
    assert states(session)[0] is RowState.UNANSWERED
    assert session.index.latency_or_wait(0, BEGAN) is None
    assert session.index.waiting() == 0


def test_response_without_its_request_is_a_separate_row() -> None:
    request_line = request(1)
    session = session_of([response(request_line), request_line, response(request_line), response(request_line)])
    assert states(session) == [RowState.ORPHAN, RowState.ANSWERED, RowState.ORPHAN]


def test_requests_with_the_same_correlation_id_are_answered_in_order() -> None:
    first, second = request(7, offset=0), request(7, at=1, offset=100)
    session = session_of([first, second, response(first, after_us=1), response(second, after_us=2)])
    assert list(session.index.latency) == [1, 2]


def test_response_belongs_to_the_request_at_its_request_offset() -> None:
    first, second = request(7, offset=0), request(7, offset=100)
    session = session_of([first, second, response(second, after_us=2), response(first, after_us=1)])
    assert list(session.index.latency) == [1, 2]
    assert states(session_of([first, response(second)])) == [RowState.WAITING, RowState.ORPHAN]


def test_without_request_offsets_the_oldest_request_is_answered() -> None:
    first, second = request(7, offset=0), request(7, offset=100)
    responses = [response(second, after_us=2, request_offset=None), response(first, after_us=1, request_offset=None)]
    assert list(session_of([first, second, *responses]).index.latency) == [2, 1]


def test_response_on_a_reused_connection_id_answers_the_later_request() -> None:
    first, second = request(7), request(7, at=9)
    session = session_of([open_line(), first, open_line(), second, response(second)])
    assert states(session) == [RowState.EVENT, RowState.UNANSWERED, RowState.EVENT, RowState.ANSWERED]


@pytest.mark.parametrize(("gap", "state"), [
    (make_gap(), RowState.UNSEEN), (make_gap(direction="both"), RowState.UNSEEN), (make_gap(""), RowState.UNSEEN),
    (make_gap(direction="request"), RowState.WAITING), (make_gap("n-2"), RowState.WAITING),
])  # fmt: skip
def test_request_before_a_gap_may_have_been_answered(gap: GapLine, state: RowState) -> None:
    earlier_request, later_request = request(1), request(2)
    session = session_of([earlier_request, later_request, gap, response(later_request)])
    assert states(session) == [state, RowState.ANSWERED, RowState.EVENT]
    assert session.index.waiting() == (state is RowState.WAITING)
    assert isinstance(session.source, LinesSource)
    session.source.add(close_line())
    read(session)
    assert states(session)[0] is (RowState.UNANSWERED if state is RowState.WAITING else RowState.UNSEEN)


def test_each_event_has_its_own_row() -> None:
    lines = [
        open_line(),
        FindingLine(v=1, ts=timestamp(BEGAN), connection_id="n-1", code="C1", name="x", severity="error", message="m"),
        make_gap(),
        close_line(),
    ]
    session = session_of(lines)
    assert [session.exchange(row).event for row in range(4)] == lines  # type: ignore[union-attr]
    assert list(session.index.severity) == [0, 3, 0, 0]
    assert list(session.index.connection_events) == [1, 0, 0, 1]


def test_rows_are_dropped_when_the_store_drops_their_lines() -> None:
    session = BrowseSession(LinesSource(keep=20_000))
    assert isinstance(session.source, LinesSource)
    for number in range(400):
        request_line = request(number, at=number)
        session.source.add(request_line, response(request_line))
        read(session)
    index = session.index
    assert 0 < index.first < 400
    assert index.end == 400
    assert session.exchange(index.first - 1) is None
    kept = session.exchange(index.first)
    assert kept is not None
    assert kept.request is not None
    assert kept.request.correlation_id == index.first
    assert len(session.visible) == len(index.at) == 400 - index.first
    assert all(
        len(column) == len(index.at)
        for column in (*index.locations, *index.sizes, index.connection_events, index.client)
    )


def test_response_still_answers_a_request_whose_row_was_dropped() -> None:
    session = BrowseSession(LinesSource(keep=20_000))
    assert isinstance(session.source, LinesSource)
    join_columns = {"api": "JoinGroup", "api_key": 11, "group_id": "g", "member_id": "m"}
    join = request(1_000, connection_id="n-waits", findings=[finding()], **join_columns)
    session.source.add(join)
    for number in range(400):
        request_line = request(number, at=number)
        session.source.add(request_line, response(request_line))
        read(session)
    index, overviews = session.index, session.overviews
    assert index.first > 0
    assert [row.in_flight for row in overviews.connections.rows()] == [1, 0]
    session.source.add(response(join, after_us=400_000_000, group_id="g", member_id="m"))
    read(session)
    assert RowState(index.state[-1]) is RowState.ORPHAN
    assert [row.in_flight for row in overviews.connections.rows()] == [0, 0]
    assert [api.in_flight for api in overviews.apis.rows()] == [0, 0]
    assert [cause.is_harmless for cause in overviews.findings.sorted_causes()] == [True]
    view = overviews.groups.view("g", index.latest_at)
    assert view is not None
    assert [event.until is None for lane in view.lanes for event in lane.transitions] == [False]


def test_invalid_lines_are_counted() -> None:
    session = BrowseSession(LinesSource())
    assert isinstance(session.source, LinesSource)
    session.source.spool.append(b"nonsense\n{}\n\n")
    read(session)
    assert session.bad == 2


def test_incomplete_last_line_is_not_an_invalid_line(tmp_path: Path) -> None:
    incomplete = b'no line\n{"v": 1, "ki'
    (tmp_path / "t").write_bytes(incomplete)
    store = FileStore(os.open(tmp_path / "t", os.O_RDONLY))
    store.end()
    source = LinesSource()
    source.store = store
    session = BrowseSession(source)
    read(session)
    store.close()
    spool_session = BrowseSession(LinesSource())
    assert isinstance(spool_session.source, LinesSource)
    spool_session.source.spool.append(incomplete)
    spool_session.source.spool.end()
    read(spool_session)
    assert (session.bad, spool_session.bad) == (1, 1)


def test_invalid_times_are_read_as_zero() -> None:
    assert time_of(timestamp(BEGAN + 1000)) == BEGAN + 1000
    assert time_of("when?") == 0
    assert time_of("9999-12-31T23:59:59.999999Z") == time_of("0001-01-01T00:00:00.000000Z") == 0


LINES = list(lines_of(DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"))


@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_become_rows(lines: list[object], count: int) -> None:
    session = session_of(lines[:count])  # type: ignore[arg-type]
    for row in range(session.index.end):
        assert session.exchange(row) is not None


def test_impossible_numbers_are_accepted() -> None:
    request_line = request(1, size=-5, api_key=-(1 << 62), offset=1 << 62)
    session = session_of(
        [
            request_line,
            response(request_line, size=1 << 62, latency_us=1 << 62),
            response(request_line, latency_us=-(1 << 62)),
        ]
    )
    assert len(session.index.at) == 2
