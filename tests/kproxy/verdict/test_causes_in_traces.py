"""Causes in traces: the right one first, each with its counts and places, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given

from kproxy.trace.lines import (
    CloseLine,
    EditEntry,
    ErrorEntry,
    FindingEntry,
    FindingLine,
    Line,
    RepeatedFinding,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.timestamps import timestamp
from kproxy.verdict import causes as causes_module
from kproxy.verdict.cause import ConnectionFindings
from kproxy.verdict.causes import Causes
from tests.kproxy.browse.sample_overviews import captured, closed, opened, torn
from tests.kproxy.browse.sessions import BEGAN, request, response
from tests.kproxy.capture_results import lines_of
from tests.kproxy.captures.expectation import BEHAVIOURS, LAYOUTS, Expected, seen
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.test_bug_captures import FOUND, Told
from tests.kproxy.test_bug_captures import lines as bug_lines


def collected(lines: Iterable[Line], causes: Causes | None = None) -> Causes:
    causes = causes or Causes()
    for row, line in enumerate(lines):
        causes.add(line, row)
    return causes


@pytest.mark.parametrize(("name", "told"), FOUND.items(), ids=FOUND)
def test_the_cause_of_a_bug_is_the_first(name: str, told: list[Told]) -> None:
    first = collected(bug_lines(name)).sorted_causes()[0]
    assert (first.place.api, first.place.api_version) == told[0][:2]
    assert seen(first.finding)._replace(at="") == told[0].finding._replace(at="")


@pytest.mark.parametrize(("name", "expected"), (LAYOUTS | BEHAVIOURS).items(), ids=LAYOUTS | BEHAVIOURS)
def test_the_cause_of_a_story_is_the_first(name: str, expected: Expected) -> None:
    ports = frozenset({9092} if name.endswith("-on-kafkas-port") else ())
    first = collected(lines_of(CAPTURES / f"{name}.pcap.gz", ports=ports)).sorted_causes()[0]
    assert seen(first.finding)._replace(at="") == expected._replace(at="")


@pytest.mark.parametrize("name", ["all", *FOUND])
def test_every_finding_counts_once(name: str) -> None:
    lines = captured() if name == "all" else bug_lines(name)
    causes = collected(lines).sorted_causes()
    told = sum(len(line.findings) for line in lines if isinstance(line, RequestLine | ResponseLine))
    told += sum(isinstance(line, FindingLine) for line in lines)
    told += sum(repeat.count for line in lines if isinstance(line, CloseLine) for repeat in line.repeated)
    unassigned = {cause.finding.code: cause.unassigned for cause in causes}
    assert sum(cause.count for cause in causes) + sum(unassigned.values()) == told
    for cause in causes:
        assert sum(connection.count for connection in cause.connections.values()) == cause.count


def entry(code: str = "S005", severity: str = "error", **more: object) -> FindingEntry:
    return FindingEntry(code, "a-rule", severity, "a sentence", **more)  # type: ignore[arg-type]


def test_where_it_was_first_and_last() -> None:
    lines = [opened(), request(1), request(2, findings=[entry()]), request(3), request(4, at=7, findings=[entry()])]
    [cause] = collected(lines).sorted_causes()
    assert (cause.first_row, cause.first_ts, cause.last_ts) == (2, lines[2].ts, timestamp(BEGAN + 7 * 10**9))
    assert cause.connections == {"n-1": ConnectionFindings("10.0.0.1:4000", "10.0.0.2:9092", 2)}


def test_what_was_only_counted_is_found_at_the_end_of_its_connection() -> None:
    lines = [
        request(1, findings=[entry()]),
        request(2, connection_id="n-2"),
        closed("n-2", repeated=[RepeatEntry("S005", "a-rule", 12)]),
        closed(repeated=[RepeatEntry("S005", "a-rule", 3)]),
    ]
    [cause] = collected(lines).sorted_causes()
    assert (cause.count, cause.unassigned) == (16, 0)
    assert {name: connection.count for name, connection in cause.connections.items()} == {"n-1": 4, "n-2": 12}


def test_repeats_of_a_rule_with_several_causes_are_of_none() -> None:
    early = closed("n-2", repeated=[RepeatEntry("S005", "a-rule", 2)])
    lines = [
        request(1, findings=[entry()]), early, request(2, findings=[entry()], api="Produce", api_key=0),
        closed(repeated=[RepeatEntry("S005", "a-rule", 9)]),
    ]  # fmt: skip
    causes = collected(lines).sorted_causes()
    assert [(cause.count, cause.unassigned) for cause in causes] == [(3, 9), (1, 9)]
    assert causes[0].seen == "3 times on 2 connections; 9 more of S005, from this cause or another"


def test_repeats_of_which_the_first_is_missing_are_of_no_cause() -> None:
    assert collected([closed(repeated=[RepeatEntry("S005", "metadata-loop", 9)])]).sorted_causes() == []


def test_it_can_be_asked_again_while_more_comes() -> None:
    causes = collected([request(1, findings=[entry()])])
    assert causes.sorted_causes()[0].count == 1
    collected([request(1, findings=[entry()]), closed(repeated=[RepeatEntry("S005", "a-rule", 1)])], causes)
    assert causes.sorted_causes()[0].count == 3


REFUSED = ErrorEntry("error_code", 42, "INVALID_REQUEST")
EDIT = EditEntry("flexibility", "*", {"written": "fixed"})


def harmless(*lines: Line) -> list[tuple[str, bool]]:
    return [(cause.finding.code, cause.is_harmless) for cause in collected(lines).sorted_causes()]


def test_what_brokers_pass_over_comes_behind_what_does_harm() -> None:
    asked = request(1, findings=[entry("L010", edit=EDIT)])
    harm = request(2, findings=[entry("S005")])
    assert harmless(asked, harm) == [("L010", False), ("S005", False)]
    assert harmless(asked, response(asked), harm) == [("S005", False), ("L010", True)]
    assert harmless(asked, response(asked, errors=[REFUSED]), harm) == [("L010", False), ("S005", False)]


def test_the_errors_of_a_response_that_departs_are_guesses() -> None:
    asked = request(1, findings=[entry("L010", edit=EDIT)])
    answer = response(asked, errors=[REFUSED], findings=[entry("L005", edit=EDIT)])
    assert harmless(asked, answer) == [("L005", False), ("L010", True)]


def test_the_order() -> None:
    lines = [
        request(1, findings=[entry("A001", "info")]),
        request(2, findings=[entry("A002", "warning")]),
        *(request(3, findings=[entry("A003")]) for _ in range(5)),
        request(4, findings=[entry("A004", edit=EDIT)]),
        *(request(5, findings=[entry("A005")]) for _ in range(9)),
    ]
    causes = collected(lines).sorted_causes()
    assert [cause.finding.code for cause in causes] == ["A004", "A005", "A003", "A002", "A001"]
    assert [cause.rank for cause in causes] == [0, 1, 2, 3, 4]


def test_of_many_causes_the_worst_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "MAX_CAUSES", 20)
    monkeypatch.setattr(causes_module, "_AT_ONCE", 5)
    first = request(0, findings=[entry()])
    many = [request(n, at=n, api_version=n, findings=[entry("L032", "info")]) for n in range(1, 101)]
    dropped = response(many[0], repeats=[RepeatedFinding("L032", "info", direction="request", offset=many[0].offset)])
    causes = collected([first, *many, dropped])
    found = causes.sorted_causes()
    assert len(found) <= 20
    assert found[0].finding.code == "S005"
    assert max(cause.place.api_version or 0 for cause in found) == 100
    assert sum(cause.count for cause in found) + causes.others == 102


def test_of_many_connections_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "MAX_PLACES", 10)
    causes = collected(request(1, connection_id=f"n-{number}", findings=[entry()]) for number in range(50))
    [cause] = causes.sorted_causes()
    assert (len(cause.connections), cause.elsewhere, cause.count) == (10, 40, 50)


def test_of_many_requests_with_findings_only_so_many_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "_MAX_AWAITED", 2)
    asked = [request(number, findings=[entry()]) for number in range(3)]
    [cause] = collected([*asked, *map(response, asked)]).sorted_causes()
    assert (cause.listed, cause.served) == (3, 2)
    again = [request(number, findings=[entry()]) for number in (4, 5)]
    [cause] = collected([*asked[:2], closed(), *again, *map(response, again)]).sorted_causes()
    assert (cause.listed, cause.served) == (4, 2)


@given(torn)
def test_no_lines_in_any_order_are_too_much(lines: list[tuple[Line, int]]) -> None:
    causes = Causes()
    for line, row in lines:
        causes.add(line, row)
    for cause in causes.sorted_causes():
        assert cause.count >= cause.listed > 0 <= cause.lasting
