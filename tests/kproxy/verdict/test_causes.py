"""Causes: what lasts, what repeats, what follows from what, in bounded memory."""

from __future__ import annotations

import pytest

from dissectors.connections.events import INSPECTOR_WAS_BEHIND, INSPECTOR_WAS_RESTARTED
from kproxy.trace.lines import (
    FORMAT,
    CloseLine,
    FindingLine,
    GapLine,
    OpenLine,
    RepeatedFinding,
    RepeatEntry,
    StallLine,
)
from kproxy.verdict import folding
from kproxy.verdict import lasting_causes as lasting_module
from kproxy.verdict.as_json import cause_as_json
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes
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


def codes(causes: list[Cause]) -> list[str]:
    return [cause.finding.code for cause in causes]


def test_a_request_that_waits_lasts_until_its_response_or_the_end_of_its_connection() -> None:
    asked = request(1)
    late = waits("C020", "warning", asked.offset, asked.connection_id)
    close = CloseLine(v=FORMAT, ts=TS, connection_id=asked.connection_id, **ENDS)
    assert [cause.lasting for cause in collected(asked, late).verdict()] == [1]
    assert [cause.lasting for cause in collected(asked, late, response(asked)).verdict()] == [0]
    assert [cause.lasting for cause in collected(asked, late, close).verdict()] == [0]


def test_a_stall_lasts_until_its_last_line_and_becomes_more_severe() -> None:
    def stalled(severity: str) -> FindingLine:
        finding_line = waits("G001", severity, 7, "n-1")
        finding_line.group_id = "g"
        return finding_line

    ended = StallLine(
        v=FORMAT, ts=TS, connection_id="n-1", group_id="g", stall="join-waits", severity="error", since=TS, until=TS,
        duration_us=1, message="", hint="", request_offset=7,
    )  # fmt: skip
    [lasting] = collected(stalled("warning"), stalled("error")).verdict()
    assert (lasting.finding.severity, lasting.count, lasting.lasting) == ("error", 2, 1)
    [over] = collected(stalled("warning"), stalled("error"), ended).verdict()
    assert over.lasting == 0


def stall() -> tuple[FindingLine, StallLine]:
    """The finding of a stall, and the line of its end."""
    finding_line = waits("G001", "error", 7, "n-1")
    finding_line.group_id = "g"
    return finding_line, StallLine(
        v=FORMAT, ts=TS, connection_id="n-1", group_id="g", stall="join-waits", severity="error", since=TS, until=TS,
        duration_us=1, message="", hint="", request_offset=7,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["shutdown", "proxy ended", "end of capture"])
def test_what_lasts_when_the_observation_ends_does_so_in_the_verdict(how: str) -> None:
    asked = request(1)
    late, (stalled, over) = waits("C020", "warning", asked.offset, asked.connection_id), stall()
    still_open = CloseLine(v=FORMAT, ts=TS, connection_id=asked.connection_id, **ENDS, how=how)
    ended = [asked, late, stalled, still_open, over]
    assert {cause.finding.code: cause.lasting for cause in collected(*ended).sorted_causes()} == {"G001": 1, "C020": 1}
    another_run = OpenLine(v=FORMAT, ts=TS, connection_id="m-1", **ENDS)
    assert [cause.lasting for cause in collected(*ended, another_run).sorted_causes()] == [0, 0]
    other = OpenLine(v=FORMAT, ts=TS, connection_id="n-9", **ENDS)  # the proxy closed only some connections, and runs
    assert [cause.lasting for cause in collected(other, *ended, another_run).sorted_causes()] == [1, 1]
    over.ts = "2026-01-01T00:00:09.000000Z"
    assert [cause.lasting for cause in collected(other, *ended).sorted_causes()] == [0, 1]


def test_nobody_follows_a_stall_after_a_restart_of_the_inspector() -> None:
    found, _ = stall()
    gap = GapLine(
        v=FORMAT, ts=TS, connection_id="", direction="both", bytes=0, reason=f"{INSPECTOR_WAS_RESTARTED}: nothing"
    )
    behind = GapLine(v=FORMAT, ts=TS, connection_id="", direction="both", bytes=0, reason=INSPECTOR_WAS_BEHIND)
    assert [cause.lasting for cause in collected(found, behind).verdict()] == [1]
    assert [cause.lasting for cause in collected(found, gap).verdict()] == [0]


def test_what_lasts_at_the_end_of_an_input_is_not_ended_by_another_one() -> None:
    asked = request(1)
    causes = collected(asked, waits("C020", "warning", asked.offset, asked.connection_id))
    causes.begin("another")
    causes.add(response(asked))
    assert [cause.lasting for cause in causes.verdict()] == [1]
    assert causes.lasting() == {("C020", "warning"): 1}


def test_findings_of_severity_info_do_not_last() -> None:
    asked = request(1)
    assert collected(asked, waits("C004", "info", asked.offset, asked.connection_id)).lasting() == {}


def test_of_much_that_lasts_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_module, "MAX_LASTING", 3)
    asked = [request(number) for number in range(5)]
    late = [waits("C020", "warning", each.offset, each.connection_id) for each in asked]
    assert collected(*asked, *late).lasting() == {("C020", "warning"): 3}
    assert collected(*asked, *late, *map(response, asked), late[4]).lasting() == {("C020", "warning"): 1}


def test_an_error_that_lasts_comes_before_others_and_says_so() -> None:
    asked = request(1)
    late = waits("C004", "error", asked.offset, asked.connection_id)
    other = [request(number, findings=[finding("error", "L003")]) for number in range(2, 9)]
    causes = collected(asked, late, *other)
    assert [(cause.finding.code, cause.seen) for cause in causes.verdict()] == [
        ("C004", "once, it lasts"),
        ("L003", "7 times on 1 connection"),
    ]
    assert [(each["code"], each.get("lasting")) for each in map(cause_as_json, causes.verdict())] == [
        ("C004", 1),
        ("L003", None),
    ]
    causes.add(response(asked))
    assert codes(causes.verdict()) == ["L003", "C004"]


def test_a_cause_lasts_as_long_as_its_consequence() -> None:
    asked = request(1)
    member, (stalled, over) = waits("S014", "error", 7, "n-1"), stall()
    other = [request(number, findings=[finding("error", "L003")], connection_id="n-2") for number in range(2, 9)]
    causes = collected(asked, member, stalled, *other)
    assert [(cause.finding.code, cause.seen) for cause in causes.verdict()] == [
        ("S014", "once, it lasts"),
        ("L003", "7 times on 1 connection"),
    ]
    causes.add(over)
    assert codes(causes.sorted_causes()) == ["L003", "S014", "G001"]


def test_a_later_request_that_waits_lasts_without_a_finding_of_its_own() -> None:
    asked, again = request(1), request(2)
    late = waits("C020", "warning", asked.offset, asked.connection_id)
    causes = collected(asked, again)
    causes.add_waiting(again)
    assert causes.lasting() == {}
    causes = collected(asked, late, response(asked), again)
    for _ in range(2):
        causes.add_waiting(again)
    assert causes.lasting() == {("C020", "warning"): 1}
    causes.add(response(again))
    assert causes.lasting() == {}


def test_a_line_that_a_filter_excludes_ends_what_lasts_and_its_findings_do_not_count() -> None:
    asked = request(1, findings=[finding("warning", "L003")])
    late = waits("C020", "warning", asked.offset, asked.connection_id)
    causes = collected(asked, late)
    causes.follow(response(asked, findings=[finding("error", "L005")]))
    assert {cause.finding.code: (cause.lasting, cause.is_harmless) for cause in causes.verdict()} == {
        "L003": (0, True),
        "C020": (0, False),
    }


def test_of_some_of_the_lines_the_whole_knows_what_lasts() -> None:
    asked = request(1)
    late = waits("C020", "warning", asked.offset, asked.connection_id)
    whole = collected(asked, late)
    some = Causes(whole=whole)
    some.add(late)
    assert [cause.lasting for cause in some.verdict()] == [1]
    whole.add(response(asked))
    assert [cause.lasting for cause in some.verdict()] == [0]


def test_causes_that_explain_each_other_are_both_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "EXPLAINED_BY", {"L001": ("L002",), "L002": ("L001",), "L003": ("L001",)})
    frames = [request(number, findings=[finding("error", f"L00{number}")]) for number in (1, 2, 3)]
    assert sorted(codes(collected(*frames).sorted_causes())) == ["L001", "L002", "L003"]


def test_a_consequence_is_below_its_cause_only_on_the_same_connection() -> None:
    late, overdue = waits("C020", "warning", 7, "n-1"), waits("C004", "error", 7, "n-1")
    [root] = collected(late, overdue).verdict()
    assert (root.finding.code, codes(root.consequences)) == ("C004", ["C020"])
    elsewhere = waits("C004", "error", 7, "n-2")
    assert codes(collected(late, elsewhere).verdict()) == ["C004", "C020"]


def test_closed_connections_are_one_cause_if_they_are_about_the_same_request() -> None:
    def closed(code: str, connection_id: str, api: str) -> FindingLine:
        finding_line = waits(code, "error", 7, connection_id)
        finding_line.api, finding_line.api_version = api, 1
        return finding_line

    first = closed("C013", "n-1", "Metadata")
    field = closed("C022", "n-2", "Metadata")
    [cause] = collected(first, field).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("C022", ["C013"])
    other = closed("C022", "n-2", "Fetch")
    assert sorted(codes(collected(first, other).verdict())) == ["C013", "C022"]


def test_what_follows_from_a_transaction_is_below_it_on_any_connection() -> None:
    def about(code: str, connection_id: str, message: str, severity: str = "warning") -> FindingLine:
        finding_line = waits(code, severity, 7, connection_id)
        finding_line.message = message
        return finding_line

    pay = "the transaction of transactional id 'pay' (producer 1, epoch 0)"
    held = about("T001", "reader", f"t[0]: read_committed consumers wait: {pay} holds it")
    [cause] = collected(held, about("T002", "writer", f"{pay} has been open for 45 s")).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("T002", ["T001"])
    other = about(
        "T002", "writer", "the transaction of transactional id 'audit' (producer 2, epoch 0) has been open for 45 s"
    )
    assert sorted(codes(collected(held, other).verdict())) == ["T001", "T002"]

    fenced, gave_up = about("T003", "n-1", "client 'a' was fenced"), about("E005", "n-1", "gave up", "error")
    [cause] = collected(fenced, gave_up).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("T003", ["E005"])


def test_repeats_with_and_without_a_mark_count_once() -> None:
    first, second = request(1), request(2)
    marked = response(second, repeats=[RepeatedFinding("L003", "error", offset=first.offset, count=2)])
    close = CloseLine(
        v=FORMAT, ts=TS, connection_id=first.connection_id, **ENDS, repeated=[RepeatEntry("L003", "wrong", 5)]
    )
    causes = collected(first, response(first, findings=[finding("error", "L003")]), second, marked, close)
    assert [cause.count for cause in causes.verdict()] == [6]
    assert [cause.count for cause in causes.verdict()] == [6]
