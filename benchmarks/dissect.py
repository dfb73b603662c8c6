"""`kproxy dissect` against tshark on one capture of many small frames: whole lines, and chosen fields, to /dev/null.

python benchmarks/dissect.py [EXCHANGES] [CHECKOUT]

CHECKOUT is a directory with another revision of kproxy, which is measured in the same run. Commands take turns, and the
least CPU time of three counts: other load on the machine changes single figures, but hardly the ratios.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from capture import make_small_frames  # beside this file

HERE = Path(__file__).resolve().parent.parent
ROWS = {
    "whole lines": (["--json"], ["-T", "json"]),
    "chosen fields": (
        ["--fields", "ts,api,latency_us"],
        ["-T", "fields", "-e", "frame.time_epoch", "-e", "kafka.api_key", "-e", "tcp.time_delta"],
    ),
}


def measure(command: list[str], directory: Path = HERE) -> float:
    """CPU seconds of a command."""
    # Without these, Python neither writes compiled modules nor collects output before it writes it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with Path(os.devnull).open("wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=directory, env=environment)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure every row with each program three times, in turns."""
    exchanges = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    checkouts = {"kproxy": HERE} | ({"other revision": Path(sys.argv[2])} if len(sys.argv) > 2 else {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.pcap"
        packets = make_small_frames(path, exchanges)
        print(f"{packets:,} packets; CPU seconds, and how many times as long as kproxy")
        for row, (ours, theirs) in ROWS.items():
            best: dict[str, float] = {}
            for _ in range(3):
                for name, directory in checkouts.items():
                    seconds = measure([sys.executable, "-m", "kproxy", "dissect", *ours, str(path)], directory)
                    best[name] = min(best.get(name, seconds), seconds)
                if shutil.which("tshark"):
                    seconds = measure(["tshark", "-r", str(path), "-d", "tcp.port==9092,kafka", *theirs])
                    best["tshark"] = min(best.get("tshark", seconds), seconds)
            cells = (f"{name} {seconds:.2f} ({seconds / best['kproxy']:.1f})" for name, seconds in best.items())
            print(f"{row:>14}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
