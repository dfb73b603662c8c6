"""Compare the CPU time of this checkout with that of a pinned revision, in the same run.

    PYTHONPATH=. python benchmarks/regression.py [--rounds 3]

Five kinds of work, in processes of `python -m kproxy`: `dissect --json` and `dissect --fields` of recorded traffic
(the pieces in `tests/data/traffic`, several times in one process), the same traffic through a proxy that inspects it
(all its processes), the relay for round trips of 100 bytes, and `explain --json` of broken frames. Both revisions do
each kind of work at the same time, on one CPU, which alternates between them every few milliseconds, so that other load
slows both down alike. (The relays explicitly take turns, so that neither affects the cost of a wake-up in the other.)
The median ratio of several rounds counts. The status is 1 if this checkout has less than 85 % of the pinned revision's
speed, even after more rounds.

The pinned revision comes from the history of this clone. If the clone is shallow, nothing is compared. After a lasting
improvement, pin a revision that includes it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from played import played
from recorded import TRAFFIC, all_sent, unpacked
from relay_load import ECHO, SMALL_FRAME, connect, cpu_seconds, process, upstream

PINNED: Final = "b25c0c763186c94814d933aa81f7f484348b40aa"
#: Speed of this checkout, relative to the pinned revision, below which the check fails.
MIN_SPEED: Final = 0.85
_HERE: Final = Path(__file__).resolve().parents[1]
_COPIES: Final = 3  # of the pieces, 6,000 frames each, so that the start of Python is a fifth of the work
_BROKEN_FRAMES: Final = 150
_TURNS: Final = 20
_TRIPS: Final = 600  # in a turn

#: A function that returns the CPU seconds of one piece of work with the named revision.
Measure: TypeAlias = Callable[[str], float]


class Pair(NamedTuple):
    """CPU seconds of both revisions."""

    pinned: float
    here: float


def compare(measure: Measure, rounds: int) -> list[Pair]:
    """Measure both revisions at the same time, in several rounds; return the CPU times of each round."""
    with ThreadPoolExecutor(2) as pool:
        return [Pair(*pool.map(measure, Pair._fields)) for _ in range(rounds)]


def check(measures: Mapping[str, Measure], rounds: int) -> list[str]:
    """Compare each kind of work, and print its figures; return the kinds that have become too slow."""
    slow = []
    for work, measure in measures.items():
        pairs = compare(measure, rounds)
        if speed(pairs) < MIN_SPEED:
            pairs += compare(measure, 2 * rounds)
        times = ", ".join(
            f"{min(seconds):.3f} {name}" for name, seconds in zip(Pair._fields, zip(*pairs, strict=True), strict=True)
        )
        print(f"{work:18} {times} (least CPU s): {speed(pairs):.2f} times as fast", flush=True)
        if speed(pairs) < MIN_SPEED:
            slow.append(work)
    return slow


def speed(pairs: Sequence[Pair]) -> float:
    """Return how many times as fast this checkout is: the median of all rounds."""
    return statistics.median(pair.pinned / pair.here for pair in pairs)


def unpack(revision: str, directory: Path) -> str | None:
    """Unpack a revision of this clone; return the reason if that is impossible."""

    def git(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", "-C", str(_HERE), *words], capture_output=True, check=False)

    archive = git("archive", revision, "kproxy", "dissectors", "pyproject.toml")
    if archive.returncode:
        shallow = git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        return "this clone is shallow" if shallow else archive.stderr.decode().strip()
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True
    )  # 3.11.2 has no tarfile filters
    return None


def environment(tree: Path) -> dict[str, str]:
    """Return an environment without other Python variables, which could prevent storing of compiled modules."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**inherited, "PYTHONPATH": str(tree)}


def command_seconds(tree: Path, words: Sequence[str], source: Path, statuses: Sequence[int]) -> float:
    """Return the CPU time (user and system) of a kproxy command that reads `source`."""
    command = [sys.executable, "-P", "-m", "kproxy", *words]
    with source.open("rb") as file, Path(os.devnull).open("wb") as devnull:
        process = subprocess.Popen(command, stdin=file, stdout=devnull, stderr=devnull, env=environment(tree))
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in statuses:
        raise SystemExit(f"{' '.join(command)} of {tree} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def write_broken_frames(path: Path) -> None:
    from tests.dissectors.diagnosis.broken import Mutations

    mutations = Mutations(5)
    with path.open("w") as file:
        for number in range(_BROKEN_FRAMES):
            request, broken = mutations.exchange()
            line = {"id": number, "frame": broken.frame.hex()}
            if not broken.is_request:
                line["request"] = request.hex()
            file.write(json.dumps(line) + "\n")


@contextmanager
def relays(trees: Mapping[str, Path], directory: Path) -> Iterator[Measure]:
    """Run a relay of each revision in front of the same upstream, all on one CPU because that affects a wake-up's cost.

    The cost also depends on other processes that wait for the CPU, so the relays take turns of a tenth of a second.
    """
    with ExitStack() as stack:
        port, _ = stack.enter_context(process(upstream))
        relays_by_name = {}
        turn = threading.Lock()
        for name, tree in trees.items():
            words = ["--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{port}", "--no-trace", "--no-control", "-q"]
            relay = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "kproxy", *words],
                    cwd=directory,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment(tree),
                )
            )
            stack.callback(relay.kill)
            assert relay.stderr is not None
            if not (match := re.match(r"listening on .*:(\d+) ->", first_line := relay.stderr.readline())):
                raise SystemExit(f"the relay of {tree} does not start: {first_line}")
            relays_by_name[name] = relay.pid, int(match[1])

        def measure(name: str) -> float:
            pid, relay_port = relays_by_name[name]
            cpu = cpu_seconds(pid)
            for _ in range(_TURNS):
                with turn, connect(relay_port, ECHO) as sock:  # the upstream serves one connection at a time
                    for _ in range(_TRIPS):
                        sock.sendall(SMALL_FRAME)
                        sock.recv(len(SMALL_FRAME), socket.MSG_WAITALL)
                time.sleep(0.001)  # let the other relay have its turn
            return cpu_seconds(pid) - cpu

        yield measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pinned", default=PINNED, metavar="REVISION")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if (reason := unpack(args.pinned, directory / "pinned")) is not None:
            print(f"speed is not compared with revision {args.pinned[:12]}: {reason}")
            sys.exit(0 if "shallow" in reason else 1)
        trees = {"pinned": directory / "pinned", "here": _HERE}
        frames = directory / "broken.jsonl"
        write_broken_frames(frames)
        captures = [*map(str, unpacked(directory))] * _COPIES
        traffic = all_sent(TRAFFIC * _COPIES)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        relay = stack.enter_context(relays(trees, directory))
        slow = check(
            {
                "dissect --json": lambda name: command_seconds(
                    trees[name], ["dissect", "--json", *captures], frames, [1]
                ),
                "dissect --fields": lambda name: command_seconds(
                    trees[name], ["dissect", "--fields", "ts,api,latency_us", *captures], frames, [0]
                ),
                "proxy and trace": lambda name: played(trees[name], traffic, directory / f"trace-{name}"),
                "relay, round trips": relay,
                "explain --json": lambda name: command_seconds(trees[name], ["explain", "--json", "-"], frames, [0, 1]),
            },
            args.rounds,
        )
    if slow:
        sys.exit(f"slower than {MIN_SPEED:.0%} of revision {args.pinned[:12]}: {', '.join(slow)}")


if __name__ == "__main__":
    main()
