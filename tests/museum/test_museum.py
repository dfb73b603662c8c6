"""The capture of each real bug has the finding that names the cause, and the page shows the case."""

from __future__ import annotations

import gzip

import pytest

from kproxy.broker.quirks import parse
from kproxy.trace.lines import Detail, FindingEntry
from kproxy.verdict.as_json import finding_as_json
from tests.kproxy.capture_results import findings_of
from tests.kproxy.captures.recorder import record_story
from tests.museum.cases import CAPTURES, CASES, ROOT, Case
from tests.museum.page import page

EACH_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@EACH_CASE
def test_finding_names_the_cause(case: Case) -> None:
    reported = [
        reported_finding
        for _, reported_finding in findings_of(case.capture, detail=Detail.FULL, ports=frozenset(case.ports))
    ]
    other_codes = {finding.code for finding in reported if finding.severity != "info"} - {case.finding.code}
    matching = [finding for finding in reported if finding.code == case.finding.code]
    assert matching, f"only {[(finding.code, finding.message) for finding in reported]}"
    assert matching[0].message == case.finding.message
    edit = matching[0].edit if isinstance(matching[0], FindingEntry) else None
    assert (finding_as_json(matching[0])["edit"] if edit else None) == case.finding.edit
    assert other_codes == set(case.finding.also)


@EACH_CASE
def test_capture_is_generated_from_its_story(case: Case) -> None:
    if case.story is None:
        assert case.recorded
    else:  # compare decompressed bytes, because zlib and its successors compress differently
        assert gzip.decompress(case.capture.read_bytes()) == record_story(case.story)
    assert case.capture.stat().st_size < 10_000


@EACH_CASE
def test_case_has_a_source_and_a_symptom(case: Case) -> None:
    assert case.source.startswith("https://")
    assert case.symptom.strip()
    if case.quirk:
        assert parse(case.quirk)


def test_every_capture_has_a_case() -> None:
    assert {path.name for path in CAPTURES.iterdir()} == {case.capture.name for case in CASES.values()}


def test_museum_has_at_least_forty_cases() -> None:
    assert len(CASES) >= 40


def test_page_is_generated_from_the_cases() -> None:
    assert (ROOT / "docs" / "museum.md").read_text() == page()
