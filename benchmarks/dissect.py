"""`kproxy dissect --json` against `tshark -T json` on one capture of many small frames, both to /dev/null.

python benchmarks/dissect.py [EXCHANGES]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from capture import make_small_frames  # beside this file


def measure(command: list[str]) -> tuple[float, int]:
    """CPU seconds and peak memory (MiB) of a command."""
    with Path(os.devnull).open("wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


def main() -> None:
    """Measure both three times, in turns, and compare the best of each."""
    exchanges = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.pcap"
        packets = make_small_frames(path, exchanges)
        commands = {"kproxy": [sys.executable, "-m", "kproxy", "dissect", "--json", str(path)]}
        if shutil.which("tshark"):
            commands["tshark"] = ["tshark", "-r", str(path), "-d", "tcp.port==9092,kafka", "-T", "json"]
        best: dict[str, tuple[float, int]] = {}
        for _ in range(3):
            for name, command in commands.items():
                best[name] = min(best.get(name, (float("inf"), 0)), measure(command))
    for name, (seconds, memory) in best.items():
        print(f"{name}: {packets / seconds:,.0f} packets per CPU second, peak {memory} MiB")
    if "tshark" in best:
        print(f"ratio: {best['tshark'][0] / best['kproxy'][0]:.1f}")


if __name__ == "__main__":
    main()
