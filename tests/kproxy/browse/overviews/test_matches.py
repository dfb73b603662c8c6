"""Overviews limited to the rows that match a filter."""

from __future__ import annotations

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import parse
from kproxy.trace.lines import CloseLine, ErrorEntry, FindingLine, Line
from tests.kproxy.browse.sample_overviews import close_line, make_gap
from tests.kproxy.browse.sessions import LinesSource, finding, read, request, response, session_of


def sample_lines() -> list[Line]:
    lines: list[Line] = []
    for number in range(30):
        name = "shop" if number % 3 else "audit"
        request_line = request(number, at=number, client_id=name, api="Fetch" if number % 2 else "Metadata",
                               api_key=1 if number % 2 else 3, connection_id=f"n-{name}")  # fmt: skip
        lines += [request_line, response(request_line, findings=[finding()] if number == 3 else [])]
    return lines


def filter_session(session: BrowseSession, text: str) -> BrowseSession:
    session.visible.choose(parse(text))
    assert session.matching is not None
    read(session)
    return session


def requests_by_api(session: BrowseSession) -> dict[str | None, int]:
    assert session.matching is not None
    return {row.api: row.requests for row in session.matching.apis.rows()}


def test_no_overview_of_matches_exists_without_a_filter() -> None:
    assert session_of(sample_lines()).matching is None


def test_overviews_count_only_matching_rows() -> None:
    session = filter_session(session_of(sample_lines()), "client_id=audit")
    assert requests_by_api(session) == {"Fetch": 5, "Metadata": 5}
    assert session.matching is not None
    assert session.matching.connections == {"n-audit"}
    assert session.matching.clients == {("audit", "10.0.0.1")}
    assert [cause.count for cause in session.matching.findings.sorted_causes()] == [1]
    assert session.counted == (30, 30)
    filter_session(session, "client_id=shop")
    assert requests_by_api(session) == {"Fetch": 10, "Metadata": 10}
    assert session.matching.findings.sorted_causes() == []


def test_responses_that_the_filter_excludes_still_end_ongoing_findings() -> None:
    waiting, answered_request = request(1), request(2)
    findings = [
        FindingLine(
            v=1, ts=request_line.ts, connection_id=request_line.connection_id, code=code, name="waits",
            severity="error",
            message=code, direction="request", offset=request_line.offset,
        )
        for request_line, code in ((waiting, "C004"), (answered_request, "C020"))
    ]  # fmt: skip
    session = filter_session(
        session_of([waiting, answered_request, *findings, response(answered_request)]), "kind=finding"
    )
    assert len(session.visible) == 2
    assert session.matching is not None
    causes = session.matching.findings.sorted_causes()
    assert {cause.finding.code: cause.lasting for cause in causes} == {"C004": 1, "C020": 0}


def test_overviews_count_only_rows_with_findings() -> None:
    session = session_of(sample_lines())
    session.visible.choose(None, only_findings=True)
    assert session.matching is not None
    read(session)
    assert requests_by_api(session) == {"Fetch": 1}


def test_rows_added_later_are_counted_once() -> None:
    session = session_of(sample_lines(), phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, LinesSource)
    filter_session(session, "client_id=shop")
    later_request = request(40, at=40, client_id="shop", connection_id="n-shop")
    source.add(later_request, request(41, at=41, client_id="audit", connection_id="n-audit"))
    read(session)
    assert session.matching is not None
    [fetch] = [row for row in session.matching.apis.rows() if row.api == "Fetch"]
    assert (fetch.requests, fetch.in_flight) == (11, 1)
    source.add(response(later_request))
    read(session)
    [fetch] = [row for row in session.matching.apis.rows() if row.api == "Fetch"]
    assert (fetch.requests, fetch.responses, fetch.in_flight) == (11, 11, 0)


def test_close_line_counts_even_if_it_does_not_match_the_filter() -> None:
    session = session_of(sample_lines(), phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, LinesSource)
    filter_session(session, "api=Fetch")
    source.add(request(40, at=40))
    read(session)
    source.add(CloseLine(v=1, ts="2025-11-21T03:00:00.000000Z", connection_id="n-1", client="c", server="s"))
    read(session)
    assert session.matching is not None
    [fetch] = session.matching.apis.rows()
    assert (fetch.in_flight, fetch.unanswered) == (0, 1)


def test_request_possibly_answered_in_a_gap_is_neither_in_flight_nor_unanswered() -> None:
    session = session_of([*sample_lines(), request(40, at=40)], phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, LinesSource)
    filter_session(session, "api=Fetch")
    source.add(make_gap(), close_line())
    read(session)
    assert session.matching is not None
    [fetch] = session.matching.apis.rows()
    assert (fetch.in_flight, fetch.unanswered) == (0, 0)


def test_finding_in_a_successful_request_is_harmless_in_both_overviews() -> None:
    successful, failed = (
        request(number, findings=[finding(code=code)]) for number, code in enumerate(("S001", "S002"))
    )
    error = ErrorEntry("error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")
    session = session_of([successful, response(successful), failed, response(failed, errors=[error])])
    for findings in (session.overviews.findings, filter_session(session, "api=Fetch").view._matching.findings):
        assert {cause.finding.code: cause.is_harmless for cause in findings.sorted_causes()} == {
            "S001": True,
            "S002": False,
        }


def test_row_that_no_longer_matches_is_not_counted() -> None:
    session = session_of([request(1)], phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, LinesSource)
    filter_session(session, "not latency>5ms")
    assert requests_by_api(session) == {"Fetch": 1}
    source.add(response(request(1), after_us=9_000))
    read(session)
    session.view._matching._began -= 60
    read(session)
    assert requests_by_api(session) == {}
