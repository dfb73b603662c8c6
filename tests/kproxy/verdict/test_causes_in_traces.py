"""In traces, the right cause comes first, each cause has counts and locations, and memory is bounded."""

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
from tests.kproxy.browse.sample_overviews import captured, close_line, inconsistent_lines, open_line
from tests.kproxy.browse.sessions import BEGAN, request, response
from tests.kproxy.capture_results import lines_of
from tests.kproxy.captures.expectation import BEHAVIOURS, LAYOUTS, Expected, expected_from
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.test_bug_captures import FOUND, BugFinding
from tests.kproxy.test_bug_captures import lines as bug_lines


def collect_causes(lines: Iterable[Line], causes: Causes | None = None) -> Causes:
    causes = causes or Causes()
    for row, line in enumerate(lines):
        causes.add(line, row)
    return causes


@pytest.mark.parametrize(("name", "expected"), FOUND.items(), ids=FOUND)
def test_cause_of_a_bug_comes_first(name: str, expected: list[BugFinding]) -> None:
    first = collect_causes(bug_lines(name)).sorted_causes()[0]
    assert (first.place.api, first.place.api_version) == expected[0][:2]
    assert expected_from(first.finding)._replace(at="") == expected[0].finding._replace(at="")


@pytest.mark.parametrize(("name", "expected"), (LAYOUTS | BEHAVIOURS).items(), ids=LAYOUTS | BEHAVIOURS)
def test_cause_of_a_story_comes_first(name: str, expected: Expected) -> None:
    ports = frozenset({9092} if name.endswith("-on-kafkas-port") else ())
    first = collect_causes(lines_of(CAPTURES / f"{name}.pcap.gz", ports=ports)).sorted_causes()[0]
    assert expected_from(first.finding)._replace(at="") == expected._replace(at="")


@pytest.mark.parametrize("name", ["all", *FOUND])
def test_every_finding_is_counted_once(name: str) -> None:
    lines = captured() if name == "all" else bug_lines(name)
    causes = collect_causes(lines).sorted_causes()
    finding_count = sum(len(line.findings) for line in lines if isinstance(line, RequestLine | ResponseLine))
    finding_count += sum(isinstance(line, FindingLine) for line in lines)
    finding_count += sum(repeat.count for line in lines if isinstance(line, CloseLine) for repeat in line.repeated)
    unassigned = {cause.finding.code: cause.unassigned for cause in causes}
    assert sum(cause.count for cause in causes) + sum(unassigned.values()) == finding_count
    for cause in causes:
        assert sum(connection.count for connection in cause.connections.values()) == cause.count


def entry(code: str = "S005", severity: str = "error", **more: object) -> FindingEntry:
    return FindingEntry(code, "a-rule", severity, "a sentence", **more)  # type: ignore[arg-type]


def test_cause_shows_its_first_and_last_time() -> None:
    lines = [open_line(), request(1), request(2, findings=[entry()]), request(3), request(4, at=7, findings=[entry()])]
    [cause] = collect_causes(lines).sorted_causes()
    assert (cause.first_row, cause.first_ts, cause.last_ts) == (2, lines[2].ts, timestamp(BEGAN + 7 * 10**9))
    assert cause.connections == {"n-1": ConnectionFindings("10.0.0.1:4000", "10.0.0.2:9092", 2)}


def test_repeats_are_counted_at_the_end_of_their_connection() -> None:
    lines = [
        request(1, findings=[entry()]),
        request(2, connection_id="n-2"),
        close_line("n-2", repeated=[RepeatEntry("S005", "a-rule", 12)]),
        close_line(repeated=[RepeatEntry("S005", "a-rule", 3)]),
    ]
    [cause] = collect_causes(lines).sorted_causes()
    assert (cause.count, cause.unassigned) == (16, 0)
    assert {name: connection.count for name, connection in cause.connections.items()} == {"n-1": 4, "n-2": 12}


def test_repeats_of_a_rule_with_several_causes_are_unassigned() -> None:
    early_close = close_line("n-2", repeated=[RepeatEntry("S005", "a-rule", 2)])
    lines = [
        request(1, findings=[entry()]), early_close, request(2, findings=[entry()], api="Produce", api_key=0),
        close_line(repeated=[RepeatEntry("S005", "a-rule", 9)]),
    ]  # fmt: skip
    causes = collect_causes(lines).sorted_causes()
    assert [(cause.count, cause.unassigned) for cause in causes] == [(3, 9), (1, 9)]
    assert causes[0].seen == "3 times on 2 connections; 9 more of S005, from this cause or another"


def test_repeats_without_a_first_finding_have_no_cause() -> None:
    assert collect_causes([close_line(repeated=[RepeatEntry("S005", "metadata-loop", 9)])]).sorted_causes() == []


def test_causes_can_be_listed_while_lines_are_added() -> None:
    causes = collect_causes([request(1, findings=[entry()])])
    assert causes.sorted_causes()[0].count == 1
    collect_causes([request(1, findings=[entry()]), close_line(repeated=[RepeatEntry("S005", "a-rule", 1)])], causes)
    assert causes.sorted_causes()[0].count == 3


ERROR = ErrorEntry("error_code", 42, "INVALID_REQUEST")
EDIT = EditEntry("flexibility", "*", {"written": "fixed"})


def harmlessness(*lines: Line) -> list[tuple[str, bool]]:
    return [(cause.finding.code, cause.is_harmless) for cause in collect_causes(lines).sorted_causes()]


def test_harmless_findings_come_after_harmful_ones() -> None:
    accepted_request = request(1, findings=[entry("L010", edit=EDIT)])
    harmful_request = request(2, findings=[entry("S005")])
    assert harmlessness(accepted_request, harmful_request) == [("L010", False), ("S005", False)]
    assert harmlessness(accepted_request, response(accepted_request), harmful_request) == [
        ("S005", False),
        ("L010", True),
    ]
    assert harmlessness(accepted_request, response(accepted_request, errors=[ERROR]), harmful_request) == [
        ("L010", False),
        ("S005", False),
    ]


def test_errors_of_an_invalid_response_do_not_count() -> None:
    request_line = request(1, findings=[entry("L010", edit=EDIT)])
    response_line = response(request_line, errors=[ERROR], findings=[entry("L005", edit=EDIT)])
    assert harmlessness(request_line, response_line) == [("L005", False), ("L010", True)]


def test_causes_are_sorted_by_severity_and_count() -> None:
    lines = [
        request(1, findings=[entry("A001", "info")]),
        request(2, findings=[entry("A002", "warning")]),
        *(request(3, findings=[entry("A003")]) for _ in range(5)),
        request(4, findings=[entry("A004", edit=EDIT)]),
        *(request(5, findings=[entry("A005")]) for _ in range(9)),
    ]
    causes = collect_causes(lines).sorted_causes()
    assert [cause.finding.code for cause in causes] == ["A004", "A005", "A003", "A002", "A001"]
    assert [cause.rank for cause in causes] == [0, 1, 2, 3, 4]


def test_only_the_worst_causes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "MAX_CAUSES", 20)
    monkeypatch.setattr(causes_module, "_DROPPED_AT_ONCE", 5)
    first = request(0, findings=[entry()])
    info_requests = [request(n, at=n, api_version=n, findings=[entry("L032", "info")]) for n in range(1, 101)]
    repeat_line = response(
        info_requests[0], repeats=[RepeatedFinding("L032", "info", direction="request", offset=info_requests[0].offset)]
    )
    causes = collect_causes([first, *info_requests, repeat_line])
    sorted_causes = causes.sorted_causes()
    assert len(sorted_causes) <= 20
    assert sorted_causes[0].finding.code == "S005"
    assert max(cause.place.api_version or 0 for cause in sorted_causes) == 100
    assert sum(cause.count for cause in sorted_causes) + causes.others == 102


def test_number_of_connections_listed_for_a_cause_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "MAX_ENDPOINTS", 10)
    causes = collect_causes(request(1, connection_id=f"n-{number}", findings=[entry()]) for number in range(50))
    [cause] = causes.sorted_causes()
    assert (len(cause.connections), cause.elsewhere, cause.count) == (10, 40, 50)


def test_number_of_requests_awaited_by_causes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "_MAX_AWAITED", 2)
    requests = [request(number, findings=[entry()]) for number in range(3)]
    [cause] = collect_causes([*requests, *map(response, requests)]).sorted_causes()
    assert (cause.listed, cause.served) == (3, 2)
    later_requests = [request(number, findings=[entry()]) for number in (4, 5)]
    [cause] = collect_causes(
        [*requests[:2], close_line(), *later_requests, *map(response, later_requests)]
    ).sorted_causes()
    assert (cause.listed, cause.served) == (4, 2)


@pytest.mark.slow
@given(inconsistent_lines)
def test_lines_are_counted_in_any_order(lines: list[tuple[Line, int]]) -> None:
    causes = Causes()
    for line, row in lines:
        causes.add(line, row)
    for cause in causes.sorted_causes():
        assert cause.count >= cause.listed > 0 <= cause.lasting
