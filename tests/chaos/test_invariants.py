"""The invariants detect violations."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.invariants import MAX_MB, excessive_memory, lost_or_duplicated, unaccounted_bytes, visible_crashes
from tests.chaos.processes import Process, ProcessTracker
from tests.peers.processes import until


@pytest.mark.parametrize(
    ("stored", "violations"),
    [
        ([[1, 3], [2]], []),
        ([[1, 3, 9], [2]], []),  # stored, although the acknowledgement was lost
        ([[1], [2]], ["1 acknowledged records are not stored: [3]"]),
        ([[1, 3], [2, 3]], ["1 records are stored more than once: [3]"]),
        ([[3, 1], [2]], ["partition 0 has records in another order than they were produced: [1]"]),
    ],
)
def test_lost_duplicated_and_reordered_records_are_found(stored: list[list[int]], violations: list[str]) -> None:
    assert list(lost_or_duplicated({1, 2, 3}, stored)) == violations


def test_excessive_memory_is_found() -> None:
    assert list(excessive_memory({"relay": MAX_MB["relay"], "worker 1": 9.0})) == []
    assert list(excessive_memory({"relay": 9.0, "worker 2": 1000.0})) == ["the worker 2 had 1000 MB, of at most 200"]


def test_tracebacks_are_found() -> None:
    assert list(visible_crashes("listening on 127.0.0.1:9092")) == []
    assert len(list(visible_crashes("Traceback (most recent call last)"))) == 1


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "connection_id": "c", **fields}


def test_relayed_bytes_missing_from_the_trace_are_reported() -> None:
    frames = [line("request", offset=0, size=10), line("gap", direction="request", bytes=5, frames=1)]
    frames += [line("response", offset=0, size=4), line("response", offset=4, size=3)]
    close = line("close", request_bytes=15, response_bytes=8)
    assert list(unaccounted_bytes([*frames, close])) == ["8 bytes of responses of c were relayed, but the trace has 7"]
    assert list(unaccounted_bytes([*frames, close | {"response_bytes": 7}])) == []
    assert (
        list(unaccounted_bytes([*frames, close | {"response_bytes": 6}])) == []
    )  # the connection was closed within a frame
    for how in ("reset", "proxy ended"):
        cut = close | {"how": how, "requests": 2, "responses": 2}
        assert list(unaccounted_bytes([*frames, cut])) == []
        assert len(list(unaccounted_bytes([*frames, cut | {"responses": 3}]))) == 1
        assert len(list(unaccounted_bytes([*frames, cut | {"request_bytes": 2_000_000}]))) == 1
    assert list(unaccounted_bytes(frames)) == []


def test_bytes_in_both_a_frame_and_a_gap_are_found() -> None:
    frame = line("request", offset=0, size=10)
    gap = line("gap", direction="request", bytes=10, frames=1, reason="inspection cannot keep up")
    close = line("close", request_bytes=10, response_bytes=0)
    assert list(unaccounted_bytes([frame, gap, close])) == [
        "10 bytes of requests of c were relayed, but the trace has 20"
    ]
    assert list(unaccounted_bytes([frame, gap | {"reason": "the inspector was restarted"}, close])) == []


def test_frames_missing_beyond_the_lost_lines_are_found() -> None:
    frame = line("request", offset=0, size=10)
    close = line("close", requests=3, responses=0, request_bytes=30, response_bytes=0)
    lost = line("gap", direction="both", bytes=0, frames=1, reason="the trace could not be written")
    lost["connection_id"] = ""
    violations = list(unaccounted_bytes([frame, lost, close]))
    assert violations == ["2 frames are missing in the trace, but only 1 lines are reported as lost"]
    assert list(unaccounted_bytes([frame, lost | {"frames": 2}, close])) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_process_left_behind_is_found() -> None:
    wait_script = "import sys; sys.stdin.read()"
    fork_script = f"import os, sys; os.fork(); {wait_script}"
    with subprocess.Popen([sys.executable, "-c", fork_script], stdin=subprocess.PIPE) as parent:
        process = Process.find(parent.pid)
        assert process is not None
        tracker = ProcessTracker(process)
        child = until("the child has begun", lambda: tracker.record_running().get("spawner"))
        assert child is not None
        assert tracker.peaks["spawner"] > 1
        process.signal(signal.SIGKILL)
        parent.wait()
        assert tracker.remaining == [child]
        child.signal(signal.SIGSTOP)
        assert tracker.remaining == [child]
        child.signal(signal.SIGKILL)
        until("the child has ended", lambda: not tracker.remaining)
        tracker.close()
