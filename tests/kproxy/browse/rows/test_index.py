"""The index: rows, their states, and what is let go."""

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
from tests.kproxy.browse.sample_overviews import closed, missed, opened
from tests.kproxy.browse.sessions import BEGAN, Given, finding, read, request, response, session_of
from tests.kproxy.capture_results import DATA, lines_of


def states(session: BrowseSession) -> list[RowState]:
    return [RowState(state) for state in session.index.state]


def test_a_request_and_its_response_are_one_row() -> None:
    first, second = request(1), request(2, at=0.5)
    session = session_of([first, second, response(second, after_us=70), response(first, findings=[finding()])])
    assert list(session.index.latency) == [1000, 70]
    assert states(session) == [RowState.ANSWERED, RowState.ANSWERED]
    assert list(session.index.severity) == [2, 0]
    exchange = session.exchange(0)
    assert exchange is not None
    assert (exchange.request, exchange.response) == (first, response(first, findings=[finding()]))


def test_what_is_not_answered_waits_until_its_connection_ends() -> None:
    one_way = request(2, api="Produce", api_key=0, acks=0)
    session = session_of([request(1), one_way])
    assert states(session) == [RowState.WAITING, RowState.ONE_WAY]
    assert session.index.waiting() == 1
    assert session.index.waited(0, BEGAN + 5_000_000) == 5000
    assert isinstance(session.source, Given)
    session.source.add(closed())
    read(session)
    assert states(session)[0] is RowState.UNANSWERED
    assert session.index.waited(0, BEGAN) is None
    assert session.index.waiting() == 0


def test_a_response_to_nothing_that_was_seen_has_a_row_of_its_own() -> None:
    asked = request(1)
    session = session_of([response(asked), asked, response(asked), response(asked)])
    assert states(session) == [RowState.ORPHAN, RowState.ANSWERED, RowState.ORPHAN]


def test_a_correlation_id_that_is_used_twice_is_answered_in_order() -> None:
    first, second = request(7, offset=0), request(7, at=1, offset=100)
    session = session_of([first, second, response(first, after_us=1), response(second, after_us=2)])
    assert list(session.index.latency) == [1, 2]


def test_a_response_is_of_the_request_whose_offset_it_names() -> None:
    first, second = request(7, offset=0), request(7, offset=100)
    session = session_of([first, second, response(second, after_us=2), response(first, after_us=1)])
    assert list(session.index.latency) == [1, 2]
    assert states(session_of([first, response(second)])) == [RowState.WAITING, RowState.ORPHAN]


def test_in_a_trace_without_request_offsets_the_oldest_request_of_the_id_is_answered() -> None:
    first, second = request(7, offset=0), request(7, offset=100)
    answers = [response(second, after_us=2, request_offset=None), response(first, after_us=1, request_offset=None)]
    assert list(session_of([first, second, *answers]).index.latency) == [2, 1]


def test_an_id_that_is_used_again_answers_nothing_of_before() -> None:
    first, second = request(7), request(7, at=9)
    session = session_of([opened(), first, opened(), second, response(second)])
    assert states(session) == [RowState.EVENT, RowState.UNANSWERED, RowState.EVENT, RowState.ANSWERED]


@pytest.mark.parametrize(("gap", "state"), [
    (missed(), RowState.UNSEEN), (missed(direction="both"), RowState.UNSEEN), (missed(""), RowState.UNSEEN),
    (missed(direction="request"), RowState.WAITING), (missed("n-2"), RowState.WAITING),
])  # fmt: skip
def test_a_response_may_be_among_what_was_not_seen(gap: GapLine, state: RowState) -> None:
    early, late = request(1), request(2)
    session = session_of([early, late, gap, response(late)])
    assert states(session) == [state, RowState.ANSWERED, RowState.EVENT]
    assert session.index.waiting() == (state is RowState.WAITING)
    assert isinstance(session.source, Given)
    session.source.add(closed())
    read(session)
    assert states(session)[0] is (RowState.UNANSWERED if state is RowState.WAITING else RowState.UNSEEN)


def test_events_have_rows() -> None:
    lines = [
        opened(),
        FindingLine(v=1, ts=timestamp(BEGAN), connection_id="n-1", code="C1", name="x", severity="error", message="m"),
        missed(),
        closed(),
    ]
    session = session_of(lines)
    assert [session.exchange(row).event for row in range(4)] == lines  # type: ignore[union-attr]
    assert list(session.index.severity) == [0, 3, 0, 0]
    assert list(session.index.connection_events) == [1, 0, 0, 1]


def test_rows_whose_lines_are_no_longer_kept_go() -> None:
    session = BrowseSession(Given(keep=20_000))
    assert isinstance(session.source, Given)
    for number in range(400):
        asked = request(number, at=number)
        session.source.add(asked, response(asked))
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
        len(column) == len(index.at) for column in (*index.places, *index.sizes, index.connection_events, index.client)
    )


def test_a_response_ends_the_wait_of_a_request_whose_row_is_no_longer_kept() -> None:
    session = BrowseSession(Given(keep=20_000))
    assert isinstance(session.source, Given)
    about = {"api": "JoinGroup", "api_key": 11, "group_id": "g", "member_id": "m"}
    waits = request(1_000, connection_id="n-waits", findings=[finding()], **about)
    session.source.add(waits)
    for number in range(400):
        asked = request(number, at=number)
        session.source.add(asked, response(asked))
        read(session)
    index, overviews = session.index, session.overviews
    assert index.first > 0
    assert [row.in_flight for row in overviews.connections.rows()] == [1, 0]
    session.source.add(response(waits, after_us=400_000_000, group_id="g", member_id="m"))
    read(session)
    assert RowState(index.state[-1]) is RowState.ORPHAN
    assert [row.in_flight for row in overviews.connections.rows()] == [0, 0]
    assert [api.in_flight for api in overviews.apis.rows()] == [0, 0]
    assert [cause.is_harmless for cause in overviews.findings.sorted_causes()] == [True]
    view = overviews.groups.view("g", index.now)
    assert view is not None
    assert [event.until is None for lane in view.lanes for event in lane.transitions] == [False]


def test_lines_that_are_none_are_counted() -> None:
    session = BrowseSession(Given())
    assert isinstance(session.source, Given)
    session.source.spool.append(b"nonsense\n{}\n\n")
    read(session)
    assert session.bad == 2


def test_the_incomplete_last_line_of_a_killed_run_is_no_bad_line(tmp_path: Path) -> None:
    torn = b'no line\n{"v": 1, "ki'
    (tmp_path / "t").write_bytes(torn)
    store = FileStore(os.open(tmp_path / "t", os.O_RDONLY))
    store.end()
    source = Given()
    source.store = store
    session = BrowseSession(source)
    read(session)
    store.close()
    packed = BrowseSession(Given())
    assert isinstance(packed.source, Given)
    packed.source.spool.append(torn)
    packed.source.spool.end()
    read(packed)
    assert (session.bad, packed.bad) == (1, 1)


def test_times() -> None:
    assert time_of(timestamp(BEGAN + 1000)) == BEGAN + 1000
    assert time_of("when?") == 0
    assert time_of("9999-12-31T23:59:59.999999Z") == time_of("0001-01-01T00:00:00.000000Z") == 0


LINES = list(lines_of(DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"))


@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_make_rows(lines: list[object], count: int) -> None:
    session = session_of(lines[:count])  # type: ignore[arg-type]
    for row in range(session.index.end):
        assert session.exchange(row) is not None


def test_numbers_that_cannot_be_do_no_harm() -> None:
    asked = request(1, size=-5, api_key=-(1 << 62), offset=1 << 62)
    session = session_of(
        [asked, response(asked, size=1 << 62, latency_us=1 << 62), response(asked, latency_us=-(1 << 62))]
    )
    assert len(session.index.at) == 2
