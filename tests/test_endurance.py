"""benchmarks/endurance.py passes a short run, and its check of a trace detects errors."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dissectors.connections.events import INSPECTOR_WAS_BEHIND, INSPECTOR_WAS_RESTARTED
from kproxy.trace.lines import FORMAT, CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TS = "2026-01-01T00:00:00.000000Z"
CLIENT = "127.0.0.1:5"


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("endurance_trace")


def trace(*more_lines: Line, requests: int = 2) -> list[Line]:
    """Return the trace of a connection with frames of 10 bytes."""
    common_columns: dict[str, Any] = {"v": FORMAT, "ts": TS, "connection_id": "n-1-1", "client": CLIENT, "server": "s"}
    frame_columns = {
        **common_columns,
        "api": "Metadata",
        "api_key": 3,
        "api_version": 1,
        "correlation_id": 1,
        "size": 10,
        "offset": 0,
    }
    return [
        OpenLine(**common_columns, listener="l"),
        *(RequestLine(**frame_columns) for _ in range(requests)),
        *(ResponseLine(**frame_columns) for _ in range(2)),
        CloseLine(**common_columns, request_bytes=20, response_bytes=20),
        *more_lines,
    ]


def gap(connection_id: str, size: int, frames: int, reason: str) -> GapLine:
    direction = "request" if connection_id else "both"
    return GapLine(
        v=FORMAT, ts=TS, connection_id=connection_id, direction=direction, bytes=size, frames=frames, reason=reason
    )


def test_complete_trace_has_no_missing_frames(accounts: Any) -> None:
    result = accounts.account(trace(), {CLIENT: 2})
    assert (result.frames, result.missing, result.unaccounted, result.wrong) == (4, 0, 0, [])


def test_missing_frame_is_unaccounted_for(accounts: Any) -> None:
    assert accounts.account(trace(requests=1), {CLIENT: 2}).unaccounted == 1


@pytest.mark.parametrize(
    "line",
    [
        gap("n-1-1", 10, 1, INSPECTOR_WAS_BEHIND),
        gap("", 0, 1, "the trace could not be written"),
        gap("", 10, 1, f"{INSPECTOR_WAS_RESTARTED}: 1 connection came and went unseen"),
    ],
)
def test_gap_accounts_for_a_missing_frame(accounts: Any, line: GapLine) -> None:
    result = accounts.account(trace(line, requests=1), {CLIENT: 2})
    assert (result.unaccounted, result.wrong) == (0, [])


def test_gap_with_a_wrong_number_of_bytes_is_reported(accounts: Any) -> None:
    result = accounts.account(trace(gap("n-1-1", 9, 1, INSPECTOR_WAS_BEHIND), requests=1), {CLIENT: 2})
    assert result.wrong == [f"{CLIENT}: 19 of 20 bytes (requests)"]


@pytest.mark.wide
def test_short_run_succeeds() -> None:
    command = [sys.executable, str(BENCHMARKS / "endurance.py"), "--minutes", "0.3"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    for disturbance in ("stop inspector", "jump clock", "fill disk", "kill inspector"):
        assert disturbance in process.stdout
    assert process.stdout.endswith("nothing is wrong\n")
