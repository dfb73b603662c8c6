"""Compare `kproxy dissect` with tshark on recorded traffic: whole lines, and chosen fields, written to /dev/null.

    python benchmarks/dissect.py [CAPTURE ...] [--checkout DIRECTORY] [--rounds 3] [--apis] [--synthetic]

Without a CAPTURE, it measures new recordings by `recording.py`, 30 s for each kind of client
(`PYTHONPATH=. python benchmarks/dissect.py`). --checkout names a directory with another revision of kproxy, which is
measured in the same run. Commands take turns, and the least CPU time of all rounds counts: other load on the machine
affects individual figures, but hardly the ratios.

--apis also measures `dissect --json` for the frames of each API alone, extracted into a separate capture, without the
start of Python. --synthetic measures 100,000 frames of three kinds that this program generates: a microbenchmark,
several times cheaper than the traffic of real clients.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from capture import make_small_frames  # beside this file
from recorded import Frame, frames, write_capture

from kproxy.capture import FlowOpened, Reassembler, open_capture

_HERE: Final = Path(__file__).resolve().parent.parent
ROWS: Final = {
    "whole lines": (["--json"], ["-T", "json"]),
    "chosen fields": (
        ["--fields", "ts,api,latency_us"],
        ["-T", "fields", "-e", "frame.time_epoch", "-e", "kafka.api_key", "-e", "tcp.time_delta"],
    ),
}
#: An API with fewer frames is not measured: its connections would cost more than its frames.
_MIN_FRAMES: Final = 400
#: The minimum number of frames in one process, if necessary by reading the same capture repeatedly; with fewer, noise
#: would hide the cost per frame.
_ENOUGH_FRAMES: Final = 20_000


def cpu_seconds(command: list[str], directory: Path = _HERE) -> float:
    """Return the CPU time of a command, user and system."""
    usage = resources(command, directory)
    return usage.ru_utime + usage.ru_stime


def resources(command: list[str], directory: Path = _HERE) -> resource.struct_rusage:
    """Run a command and return the resources that it used."""
    # Some of these variables stop Python from storing compiled modules or from buffering output.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with Path(os.devnull).open("wb") as devnull:
        process = subprocess.Popen(command, stdout=devnull, stderr=devnull, cwd=directory, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1 means that there are findings
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return usage


def kproxy(options: list[str], captures: list[Path], directory: Path) -> float:
    """Return the CPU time of `kproxy dissect`."""
    command = [sys.executable, "-m", "kproxy", "dissect", *options, *map(str, captures)]
    return cpu_seconds(command, directory)


def measure(path: Path, checkouts: Mapping[str, Path], rounds: int) -> None:
    """Measure each row with all programs in turns, and print it."""
    traffic = list(frames(path))
    ports = server_ports(path)
    print(f"{path.name}: {len(traffic):,} frames; CPU seconds, CPU us a frame, and how many times as long as kproxy")
    for row, (kproxy_options, tshark_options) in ROWS.items():
        best: dict[str, float] = defaultdict(lambda: float("inf"))
        for _ in range(rounds):
            for name, directory in checkouts.items():
                best[name] = min(best[name], kproxy(kproxy_options, [path], directory))
            if shutil.which("tshark"):
                decode_options = [word for port in ports for word in ("-d", f"tcp.port=={port},kafka")]
                best["tshark"] = min(
                    best["tshark"], cpu_seconds(["tshark", "-r", str(path), *decode_options, *tshark_options])
                )
        cells = (
            f"{name} {seconds:.2f} s, {seconds / len(traffic) * 1e6:.1f} us ({seconds / best['kproxy']:.2f})"
            for name, seconds in best.items()
        )
        print(f"{row:>14}: {', '.join(cells)}", flush=True)


def server_ports(path: Path) -> set[int]:
    """Return the ports to pass to tshark, which by default treats only port 9092 as Kafka's."""
    reassembler = Reassembler()
    with open_capture(path) as packets:
        opened = (event for packet in packets for event in reassembler.receive(packet) if isinstance(event, FlowOpened))
        return {event.flow.server[1] for event in opened}


def measure_apis(path: Path, checkouts: Mapping[str, Path], rounds: int) -> None:
    """Measure the frames of each API alone; print the number of frames and the CPU time of each API."""
    frames_by_api: dict[str, list[Frame]] = defaultdict(list)
    for frame in frames(path):
        frames_by_api[frame.api].append(frame)
    total = sum(map(len, frames_by_api.values()))
    with tempfile.TemporaryDirectory() as folder:
        nearly_empty = Path(folder) / "none.pcap"
        write_capture(nearly_empty, [part for frame in next(iter(frames_by_api.values()))[:2] for part in frame.parts])
        start_seconds = {
            name: min(kproxy(["--json"], [nearly_empty], tree) for _ in range(rounds))
            for name, tree in checkouts.items()
        }
        for api, traffic in sorted(frames_by_api.items(), key=lambda item: -len(item[1])):
            share = f"{api:>20}: {len(traffic):8,} frames ({len(traffic) / total:6.1%})"
            if len(traffic) < _MIN_FRAMES:
                print(share, flush=True)
                continue
            one_api = Path(folder) / "alone.pcap"
            write_capture(one_api, (part for frame in traffic for part in frame.parts))
            copies = -(-_ENOUGH_FRAMES // len(traffic))
            best: dict[str, float] = defaultdict(lambda: float("inf"))
            for _ in range(rounds):
                for name, tree in checkouts.items():
                    best[name] = min(best[name], kproxy(["--json"], [one_api] * copies, tree) - start_seconds[name])
            cells = (f"{name} {seconds / len(traffic) / copies * 1e6:6.1f} us" for name, seconds in best.items())
            print(f"{share}, {', '.join(cells)} a frame", flush=True)


@contextmanager
def captures_of(args: argparse.Namespace) -> Iterator[list[Path]]:
    """Yield the captures to measure: the given captures, or new ones."""
    with tempfile.TemporaryDirectory() as folder:
        if args.synthetic:
            path = Path(folder) / "synthetic.pcap"
            make_small_frames(path, 50_000)
            yield [path]
        elif args.captures:
            yield args.captures
        else:
            from recording import record

            yield list(record(Path(folder), 30).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=lambda name: Path(name).resolve(), metavar="CAPTURE")
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--apis", action="store_true")
    parser.add_argument("--synthetic", action="store_true")
    args = parser.parse_args()
    checkouts = {"kproxy": _HERE} | ({"other revision": args.checkout} if args.checkout else {})
    with captures_of(args) as captures:
        for path in captures:
            measure(path, checkouts, args.rounds)
            if args.apis:
                measure_apis(path, checkouts, args.rounds)


if __name__ == "__main__":
    main()
