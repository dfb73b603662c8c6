"""`kproxy dissect --fields`: the selected fields decide what is computed."""

import json
from pathlib import Path

import pytest

from dissectors import rules
from tests.kproxy.cli.conftest import Run

BROKEN = Path(__file__).parents[3] / "captures" / "metadata-v1-throttle-first.pcap.gz"


def test_computes_findings_only_if_a_field_or_option_needs_them(kproxy: Run) -> None:
    assert kproxy("dissect", "--json", BROKEN).returncode == 1
    assert kproxy("dissect", "--fields", "ts,api", BROKEN).returncode == 0
    with_findings = kproxy("dissect", "--fields", "ts,findings.code", BROKEN)
    assert with_findings.returncode == 1
    assert "L005" in with_findings.stdout
    assert kproxy("dissect", "--fields", "ts,api", "-f", "finding=L005", BROKEN).returncode == 1
    assert kproxy("dissect", "--fields", "ts,api", "--fail-on", "error", BROKEN).returncode == 1
    assert kproxy("dissect", "--fields", "ts,api", "--fail-on", "never", BROKEN).returncode == 0


def test_fail_on_never_computes_no_findings(kproxy: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    checked_events: list[object] = []
    monkeypatch.setattr(rules, "check", lambda event, _: checked_events.append(event) or [])
    for fail_on, is_checked in (("never", False), ("error", True)):
        kproxy("dissect", "--fields", "ts,api", "--fail-on", fail_on, BROKEN)
        assert bool(checked_events) is is_checked


def test_finding_lines_are_rows_only_if_one_of_their_fields_is_selected(kproxy: Run) -> None:
    capture = BROKEN.with_name("join-group-never-synced.pcap.gz")
    lines = [json.loads(line) for line in kproxy("dissect", "--json", capture).stdout.splitlines()]
    frames = [line for line in lines if line["kind"] not in ("finding", "stall")]
    assert len(frames) < len(lines)
    for fail_on in ((), ("--fail-on", "info")):
        rows = kproxy("dissect", "--fields", "ts,api", *fail_on, capture).stdout.splitlines()
        assert rows == [f"{line['ts']}\t{line.get('api', '')}" for line in frames]
    rows = kproxy("dissect", "--fields", "kind,ts", capture).stdout.splitlines()
    assert rows == [f"{line['kind']}\t{line['ts']}" for line in lines]


def test_duplicate_field_is_one_column(kproxy: Run) -> None:
    assert {len(row.split("\t")) for row in kproxy("dissect", "--fields", "ts,api,ts", BROKEN).stdout.splitlines()} == {
        2
    }
