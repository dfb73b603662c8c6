"""Put mixed load through kproxy with a trace for a long time, and disturb it.

    python benchmarks/endurance.py [--minutes 30] [--keep DIRECTORY] [-- OPTION...]

Clients of several kinds (`endurance_load.py`) compare every byte; some read slowly, and some connections are reset by
either side. The disturbances, in turn: the inspector is stopped (SIGSTOP) and continues; the clock jumps by hours, back
or forth, which starts a new trace file; the trace's disk is full for a while; the inspector is killed (SIGKILL) and
restarts. OPTIONs are kproxy's, e.g. --advertise.

After each disturbance, the clients must continue without an error. At the end, the relay must have as many descriptors
and tasks as before the load, and the trace must have every frame, or count it in a gap line (`endurance_trace.py`).
Otherwise the exit status is 1.

Memory is the resident set of relay and inspector between disturbances. Its slope is that of a linear regression over
the last two thirds, after every disturbance has happened at least once. The inspector is killed only in the first
third, so that all samples are from one process. A slope needs half an hour to be meaningful, and is only reported.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from endurance_load import Load, broker
from endurance_trace import account, lines_of
from relay_load import process

#: The number of correct responses that must follow each disturbance, and the seconds that they may take.
_EXCHANGES: Final = 30
_TIMEOUT_S: Final = 30.0
_HOUR_NS: Final = 3600 * 10**9
_PAGE_KIB: Final = os.sysconf("SC_PAGE_SIZE") // 1024
_COMPLETE, _RESTARTED = 0, 4  # exit statuses of kproxy


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KIB


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition of another process holds.

    Raises:
        TimeoutError: It did not hold in time.
    """
    async with asyncio.timeout(_TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@dataclass
class Proxy:
    """A running kproxy.

    Attributes:
        shared: The clock's offset and the number of tasks; see `endurance_proxy.py`.
        printed: Lines of standard error; not in a file, which a full disk would affect.
        memory: Samples of seconds and KiB, for the relay and for the inspector.
    """

    process: subprocess.Popen[str]
    port: int
    shared: memoryview
    printed: list[str] = field(default_factory=list)
    memory: tuple[list[tuple[float, int]], list[tuple[float, int]]] = field(default_factory=lambda: ([], []))

    @property
    def relay(self) -> int:
        return self.process.pid

    @property
    def inspector(self) -> int | None:
        inspectors = [pid for spawner in children(self.relay) for pid in children(spawner)]
        return inspectors[0] if inspectors else None

    async def wait_for_inspector(self) -> int:
        """Return the inspector's process id. The relay listens before its inspector runs."""
        await until(lambda: self.inspector is not None)
        inspector = self.inspector
        assert inspector is not None
        return inspector

    def descriptors_and_tasks(self) -> tuple[int, int]:
        """Return the numbers of the relay's descriptors and tasks."""
        self.shared[1] = -1
        os.kill(self.relay, signal.SIGUSR1)
        while self.shared[1] < 0:
            time.sleep(0.001)
        return len(list(Path(f"/proc/{self.relay}/fd").iterdir())), self.shared[1]

    def sample_memory(self) -> str:
        """Record the current memory, and return it as text."""
        now = time.monotonic()
        self.memory[0].append((now, resident_kib(self.relay)))
        if inspector := self.inspector:
            self.memory[1].append((now, resident_kib(inspector)))
        return " + ".join(f"{samples[-1][1] / 1024:.1f}" for samples in self.memory if samples) + " MiB"


@contextmanager
def start_proxy(upstream: int, directory: Path, options: Sequence[str]) -> Iterator[Proxy]:
    clock = directory / "clock"
    clock.write_bytes(bytes(16))
    with clock.open("r+b") as file:
        shared = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")
    command = [
        sys.executable, str(Path(__file__).with_name("endurance_proxy.py")), str(clock),
        "--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{upstream}", "--trace", str(directory / "trace"),
        "--quiet", "--no-control", *options,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        first_line = child.stderr.readline()
        match = re.match(r"listening on 127\.0\.0\.1:(\d+)", first_line)
        if not match:
            child.kill()
            sys.exit(first_line)
        proxy = Proxy(child, int(match[1]), shared)
        reader = threading.Thread(target=proxy.printed.extend, args=(child.stderr,))
        reader.start()
        try:
            yield proxy
        finally:
            child.kill()
            reader.join()


class Disturbances:
    """Disturbances of the proxy. Each method returns when its disturbance is over; `hold` is its duration in s."""

    def __init__(self, proxy: Proxy, hold: float) -> None:
        self._proxy = proxy
        self._hold = hold
        self._random = random.Random(1)

    async def stop_inspector(self) -> None:
        """Stop the inspector for a while, so that the tap's queue fills up."""
        inspector = await self._proxy.wait_for_inspector()
        os.kill(inspector, signal.SIGSTOP)
        try:
            await asyncio.sleep(self._hold)
        finally:
            os.kill(inspector, signal.SIGCONT)

    async def kill_inspector(self) -> None:
        """Kill the inspector; wait until the relay has started another."""
        killed = await self._proxy.wait_for_inspector()
        os.kill(killed, signal.SIGKILL)
        await until(lambda: self._proxy.inspector not in (None, killed))

    async def fill_disk(self) -> None:
        """Prevent the inspector's files from growing for a while, as a full disk would."""
        inspector = await self._proxy.wait_for_inspector()
        _, hard = resource.prlimit(inspector, resource.RLIMIT_FSIZE)
        resource.prlimit(inspector, resource.RLIMIT_FSIZE, (1, hard))
        try:
            await asyncio.sleep(self._hold)
        finally:
            resource.prlimit(inspector, resource.RLIMIT_FSIZE, (hard, hard))

    async def jump_clock(self) -> None:
        """Change the clock by up to 30 hours in either direction."""
        self._proxy.shared[0] += self._random.randrange(-30, 31) * _HOUR_NS + self._random.randrange(_HOUR_NS)
        await asyncio.sleep(self._hold / 4)


async def run(proxy: Proxy, load: Load, seconds: float) -> list[str]:
    """Apply load and disturbances; return the problems."""
    counts_before = proxy.descriptors_and_tasks()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.run())
        await disturb(proxy, load, seconds)
        load.stop()
    problems = list(load.errors)
    try:
        await until(lambda: proxy.descriptors_and_tasks() == counts_before)
    except TimeoutError:
        counts_after = proxy.descriptors_and_tasks()
        problems.append(f"descriptors and tasks of the relay: {counts_before} before the load, {counts_after} after it")
    return problems


async def disturb(proxy: Proxy, load: Load, seconds: float) -> None:
    """Apply the disturbances in turn, each at least once; print one line for each."""
    started = time.monotonic()
    pause = min(10.0, seconds / 20)
    disturbances = Disturbances(proxy, pause)
    methods: list[Callable[[], Awaitable[None]]] = [
        disturbances.stop_inspector, disturbances.jump_clock, disturbances.fill_disk, disturbances.kill_inspector
    ]  # fmt: skip
    warmed_up_at = started + seconds / 3
    number = 0
    while (now := time.monotonic()) < started + seconds or number < len(methods):
        if now > warmed_up_at and number >= len(methods) and disturbances.kill_inspector in methods:
            methods.remove(disturbances.kill_inspector)
        method = methods[number % len(methods)]
        number += 1
        errors_before, exchanges = len(load.errors), load.exchanges
        try:
            await method()
            target = load.exchanges + _EXCHANGES
            await until(lambda: load.exchanges >= target)  # noqa: B023
            await asyncio.sleep(pause)
        except TimeoutError:
            load.errors.append(f"fewer than {_EXCHANGES} exchanges in {_TIMEOUT_S:g} s after {method.__name__}")
        memory = proxy.sample_memory()
        result = "; ".join(load.errors[errors_before:]) or "all right"
        name = method.__name__.replace("_", " ")
        count = load.exchanges - exchanges
        print(f"{now - started:7.0f} s  {name:18} {count:6} exchanges: {result}; {memory}", flush=True)


def stop(proxy: Proxy) -> list[str]:
    proxy.process.terminate()
    status = proxy.process.wait(60)
    return [] if status in (_COMPLETE, _RESTARTED) else [f"kproxy ended with status {status}"]


def print_slopes(proxy: Proxy) -> None:
    """Print the slopes over the last two thirds, in which the inspector was not killed."""
    for name, samples in zip(("relay", "inspector"), proxy.memory, strict=True):
        last_samples = [(at / 3600, kib / 1024) for at, kib in samples[len(samples) // 3 :]]
        slope = (
            statistics.linear_regression(*zip(*last_samples, strict=True)).slope
            if len(last_samples) > 2
            else float("nan")
        )
        print(
            f"memory of the {name}: {last_samples[0][1]:.1f} MiB, then {last_samples[-1][1]:.1f} MiB; slope "
            f"{slope:+.2f} MiB/h"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--keep", type=Path, help="leave the trace in this directory")
    parser.add_argument("options", nargs="*", help="of kproxy, after --")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        proxy = stack.enter_context(start_proxy(stack.enter_context(process(broker))[0], directory, args.options))
        problems, load = asyncio.run(_run_with_load(proxy, args.minutes * 60))
        problems += stop(proxy)
        comparison = account(lines_of(directory / "trace"), load.clean)
    printed = "".join(proxy.printed)
    print(
        f"{load.exchanges} exchanges; {len(load.clean)} connections ended with FIN, {load.broken} with a reset\n"
        f"trace: {comparison.text}"
    )
    print_slopes(proxy)
    problems += comparison.wrong[:20]
    if comparison.unaccounted:
        problems.append(f"{comparison.unaccounted} frames are neither in the trace nor in a gap")
    if "Traceback" in printed:
        problems.append(printed)
    print("\n".join(problems) or "nothing is wrong")
    sys.exit(bool(problems))


async def _run_with_load(proxy: Proxy, seconds: float) -> tuple[list[str], Load]:
    load = Load(proxy.port)
    return await run(proxy, load, seconds), load


if __name__ == "__main__":
    main()
