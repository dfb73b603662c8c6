"""Overviews of the rows that a filter matches."""

from __future__ import annotations

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import parse
from kproxy.trace.lines import CloseLine, ErrorEntry, FindingLine, Line
from tests.kproxy.browse.sample_overviews import closed, missed
from tests.kproxy.browse.sessions import Given, finding, read, request, response, session_of


def lines() -> list[Line]:
    lines: list[Line] = []
    for number in range(30):
        name = "shop" if number % 3 else "audit"
        asked = request(number, at=number, client_id=name, api="Fetch" if number % 2 else "Metadata",
                        api_key=1 if number % 2 else 3, connection_id=f"n-{name}")  # fmt: skip
        lines += [asked, response(asked, findings=[finding()] if number == 3 else [])]
    return lines


def narrowed(session: BrowseSession, text: str) -> BrowseSession:
    session.visible.choose(parse(text))
    assert session.matching is not None
    read(session)
    return session


def asked(session: BrowseSession) -> dict[str | None, int]:
    assert session.matching is not None
    return {row.api: row.requests for row in session.matching.apis.rows()}


def test_without_a_filter_there_is_nothing_to_count_again() -> None:
    assert session_of(lines()).matching is None


def test_apis_and_findings_count_what_matches_and_things_are_those_that_it_mentions() -> None:
    session = narrowed(session_of(lines()), "client_id=audit")
    assert asked(session) == {"Fetch": 5, "Metadata": 5}
    assert session.matching is not None
    assert session.matching.connections == {"n-audit"}
    assert session.matching.clients == {("audit", "10.0.0.1")}
    assert [cause.count for cause in session.matching.findings.sorted_causes()] == [1]
    assert session.counted == (30, 30)
    narrowed(session, "client_id=shop")
    assert asked(session) == {"Fetch": 10, "Metadata": 10}
    assert session.matching.findings.sorted_causes() == []


def test_what_lasts_is_known_although_the_filter_excludes_what_ends_it() -> None:
    waiting, answered = request(1), request(2)
    late = [
        FindingLine(
            v=1, ts=asked.ts, connection_id=asked.connection_id, code=code, name="waits", severity="error",
            message=code, direction="request", offset=asked.offset,
        )
        for asked, code in ((waiting, "C004"), (answered, "C020"))
    ]  # fmt: skip
    session = narrowed(session_of([waiting, answered, *late, response(answered)]), "kind=finding")
    assert len(session.visible) == 2
    assert session.matching is not None
    causes = session.matching.findings.sorted_causes()
    assert {cause.finding.code: cause.lasting for cause in causes} == {"C004": 1, "C020": 0}


def test_only_findings_narrows_too() -> None:
    session = session_of(lines())
    session.visible.choose(None, only_findings=True)
    assert session.matching is not None
    read(session)
    assert asked(session) == {"Fetch": 1}


def test_what_comes_later_is_counted_once() -> None:
    session = session_of(lines(), phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, Given)
    narrowed(session, "client_id=shop")
    late = request(40, at=40, client_id="shop", connection_id="n-shop")
    source.add(late, request(41, at=41, client_id="audit", connection_id="n-audit"))
    read(session)
    assert session.matching is not None
    [fetch] = [row for row in session.matching.apis.rows() if row.api == "Fetch"]
    assert (fetch.requests, fetch.in_flight) == (11, 1)
    source.add(response(late))
    read(session)
    [fetch] = [row for row in session.matching.apis.rows() if row.api == "Fetch"]
    assert (fetch.requests, fetch.responses, fetch.in_flight) == (11, 11, 0)


def test_the_end_of_a_connection_counts_whether_it_matches_or_not() -> None:
    session = session_of(lines(), phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, Given)
    narrowed(session, "api=Fetch")
    source.add(request(40, at=40))
    read(session)
    source.add(CloseLine(v=1, ts="2025-11-21T03:00:00.000000Z", connection_id="n-1", client="c", server="s"))
    read(session)
    assert session.matching is not None
    [fetch] = session.matching.apis.rows()
    assert (fetch.in_flight, fetch.unanswered) == (0, 1)


def test_what_may_have_been_answered_in_a_gap_is_neither_in_flight_nor_unanswered() -> None:
    session = session_of([*lines(), request(40, at=40)], phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, Given)
    narrowed(session, "api=Fetch")
    source.add(missed(), closed())
    read(session)
    assert session.matching is not None
    [fetch] = session.matching.apis.rows()
    assert (fetch.in_flight, fetch.unanswered) == (0, 0)


def test_a_finding_in_a_request_that_succeeded_is_harmless_in_what_matches_too() -> None:
    good, bad = (request(number, findings=[finding(code=code)]) for number, code in enumerate(("S001", "S002")))
    error = ErrorEntry("error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")
    session = session_of([good, response(good), bad, response(bad, errors=[error])])
    for findings in (session.overviews.findings, narrowed(session, "api=Fetch").view._matching.findings):
        assert {cause.finding.code: cause.is_harmless for cause in findings.sorted_causes()} == {
            "S001": True,
            "S002": False,
        }


def test_a_row_that_matches_no_more_is_taken_out() -> None:
    session = session_of([request(1)], phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, Given)
    narrowed(session, "not latency>5ms")
    assert asked(session) == {"Fetch": 1}
    source.add(response(request(1), after_us=9_000))
    read(session)
    session.view._matching._began -= 60
    read(session)
    assert asked(session) == {}
