"""Options select which findings are shown and which make a run fail."""

import pytest

from kproxy.errors import UserError
from kproxy.outputs.finding_selection import Selection
from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine, GapLine, RepeatEntry, RequestLine

COMMON = {"v": 1, "ts": "2026-11-21T03:41:00.123456Z", "connection_id": "c-1"}


def request(*codes: str, severity: str = "error") -> RequestLine:
    entries = [FindingEntry(code, "name", severity, "m") for code in codes]
    return RequestLine(**COMMON, client="a", server="b", size=1, offset=0, findings=entries)


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        ([], [], "L001 L002 C001"),
        (["L"], [], "L001 L002"),
        (["L001,C"], [], "L001 C001"),
        (["c00", "L002"], [], "L002 C001"),
        (["trailing-bytes"], [], "L001"),
        ([], ["L00"], "C001"),
        (["L"], ["L001"], "L002"),
    ],
)
def test_findings_are_selected_by_code_prefix_or_name(select: list[str], ignore: list[str], expected: str) -> None:
    selection = Selection(select, ignore)
    assert [code for code in ("L001", "L002", "C001") if selection.shows(code)] == expected.split()


def test_selection_returns_a_copy_of_the_line_without_other_findings() -> None:
    line = request("L001", "C001")
    selected = Selection(ignore=["L"]).select(line)
    assert isinstance(selected, RequestLine)
    assert [entry.code for entry in selected.findings] == ["C001"]
    assert len(line.findings) == 2


def test_selection_drops_only_lines_of_unselected_findings() -> None:
    selection = Selection(select=["C"])
    finding = FindingLine(**COMMON, code="X001", name="n", severity="error", message="m")
    gap = GapLine(**COMMON, direction="request", bytes=1, reason="r")
    assert selection.select(finding) is None
    assert selection.select(gap) is gap
    assert Selection().select(finding) is finding


def test_selection_drops_counts_of_unselected_findings() -> None:
    line = CloseLine(
        **COMMON, client="a", server="b", repeated=[RepeatEntry("L001", "n", 3), RepeatEntry("C001", "n", 4)]
    )
    selected = Selection(select=["C"]).select(line)
    assert isinstance(selected, CloseLine)
    assert [entry.count for entry in selected.repeated] == [4]


@pytest.mark.parametrize(("fail_on", "failing"), [("info", "iwe"), ("warning", "we"), ("error", "e"), ("never", "")])
def test_findings_at_or_above_the_threshold_fail_the_run(fail_on: str, failing: str) -> None:
    selection = Selection(fail_on=fail_on)
    for severity in ("info", "warning", "error"):
        assert selection.fails_for(request("L001", severity=severity)) == (severity[0] in failing)
        finding = FindingLine(**COMMON, code="X001", name="n", severity=severity, message="m")
        assert selection.fails_for(finding) == (severity[0] in failing)
    assert not selection.fails_for(request())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("L9999x", "--select L9999x: unknown rule; kproxy rules L lists them"),
        ("tralling-bytes", "did you mean L001 trailing-bytes"),
        ("?", "unknown rule; kproxy rules lists them"),
    ],
)
def test_unknown_code_is_rejected(code: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        Selection(select=["C001", code])
