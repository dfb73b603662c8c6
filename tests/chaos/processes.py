"""The processes of one kproxy, read from /proc: their roles, their peak memory, and whether they still run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_EVERY_S = 0.05
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat, counted from the one after the name


@dataclass(frozen=True)
class Process:
    """A process; `started` distinguishes it from a later one with the same id."""

    pid: int
    started: str

    @classmethod
    def find(cls, pid: int) -> Process | None:
        """The current process with this id, unless it has ended."""
        fields = _read_stat(pid)
        return None if fields is None or fields[_STATE] in "ZX" else cls(pid, fields[_STARTED])

    @property
    def runs(self) -> bool:
        """Whether it has not ended; a stopped process runs."""
        return Process.find(self.pid) == self

    @property
    def peak_mb(self) -> float:
        """Its peak memory so far (VmHWM); 0 once it has ended."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return 0

    @property
    def children(self) -> list[Process]:
        """Its running child processes, the oldest first."""
        pids: list[int] = []
        with suppress(OSError):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        return [child for pid in sorted(pids) if (child := Process.find(pid)) is not None]

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.runs:
            os.kill(self.pid, number)


def _read_stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def find_parts(relay: Process) -> dict[str, Process]:
    """The running processes of a kproxy: relay, spawner, inspector; with several inspectors also worker 1, 2, ..."""
    return dict(_parts(relay))


def _parts(relay: Process) -> Iterator[tuple[str, Process]]:
    yield "relay", relay
    for spawner in relay.children[:1]:
        yield "spawner", spawner
        for inspector in spawner.children[:1]:
            yield "inspector", inspector
            for number, worker in enumerate(inspector.children, 1):
                yield f"worker {number}", worker


class ProcessTracker:
    """Tracks the processes of a kproxy while it runs, several times a second, in a thread.

    Attributes:
        peaks: The peak memory of each process in MB; the highest one for restarted processes.
        processes: Every process that ever belonged to it.
    """

    def __init__(self, relay: Process) -> None:
        self.peaks: dict[str, float] = {}
        self.processes: set[Process] = {relay}
        self._relay = relay
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    @property
    def remaining(self) -> list[Process]:
        """The processes that still run."""
        return [process for process in self.processes if process.runs]

    def close(self) -> None:
        """Stop tracking."""
        self._ended.set()
        self._thread.join()

    def count(self) -> dict[str, Process]:
        """Record and return the running processes."""
        running = find_parts(self._relay)
        for name, process in running.items():
            self.processes.add(process)
            self.peaks[name] = max(process.peak_mb, self.peaks.get(name, 0))
        return running

    def _count(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.count()
