"""The judge's own checks find what they look for."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.invariants import MAX_MB, crashed, lost_or_doubled, unaccounted, unbounded
from tests.chaos.processes import Census, Process
from tests.peers.processes import until


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ([[1, 3], [2]], []),
        ([[1, 3, 9], [2]], []),  # stored, although the acknowledgement was lost
        ([[1], [2]], ["1 acknowledged records are not stored: [3]"]),
        ([[1, 3], [2, 3]], ["1 records are stored more than once: [3]"]),
        ([[3, 1], [2]], ["partition 0 has records in another order than they were produced: [1]"]),
    ],
)
def test_lost_doubled_and_swapped_records_are_found(stored: list[list[int]], found: list[str]) -> None:
    assert list(lost_or_doubled({1, 2, 3}, stored)) == found


def test_too_much_memory_is_found() -> None:
    assert list(unbounded({"relay": MAX_MB["relay"], "worker 1": 9.0})) == []
    assert list(unbounded({"relay": 9.0, "worker 2": 1000.0})) == ["the worker 2 had 1000 MB, of at most 200"]


def test_tracebacks_are_found() -> None:
    assert list(crashed("listening on 127.0.0.1:9092")) == []
    assert len(list(crashed("Traceback (most recent call last)"))) == 1


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "connection_id": "c", **fields}


def test_bytes_that_are_neither_in_a_frame_nor_in_a_gap_are_found() -> None:
    frames = [line("request", offset=0, size=10), line("gap", direction="request", bytes=5, frames=1)]
    frames += [line("response", offset=0, size=4), line("response", offset=4, size=3)]
    close = line("close", request_bytes=15, response_bytes=8)
    assert list(unaccounted([*frames, close])) == ["8 bytes of responses of c were relayed, but the trace has 7"]
    assert list(unaccounted([*frames, close | {"response_bytes": 7}])) == []
    assert list(unaccounted([*frames, close | {"response_bytes": 6}])) == []  # the connection was closed in a frame
    assert list(unaccounted([*frames, close | {"how": "reset"}])) == []
    assert list(unaccounted(frames)) == []


def test_bytes_that_are_in_a_frame_and_in_a_gap_are_found_unless_the_inspector_was_killed() -> None:
    frame = line("request", offset=0, size=10)
    gap = line("gap", direction="request", bytes=10, frames=1, reason="inspection cannot keep up")
    close = line("close", request_bytes=10, response_bytes=0)
    assert list(unaccounted([frame, gap, close])) == ["10 bytes of requests of c were relayed, but the trace has 20"]
    assert list(unaccounted([frame, gap | {"reason": "the inspector was restarted"}, close])) == []


def test_frames_that_are_missing_without_a_lost_line_are_found() -> None:
    frame = line("request", offset=0, size=10)
    close = line("close", requests=3, responses=0, request_bytes=30, response_bytes=0)
    lost = line("gap", direction="both", bytes=0, frames=1, reason="the trace could not be written")
    lost["connection_id"] = ""
    found = list(unaccounted([frame, lost, close]))
    assert found == ["2 frames are missing in the trace, but only 1 lines are reported as lost"]
    assert list(unaccounted([frame, lost | {"frames": 2}, close])) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_process_that_is_left_behind_is_found() -> None:
    waits = "import sys; sys.stdin.read()"
    forks = f"import os, sys; os.fork(); {waits}"
    with subprocess.Popen([sys.executable, "-c", forks], stdin=subprocess.PIPE) as parent:
        process = Process.find(parent.pid)
        assert process is not None
        census = Census(process)
        child = until("the child has begun", lambda: census.count().get("spawner"))
        assert child is not None
        assert census.peaks["spawner"] > 1
        process.signal(signal.SIGKILL)
        parent.wait()
        assert census.left == [child]
        child.signal(signal.SIGSTOP)
        assert census.left == [child]
        child.signal(signal.SIGKILL)
        until("the child has ended", lambda: not census.left)
        census.close()
