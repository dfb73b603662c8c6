"""Traces with unreadable lines: commands report the first one, use all readable lines, and exit with status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.broker.threaded import BrokerThread
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.cli.conftest import Run

CAPTURE = CAPTURES / "metadata-v1-throttle-first.pcap.gz"
SKIPPED_LINES = "2 of 14 lines could not be read and were skipped: line 3: JSON is malformed: "


@pytest.fixture
def damaged_trace(kproxy: Run, tmp_path: Path) -> Path:
    """A trace with two invalid lines."""
    lines = kproxy("dissect", "--json", "--detail", "raw", CAPTURE).stdout.splitlines(keepends=True)
    return _write(tmp_path / "in" / "damaged.jsonl", [*lines[:2], "garbage\n", *lines[2:9], "[]\n", *lines[9:]])


@pytest.fixture
def killed_trace(damaged_trace: Path) -> Path:
    """The trace of a run that was killed while it wrote its last line."""
    lines = [line for line in damaged_trace.read_text().splitlines(keepends=True) if len(line) > 10]
    return _write(damaged_trace.parents[1] / "killed" / "killed.jsonl", [*lines[:-1], lines[-1][:-9]])


def _write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir()
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("options", [(), ("-q",), ("--json",), ("--fields", "ts"), ("--findings",), ("--html",)])
def test_dissect_skips_and_reports_damaged_lines(
    kproxy: Run, damaged_trace: Path, killed_trace: Path, options: tuple[str, ...]
) -> None:
    for path in (damaged_trace, damaged_trace.parent):
        result = kproxy("dissect", *options, path)
        assert result.returncode == 2
        assert f"damaged.jsonl: {SKIPPED_LINES}" in result.stderr
        assert len(result.stdout) > 20  # the readable lines
    result = kproxy("dissect", "--fail-on", "never", *options, killed_trace)
    assert result.returncode == 0
    assert "killed.jsonl: the last line is incomplete and was skipped\n" in result.stderr


@pytest.mark.slow
def test_damage_is_reported_once_for_several_files_and_processes(
    kproxy: Run, damaged_trace: Path, killed_trace: Path
) -> None:
    for options in ((), ("--json", "-j", "2")):
        result = kproxy("dissect", "--fail-on", "never", *options, killed_trace, damaged_trace, CAPTURE)
        assert (result.returncode, result.stderr.count(SKIPPED_LINES)) == (2, 1)


def test_diff_skips_and_reports_damaged_lines(kproxy: Run, damaged_trace: Path, killed_trace: Path) -> None:
    result = kproxy("diff", damaged_trace, CAPTURE)
    assert result.returncode == 2
    assert f"damaged.jsonl: {SKIPPED_LINES}" in result.stderr
    assert "no differences" in result.stdout
    assert kproxy("diff", killed_trace, CAPTURE).returncode == 0


def test_export_test_skips_damaged_lines(kproxy: Run, damaged_trace: Path, killed_trace: Path) -> None:
    result = kproxy("export-test", damaged_trace, "0:2")
    assert result.returncode == 2
    assert "def test_" in result.stdout
    assert kproxy("export-test", killed_trace, "0:2").returncode == 0


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_replay_of_a_damaged_trace_exits_with_2(
    kproxy: Run, kproxy_broker: BrokerThread, damaged_trace: Path, killed_trace: Path
) -> None:
    statuses = [kproxy("replay", path, kproxy_broker.bootstrap, "--speed", "max").returncode
                for path in (damaged_trace, killed_trace)]  # fmt: skip
    assert statuses == [2, 1]


def test_directory_of_unreadable_files_is_reported_as_unreadable(kproxy: Run, tmp_path: Path) -> None:
    _write(tmp_path / "in" / "a.pcap", ["no capture"])
    result = kproxy("dissect", tmp_path / "in")
    assert result.returncode == 2
    assert result.stderr.endswith("nothing was analysed: no input could be read (1 file, 0 connections, 0 frames)\n")
