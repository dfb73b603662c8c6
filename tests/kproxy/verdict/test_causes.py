"""Causes of findings: ongoing findings, repeats and consequences, in bounded memory."""

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
ENDPOINTS = {"client": "10.0.0.9:50000", "server": "10.0.0.1:9092"}


def collect_causes(*lines: object) -> Causes:
    collection = Causes()
    for line in lines:
        collection.add(line)  # type: ignore[arg-type]
    return collection


def waiting_finding(code: str, severity: str, offset: int, connection_id: str) -> FindingLine:
    return FindingLine(
        v=FORMAT, ts=TS, connection_id=connection_id, code=code, name="waits", severity=severity, message=code,
        direction="request", offset=offset,
    )  # fmt: skip


def codes(causes: list[Cause]) -> list[str]:
    return [cause.finding.code for cause in causes]


def test_wait_is_ongoing_until_its_response_or_the_end_of_its_connection() -> None:
    request_line = request(1)
    wait_finding = waiting_finding("C020", "warning", request_line.offset, request_line.connection_id)
    close_line = CloseLine(v=FORMAT, ts=TS, connection_id=request_line.connection_id, **ENDPOINTS)
    assert [cause.lasting for cause in collect_causes(request_line, wait_finding).verdict()] == [1]
    assert [
        cause.lasting for cause in collect_causes(request_line, wait_finding, response(request_line)).verdict()
    ] == [0]
    assert [cause.lasting for cause in collect_causes(request_line, wait_finding, close_line).verdict()] == [0]


def test_stall_is_ongoing_until_its_last_line() -> None:
    def stall_finding(severity: str) -> FindingLine:
        finding_line = waiting_finding("G001", severity, 7, "n-1")
        finding_line.group_id = "g"
        return finding_line

    end_line = StallLine(
        v=FORMAT, ts=TS, connection_id="n-1", group_id="g", stall="join-waits", severity="error", since=TS, until=TS,
        duration_us=1, message="", hint="", request_offset=7,
    )  # fmt: skip
    [ongoing] = collect_causes(stall_finding("warning"), stall_finding("error")).verdict()
    assert (ongoing.finding.severity, ongoing.count, ongoing.lasting) == ("error", 2, 1)
    [ended_cause] = collect_causes(stall_finding("warning"), stall_finding("error"), end_line).verdict()
    assert ended_cause.lasting == 0


def stall() -> tuple[FindingLine, StallLine]:
    """Return the finding of a stall and the line that ends it."""
    finding_line = waiting_finding("G001", "error", 7, "n-1")
    finding_line.group_id = "g"
    return finding_line, StallLine(
        v=FORMAT, ts=TS, connection_id="n-1", group_id="g", stall="join-waits", severity="error", since=TS, until=TS,
        duration_us=1, message="", hint="", request_offset=7,
    )  # fmt: skip


@pytest.mark.parametrize("reason", ["shutdown", "proxy ended", "end of capture"])
def test_finding_is_ongoing_if_the_observation_ends(reason: str) -> None:
    request_line = request(1)
    wait_finding, (stall_finding, stall_end) = (
        waiting_finding("C020", "warning", request_line.offset, request_line.connection_id),
        stall(),
    )
    still_open = CloseLine(v=FORMAT, ts=TS, connection_id=request_line.connection_id, **ENDPOINTS, how=reason)
    lines = [request_line, wait_finding, stall_finding, still_open, stall_end]
    assert {cause.finding.code: cause.lasting for cause in collect_causes(*lines).sorted_causes()} == {
        "G001": 1,
        "C020": 1,
    }
    another_run = OpenLine(v=FORMAT, ts=TS, connection_id="m-1", **ENDPOINTS)
    assert [cause.lasting for cause in collect_causes(*lines, another_run).sorted_causes()] == [0, 0]
    # Here, the proxy is still running and has closed only some connections.
    other_connection = OpenLine(v=FORMAT, ts=TS, connection_id="n-9", **ENDPOINTS)
    assert [cause.lasting for cause in collect_causes(other_connection, *lines, another_run).sorted_causes()] == [1, 1]
    stall_end.ts = "2026-01-01T00:00:09.000000Z"
    assert [cause.lasting for cause in collect_causes(other_connection, *lines).sorted_causes()] == [0, 1]


def test_stall_is_not_ongoing_after_a_restart_of_the_inspector() -> None:
    stall_finding, _ = stall()
    restart_gap = GapLine(
        v=FORMAT, ts=TS, connection_id="", direction="both", bytes=0, reason=f"{INSPECTOR_WAS_RESTARTED}: nothing"
    )
    behind_gap = GapLine(v=FORMAT, ts=TS, connection_id="", direction="both", bytes=0, reason=INSPECTOR_WAS_BEHIND)
    assert [cause.lasting for cause in collect_causes(stall_finding, behind_gap).verdict()] == [1]
    assert [cause.lasting for cause in collect_causes(stall_finding, restart_gap).verdict()] == [0]


def test_later_input_does_not_end_an_ongoing_finding() -> None:
    request_line = request(1)
    causes = collect_causes(
        request_line, waiting_finding("C020", "warning", request_line.offset, request_line.connection_id)
    )
    causes.begin("another")
    causes.add(response(request_line))
    assert [cause.lasting for cause in causes.verdict()] == [1]
    assert causes.lasting() == {("C020", "warning"): 1}


def test_info_findings_are_not_ongoing() -> None:
    request_line = request(1)
    assert (
        collect_causes(
            request_line, waiting_finding("C004", "info", request_line.offset, request_line.connection_id)
        ).lasting()
        == {}
    )


def test_number_of_ongoing_findings_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_module, "MAX_LASTING", 3)
    requests = [request(number) for number in range(5)]
    waits = [
        waiting_finding("C020", "warning", request_line.offset, request_line.connection_id) for request_line in requests
    ]
    assert collect_causes(*requests, *waits).lasting() == {("C020", "warning"): 3}
    assert collect_causes(*requests, *waits, *map(response, requests), waits[4]).lasting() == {("C020", "warning"): 1}


def test_ongoing_error_comes_first() -> None:
    request_line = request(1)
    wait = waiting_finding("C004", "error", request_line.offset, request_line.connection_id)
    other_requests = [request(number, findings=[finding("error", "L003")]) for number in range(2, 9)]
    causes = collect_causes(request_line, wait, *other_requests)
    assert [(cause.finding.code, cause.seen) for cause in causes.verdict()] == [
        ("C004", "once, it lasts"),
        ("L003", "7 times on 1 connection"),
    ]
    assert [(as_json["code"], as_json.get("lasting")) for as_json in map(cause_as_json, causes.verdict())] == [
        ("C004", 1),
        ("L003", None),
    ]
    causes.add(response(request_line))
    assert codes(causes.verdict()) == ["L003", "C004"]


def test_cause_is_ongoing_as_long_as_its_consequence() -> None:
    request_line = request(1)
    member_finding, (stall_finding, stall_end) = waiting_finding("S014", "error", 7, "n-1"), stall()
    other_requests = [
        request(number, findings=[finding("error", "L003")], connection_id="n-2") for number in range(2, 9)
    ]
    causes = collect_causes(request_line, member_finding, stall_finding, *other_requests)
    assert [(cause.finding.code, cause.seen) for cause in causes.verdict()] == [
        ("S014", "once, it lasts"),
        ("L003", "7 times on 1 connection"),
    ]
    causes.add(stall_end)
    assert codes(causes.sorted_causes()) == ["L003", "S014", "G001"]


def test_later_waiting_request_keeps_the_cause_ongoing() -> None:
    first_request, later_request = request(1), request(2)
    wait = waiting_finding("C020", "warning", first_request.offset, first_request.connection_id)
    causes = collect_causes(first_request, later_request)
    causes.add_waiting(later_request)
    assert causes.lasting() == {}
    causes = collect_causes(first_request, wait, response(first_request), later_request)
    for _ in range(2):
        causes.add_waiting(later_request)
    assert causes.lasting() == {("C020", "warning"): 1}
    causes.add(response(later_request))
    assert causes.lasting() == {}


def test_excluded_line_ends_a_wait_but_its_findings_do_not_count() -> None:
    request_line = request(1, findings=[finding("warning", "L003")])
    wait = waiting_finding("C020", "warning", request_line.offset, request_line.connection_id)
    causes = collect_causes(request_line, wait)
    causes.follow(response(request_line, findings=[finding("error", "L005")]))
    assert {cause.finding.code: (cause.lasting, cause.is_harmless) for cause in causes.verdict()} == {
        "L003": (0, True),
        "C020": (0, False),
    }


def test_causes_of_matching_lines_use_the_state_of_all_lines() -> None:
    request_line = request(1)
    wait = waiting_finding("C020", "warning", request_line.offset, request_line.connection_id)
    all_causes = collect_causes(request_line, wait)
    matching_causes = Causes(whole=all_causes)
    matching_causes.add(wait)
    assert [cause.lasting for cause in matching_causes.verdict()] == [1]
    all_causes.add(response(request_line))
    assert [cause.lasting for cause in matching_causes.verdict()] == [0]


def test_causes_that_explain_each_other_are_both_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "EXPLAINED_BY", {"L001": ("L002",), "L002": ("L001",), "L003": ("L001",)})
    frames = [request(number, findings=[finding("error", f"L00{number}")]) for number in (1, 2, 3)]
    assert sorted(codes(collect_causes(*frames).sorted_causes())) == ["L001", "L002", "L003"]


def test_consequence_is_listed_below_its_cause_on_the_same_connection() -> None:
    wait, overdue = waiting_finding("C020", "warning", 7, "n-1"), waiting_finding("C004", "error", 7, "n-1")
    [root] = collect_causes(wait, overdue).verdict()
    assert (root.finding.code, codes(root.consequences)) == ("C004", ["C020"])
    overdue_elsewhere = waiting_finding("C004", "error", 7, "n-2")
    assert codes(collect_causes(wait, overdue_elsewhere).verdict()) == ["C004", "C020"]


def test_closed_connections_share_a_cause_if_they_concern_the_same_api() -> None:
    def closed_after(code: str, connection_id: str, api: str) -> FindingLine:
        finding_line = waiting_finding(code, "error", 7, connection_id)
        finding_line.api, finding_line.api_version = api, 1
        return finding_line

    request_closed = closed_after("C013", "n-1", "Metadata")
    decode_closed = closed_after("C022", "n-2", "Metadata")
    [cause] = collect_causes(request_closed, decode_closed).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("C022", ["C013"])
    other_api = closed_after("C022", "n-2", "Fetch")
    assert sorted(codes(collect_causes(request_closed, other_api).verdict())) == ["C013", "C022"]


def test_consequence_of_a_transaction_is_listed_below_its_cause() -> None:
    def transaction_finding(code: str, connection_id: str, message: str, severity: str = "warning") -> FindingLine:
        finding_line = waiting_finding(code, severity, 7, connection_id)
        finding_line.message = message
        return finding_line

    transaction_text = "the transaction of transactional id 'pay' (producer 1, epoch 0)"
    held_records = transaction_finding(
        "T001", "reader", f"t[0]: read_committed consumers wait: {transaction_text} holds it"
    )
    [cause] = collect_causes(
        held_records, transaction_finding("T002", "writer", f"{transaction_text} has been open for 45 s")
    ).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("T002", ["T001"])
    other_transaction = transaction_finding(
        "T002", "writer", "the transaction of transactional id 'audit' (producer 2, epoch 0) has been open for 45 s"
    )
    assert sorted(codes(collect_causes(held_records, other_transaction).verdict())) == ["T001", "T002"]

    fenced_finding, gave_up_finding = (
        transaction_finding("T003", "n-1", "client 'a' was fenced"),
        transaction_finding("E005", "n-1", "gave up", "error"),
    )
    [cause] = collect_causes(fenced_finding, gave_up_finding).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("T003", ["E005"])


def test_clear_text_password_does_not_explain_a_closed_connection() -> None:
    password, closed = waiting_finding("X005", "warning", 1, "n-1"), waiting_finding("C013", "warning", 7, "n-1")
    assert sorted(codes(collect_causes(password, closed).verdict())) == ["C013", "X005"]
    expired = waiting_finding("X010", "warning", 7, "n-1")
    causes = {
        cause.finding.code: codes(cause.consequences) for cause in collect_causes(password, closed, expired).verdict()
    }
    assert causes == {"X005": [], "X010": ["C013"]}


def test_streak_of_refusals_that_became_an_error_is_one_cause() -> None:
    def streak(severity: str, count: int, api: str) -> FindingLine:
        finding_line = waiting_finding("E002", severity, count, "n-1")
        finding_line.message = (
            f"{count} of {count} {api} requests of client 'a' were refused with NOT_COORDINATOR in 9 s"
        )
        return finding_line

    [cause] = collect_causes(streak("warning", 2, "Fetch"), streak("error", 4, "Fetch")).verdict()
    assert (cause.finding.severity, codes(cause.consequences)) == ("error", ["E002"])
    assert len(collect_causes(streak("warning", 2, "Heartbeat"), streak("error", 4, "Fetch")).verdict()) == 2


def test_alternatives_of_a_diagnosis_are_listed_below_it() -> None:
    findings = [finding("error", "L010"), finding("info", "L034")]
    [cause] = collect_causes(request(1, findings=findings)).verdict()
    assert (cause.finding.code, codes(cause.consequences)) == ("L010", ["L034"])
    other_api = request(2, api="Metadata", api_key=3, findings=findings[1:])
    assert len(collect_causes(request(1, findings=findings[:1]), other_api).verdict()) == 2


def test_repeats_are_counted_once() -> None:
    first, second = request(1), request(2)
    repeat_line = response(second, repeats=[RepeatedFinding("L003", "error", offset=first.offset, count=2)])
    close_line = CloseLine(
        v=FORMAT, ts=TS, connection_id=first.connection_id, **ENDPOINTS, repeated=[RepeatEntry("L003", "wrong", 5)]
    )
    causes = collect_causes(
        first, response(first, findings=[finding("error", "L003")]), second, repeat_line, close_line
    )
    assert [cause.count for cause in causes.verdict()] == [6]
    assert [cause.count for cause in causes.verdict()] == [6]


def test_repeat_of_a_finding_in_an_earlier_file_is_a_cause() -> None:
    line = request(1, repeats=[RepeatedFinding("L010", "error", offset=7, count=2)])
    [cause] = collect_causes(line).verdict()
    assert (cause.code, cause.name, cause.severity, cause.count) == ("L010", "compact-vs-fixed", "error", 2)
    assert cause.message.endswith("request: as in an earlier frame, which is not in this input")


def test_repeat_of_a_finding_in_a_hidden_row_has_its_cause() -> None:
    first, second = request(1), request(2)
    first_response = response(first, findings=[finding("error", "L003")])
    repeat_line = response(second, repeats=[RepeatedFinding("L003", "error", offset=first.offset)])
    whole = collect_causes(first, first_response, second, repeat_line)
    filtered = Causes(whole)
    filtered.add(repeat_line)
    [cause], [whole_cause] = filtered.verdict(), whole.verdict()
    assert (cause.message, cause.place, cause.count) == (whole_cause.message, whole_cause.place, 1)
