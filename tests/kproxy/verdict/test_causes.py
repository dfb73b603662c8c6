"""Causes: what lasts, what repeats, what follows from what, in bounded memory."""

from __future__ import annotations

import pytest

from kproxy.trace.lines import FORMAT, CloseLine, FindingLine, RepeatedFinding, RepeatEntry, StallLine
from kproxy.verdict import causes as causes_module
from kproxy.verdict.causes import Cause, Causes
from tests.kproxy.browse.sessions import finding, request, response

TS = "2026-01-01T00:00:00.000000Z"
ENDS = {"client": "10.0.0.9:50000", "server": "10.0.0.1:9092"}


def collected(*lines: object) -> Causes:
    causes = Causes()
    for line in lines:
        causes.add(line)  # type: ignore[arg-type]
    return causes


def waits(code: str, severity: str, offset: int, connection_id: str) -> FindingLine:
    return FindingLine(
        v=FORMAT, ts=TS, connection_id=connection_id, code=code, name="waits", severity=severity, message=code,
        direction="request", offset=offset,
    )  # fmt: skip


def codes(found: list[Cause]) -> list[str]:
    return [cause.finding.code for cause in found]


def test_a_request_that_waits_lasts_until_its_response_or_the_end_of_its_connection() -> None:
    asked = request(1)
    late = waits("C020", "warning", asked.offset, asked.connection_id)
    close = CloseLine(v=FORMAT, ts=TS, connection_id=asked.connection_id, **ENDS)
    assert [cause.lasting for cause in collected(asked, late).verdict()] == [1]
    assert [cause.lasting for cause in collected(asked, late, response(asked)).verdict()] == [0]
    assert [cause.lasting for cause in collected(asked, late, close).verdict()] == [0]


def test_a_stall_lasts_until_its_last_line_and_becomes_more_severe() -> None:
    def stalled(severity: str) -> FindingLine:
        found = waits("G001", severity, 7, "n-1")
        found.group_id = "g"
        return found

    ended = StallLine(
        v=FORMAT, ts=TS, connection_id="n-1", group_id="g", stall="join-waits", severity="error", since=TS, until=TS,
        duration_us=1, message="", hint="", request_offset=7,
    )  # fmt: skip
    [lasting] = collected(stalled("warning"), stalled("error")).verdict()
    assert (lasting.finding.severity, lasting.count, lasting.lasting) == ("error", 2, 2)
    [over] = collected(stalled("warning"), stalled("error"), ended).verdict()
    assert over.lasting == 0


def test_a_consequence_is_below_its_cause_only_on_the_same_connection() -> None:
    late, overdue = waits("C020", "warning", 7, "n-1"), waits("C004", "error", 7, "n-1")
    [root] = collected(late, overdue).verdict()
    assert (root.finding.code, codes(root.consequences)) == ("C004", ["C020"])
    elsewhere = waits("C004", "error", 7, "n-2")
    assert codes(collected(late, elsewhere).verdict()) == ["C004", "C020"]


def test_closed_connections_are_one_cause_if_they_are_about_the_same_request() -> None:
    def closed(code: str, connection_id: str, message: str) -> FindingLine:
        found = waits(code, "error", 7, connection_id)
        found.message = message
        return found

    first = closed("C013", "n-1", "the server closed the connection while Metadata v1 (correlation id 1) waited")
    field = closed("C022", "n-2", "the request is right; b:9092 closes Metadata v1 only if topics is null")
    [cause] = collected(first, field).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("C022", ["C013"])
    other = closed("C022", "n-2", "the request is right; b:9092 closes Fetch v1 only if topics is null")
    assert sorted(codes(collected(first, other).verdict())) == ["C013", "C022"]


def test_repeats_with_and_without_a_mark_count_once() -> None:
    first, second = request(1), request(2)
    marked = response(second, repeats=[RepeatedFinding("L003", "error", offset=first.offset, count=2)])
    close = CloseLine(
        v=FORMAT, ts=TS, connection_id=first.connection_id, **ENDS, repeated=[RepeatEntry("L003", "wrong", 5)]
    )
    causes = collected(first, response(first, findings=[finding("error", "L003")]), second, marked, close)
    assert [cause.count for cause in causes.verdict()] == [6]
    assert [cause.count for cause in causes.verdict()] == [6]


def test_what_a_running_proxy_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "MAX_CONNECTIONS", 50)
    monkeypatch.setattr(causes_module, "_MAX_REPEATED", 20)
    asked = request(1, findings=[finding("error", "L003")])
    causes = collected(asked)
    for number in range(200):
        causes.add(
            CloseLine(v=FORMAT, ts=TS, connection_id=f"n-{number}", **ENDS, repeated=[RepeatEntry("L003", "wrong", 1)])
        )
    assert len(causes._repeated) <= 20
    [cause] = causes.verdict()
    assert (cause.count, len(cause.connections)) == (201, 50)
