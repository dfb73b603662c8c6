"""Measure the start of `kproxy --help` and of `kproxy dissect` with a tiny capture, against Python itself and tshark.

python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from capture import make_small_frames  # beside this file
from dissect import resources


def main() -> None:
    """Run the commands in turns; print the best CPU time of each, with compiled bytecode, and its peak memory."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    kproxy = [sys.executable, "-m", "kproxy"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.pcap"
        packets = make_small_frames(path, 1)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "kproxy --help": [*kproxy, "--help"],
            f"kproxy dissect, {packets} packets": [*kproxy, "dissect", str(path)],
        }
        if shutil.which("tshark"):
            commands["tshark -v"] = ["tshark", "-v"]
            commands[f"tshark -r, {packets} packets"] = ["tshark", "-r", str(path), "-d", "tcp.port==9092,kafka"]
        best: dict[str, tuple[float, int]] = {}
        for _ in range(rounds):
            for name, command in commands.items():
                usage = resources(command)
                cost = (usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)
                best[name] = min(best.get(name, (float("inf"), 0)), cost)
    for name, (seconds, memory) in best.items():
        print(f"{name}: {1000 * seconds:.0f} ms of CPU, peak {memory} MiB")


if __name__ == "__main__":
    main()
