"""Findings by rule, cause and connection: the same as the report's, and the right one first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from kproxy.browse.overviews import findings
from kproxy.browse.overviews.findings import Findings
from kproxy.trace.lines import (
    CloseLine,
    EditEntry,
    ErrorEntry,
    FindingEntry,
    FindingLine,
    Line,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from kproxy.verdict.causes import Causes
from tests.kproxy.browse.fed import captured, closed, feed, feed_torn, opened, torn
from tests.kproxy.browse.sessions import BEGAN, request, response
from tests.kproxy.captured import lines_of
from tests.kproxy.captures.expected import BEHAVIOURS, LAYOUTS, Expected, seen
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.test_bug_captures import FOUND, Told
from tests.kproxy.test_bug_captures import lines as bug_lines


def reported(lines: list[Line] | tuple[Line, ...]) -> Causes:
    causes = Causes()
    causes.begin("a file")
    for line in lines:
        causes.add(line)
    return causes


@pytest.mark.parametrize(("name", "told"), FOUND.items(), ids=FOUND)
def test_the_cause_of_a_bug_is_the_first(name: str, told: list[Told]) -> None:
    overview = feed(Findings(), bug_lines(name))
    first = overview.causes(3)[0]
    assert (first.api, first.api_version) == told[0][:2]
    assert seen(first.finding)._replace(at="") == told[0].finding._replace(at="")
    assert overview.rules()[0].causes[0] is first


@pytest.mark.parametrize(("name", "expected"), (LAYOUTS | BEHAVIOURS).items(), ids=LAYOUTS | BEHAVIOURS)
def test_the_cause_of_a_story_is_the_first(name: str, expected: Expected) -> None:
    ports = frozenset({9092} if name.endswith("-on-kafkas-port") else ())
    first = feed(Findings(), lines_of(CAPTURES / f"{name}.pcap.gz", ports=ports)).causes(3)[0]
    assert seen(first.finding)._replace(at="") == expected._replace(at="")


@pytest.mark.parametrize("name", ["all", *FOUND])
def test_causes_counts_and_order_are_those_of_the_report(name: str) -> None:
    lines = captured() if name == "all" else bug_lines(name)
    overview, found = feed(Findings(), lines), reported(lines).sorted_causes()
    assert [(each.finding.code, each.count) for each in found] == [
        (each.finding.code, each.count) for each in overview.causes()
    ]
    expected = Counter(
        (cause.finding.code, cause.finding.message, cause.count, cause.unassigned, len(cause.connections))
        for cause in found
    )
    assert expected == Counter(
        (cause.finding.code, cause.finding.message, cause.count, cause.unassigned, len(cause.places))
        for cause in overview.causes()
    )
    told = sum(len(line.findings) for line in lines if isinstance(line, RequestLine | ResponseLine))
    told += sum(isinstance(line, FindingLine) for line in lines)
    told += sum(repeat.count for line in lines if isinstance(line, CloseLine) for repeat in line.repeated)
    assert sum(rule.count for rule in overview.rules()) == told
    for cause in overview.causes():
        assert sum(place.count for place in cause.places) == cause.count


def entry(code: str = "S005", severity: str = "error", **more: object) -> FindingEntry:
    return FindingEntry(code, "a-rule", severity, "a sentence", **more)  # type: ignore[arg-type]


def test_where_it_was_first_and_last() -> None:
    lines = [opened(), request(1), request(2, findings=[entry()]), request(3), request(4, at=7, findings=[entry()])]
    [cause] = feed(Findings(), lines).causes()
    assert (cause.first_row, cause.last_row, cause.first_at, cause.last_at) == (2, 4, BEGAN, BEGAN + 7 * 10**9)
    [place] = cause.places
    assert (place.connection_id, place.client, place.count) == ("n-1", "10.0.0.1:4000", 2)


def test_what_was_only_counted_is_found_at_the_end_of_its_connection() -> None:
    lines = [
        request(1, findings=[entry()]),
        request(2, connection_id="n-2"),
        closed("n-2", repeated=[RepeatEntry("S005", "a-rule", 12)]),
        closed(repeated=[RepeatEntry("S005", "a-rule", 3)]),
    ]
    [cause] = feed(Findings(), lines).causes()
    assert (cause.count, cause.unassigned) == (16, 0)
    assert [(place.connection_id, place.count, place.first_row) for place in cause.places] == [
        ("n-1", 4, 0),
        ("n-2", 12, 2),
    ]


def test_repeats_of_a_rule_with_several_causes_are_of_none() -> None:
    lines = [
        request(1, findings=[entry()]), request(2, findings=[entry()], api="Produce", api_key=0),
        closed(repeated=[RepeatEntry("S005", "a-rule", 9)]),
    ]  # fmt: skip
    [rule] = feed(Findings(), lines).rules()
    assert (rule.count, rule.unassigned) == (11, 9)
    assert [(cause.count, cause.unassigned) for cause in rule.causes] == [(1, 9), (1, 9)]


def test_repeats_of_which_the_first_is_missing() -> None:
    overview = feed(Findings(), [closed(repeated=[RepeatEntry("S005", "metadata-loop", 9)])])
    [rule] = overview.rules()
    assert (rule.code, rule.name, rule.severity, rule.count, rule.causes) == ("S005", "metadata-loop", "error", 9, ())
    assert overview.causes(3) == []


def test_it_can_be_asked_again_while_more_comes() -> None:
    overview = feed(Findings(), [request(1, findings=[entry()])])
    assert overview.causes()[0].count == 1
    assert overview.rules() is overview.rules()
    feed(overview, [request(1, findings=[entry()]), closed(repeated=[RepeatEntry("S005", "a-rule", 1)])])
    assert overview.causes()[0].count == 3


REFUSED = ErrorEntry("error_code", 42, "INVALID_REQUEST")
EDIT = EditEntry("flexibility", "*", {"written": "fixed"})


def test_what_brokers_pass_over_comes_behind_what_does_harm() -> None:
    asked = request(1, findings=[entry("L010", edit=EDIT)])
    harm = request(2, findings=[entry("S005")])
    overview = feed(Findings(), [asked, harm])
    assert [(cause.finding.code, cause.harmless) for cause in overview.causes()] == [("L010", False), ("S005", False)]
    overview = feed(Findings(), [asked, response(asked), harm])
    assert [(cause.finding.code, cause.harmless) for cause in overview.causes()] == [("S005", False), ("L010", True)]
    overview = feed(Findings(), [asked, response(asked, errors=[REFUSED]), harm])
    assert [cause.finding.code for cause in overview.causes()] == ["L010", "S005"]
    assert [cause.finding.code for cause in reported([asked, response(asked), harm]).sorted_causes()] == [
        "S005",
        "L010",
    ]


def test_the_errors_of_a_response_that_departs_are_guesses() -> None:
    asked = request(1, findings=[entry("L010", edit=EDIT)])
    answer = response(asked, errors=[REFUSED], findings=[entry("L005", edit=EDIT)])
    causes = feed(Findings(), [asked, answer]).causes()
    assert [(cause.finding.code, cause.harmless) for cause in causes] == [("L005", False), ("L010", True)]


def test_the_order() -> None:
    lines = [
        request(1, findings=[entry("A001", "info")]),
        request(2, findings=[entry("A002", "warning")]),
        *(request(3, findings=[entry("A003")]) for _ in range(5)),
        request(4, findings=[entry("A004", edit=EDIT)]),
        *(request(5, findings=[entry("A005")]) for _ in range(9)),
    ]
    overview = feed(Findings(), lines)
    assert [cause.finding.code for cause in overview.causes()] == ["A004", "A005", "A003", "A002", "A001"]
    assert [rule.code for rule in overview.rules()] == ["A004", "A005", "A003", "A002", "A001"]
    assert [cause.finding.code for cause in overview.causes(2)] == ["A004", "A005"]


def test_of_many_causes_the_worst_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST", 20)
    monkeypatch.setattr(findings, "_AT_ONCE", 5)
    overview = feed(Findings(), [request(0, findings=[entry()])])
    for number in range(100):
        overview.observe(
            request(number, api_version=number, findings=[entry("L032", "info")]), number, BEGAN, (number,)
        )
    causes = overview.causes()
    assert len(causes) <= 20
    assert causes[0].finding.code == "S005"
    assert max(cause.api_version or 0 for cause in causes) == 99
    assert sum(cause.count for cause in causes) + overview.others == 101


def test_of_many_connections_only_so_many_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_PLACES", 10)
    overview = Findings()
    for number in range(50):
        overview.observe(request(1, connection_id=f"n-{number}", findings=[entry()]), number, BEGAN, (number,))
    [cause] = overview.causes()
    assert (len(cause.places), cause.elsewhere, cause.count) == (10, 40, 50)


@given(torn)
def test_no_lines_in_any_order_are_too_much(lines: list[tuple[Line, int]]) -> None:
    overview = feed_torn(Findings(), lines)
    report = reported([line for line, _ in lines])
    assert len(overview.causes()) == len(report.sorted_causes())
    assert sum(len(rule.causes) for rule in overview.rules()) == len(overview.causes())
