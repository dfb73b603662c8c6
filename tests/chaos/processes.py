"""The processes of one kproxy, read from /proc: their roles, their peak memory, and whether they are still running."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_S = 0.05
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat, counted from the field after the name


@dataclass(frozen=True)
class Process:
    """A process; `started` distinguishes it from a later process with the same id."""

    pid: int
    started: str

    @classmethod
    def find(cls, pid: int) -> Process | None:
        """Return the running process with this id, if any."""
        fields = _read_stat(pid)
        return None if fields is None or fields[_STATE] in "ZX" else cls(pid, fields[_STARTED])

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended; a stopped process counts as running."""
        return Process.find(self.pid) == self

    @property
    def peak_mb(self) -> float:
        """The peak memory so far (VmHWM), in MB; 0 once the process has ended."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return 0

    @property
    def children(self) -> list[Process]:
        """The running child processes, sorted by id."""
        pids: list[int] = []
        with suppress(OSError):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        return [child for pid in sorted(pids) if (child := Process.find(pid)) is not None]

    def signal(self, number: int) -> None:
        """Send the process a signal if it is still running."""
        if self.is_running:
            os.kill(self.pid, number)


def _read_stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def find_processes(relay: Process) -> dict[str, Process]:
    """Return the running processes by name: relay, spawner, inspector; with several inspectors also worker 1, 2, ..."""
    return dict(_named_processes(relay))


def _named_processes(relay: Process) -> Iterator[tuple[str, Process]]:
    yield "relay", relay
    for spawner in relay.children[:1]:
        yield "spawner", spawner
        for inspector in spawner.children[:1]:
            yield "inspector", inspector
            for number, worker in enumerate(inspector.children, 1):
                yield f"worker {number}", worker


class ProcessTracker:
    """Tracks the processes of a running kproxy in a thread, several times a second.

    Attributes:
        peaks: The peak memory of each process in MB; the highest peak if it was restarted.
        processes: Every process that ever belonged to the kproxy.
    """

    def __init__(self, relay: Process) -> None:
        self.peaks: dict[str, float] = {}
        self.processes: set[Process] = {relay}
        self._relay = relay
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._record_repeatedly, daemon=True)
        self._thread.start()

    @property
    def remaining(self) -> list[Process]:
        """The processes that are still running."""
        return [process for process in self.processes if process.is_running]

    def close(self) -> None:
        """Stop tracking."""
        self._ended.set()
        self._thread.join()

    def record_running(self) -> dict[str, Process]:
        """Record and return the running processes, by name."""
        running = find_processes(self._relay)
        for name, process in running.items():
            self.processes.add(process)
            self.peaks[name] = max(process.peak_mb, self.peaks.get(name, 0))
        return running

    def _record_repeatedly(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            self.record_running()
