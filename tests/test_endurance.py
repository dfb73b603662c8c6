"""benchmarks/endurance.py: a short run, and what its accounts of a trace notice."""

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


def trace(*more: Line, requests: int = 2) -> list[Line]:
    """A connection with frames of 10 bytes."""
    shared: dict[str, Any] = {"v": FORMAT, "ts": TS, "connection_id": "n-1-1", "client": CLIENT, "server": "s"}
    frame = {**shared, "api": "Metadata", "api_key": 3, "api_version": 1, "correlation_id": 1, "size": 10, "offset": 0}
    return [
        OpenLine(**shared, listener="l"),
        *(RequestLine(**frame) for _ in range(requests)),
        *(ResponseLine(**frame) for _ in range(2)),
        CloseLine(**shared, request_bytes=20, response_bytes=20),
        *more,
    ]


def gap(connection_id: str, size: int, frames: int, reason: str) -> GapLine:
    direction = "request" if connection_id else "both"
    return GapLine(
        v=FORMAT, ts=TS, connection_id=connection_id, direction=direction, bytes=size, frames=frames, reason=reason
    )


def test_a_whole_trace_lacks_nothing(accounts: Any) -> None:
    found = accounts.account(trace(), {CLIENT: 2})
    assert (found.frames, found.missing, found.unaccounted, found.wrong) == (4, 0, 0, [])


def test_a_missing_frame_is_unaccounted(accounts: Any) -> None:
    assert accounts.account(trace(requests=1), {CLIENT: 2}).unaccounted == 1


@pytest.mark.parametrize(
    "line",
    [
        gap("n-1-1", 10, 1, INSPECTOR_WAS_BEHIND),
        gap("", 0, 1, "the trace could not be written"),
        gap("", 10, 1, f"{INSPECTOR_WAS_RESTARTED}: 1 connection came and went unseen"),
    ],
)
def test_a_gap_accounts_for_it(accounts: Any, line: GapLine) -> None:
    found = accounts.account(trace(line, requests=1), {CLIENT: 2})
    assert (found.unaccounted, found.wrong) == (0, [])


def test_a_gap_with_other_bytes_than_were_relayed_is_wrong(accounts: Any) -> None:
    found = accounts.account(trace(gap("n-1-1", 9, 1, INSPECTOR_WAS_BEHIND), requests=1), {CLIENT: 2})
    assert found.wrong == [f"{CLIENT}: 19 of 20 bytes (requests)"]


@pytest.mark.wide
def test_a_short_run() -> None:
    words = [sys.executable, str(BENCHMARKS / "endurance.py"), "--minutes", "0.3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for disturbance in ("stopped inspector", "clock jump", "full disk", "killed inspector"):
        assert disturbance in done.stdout
    assert done.stdout.endswith("nothing is wrong\n")
