"""CPU of `kproxy analyze` in two checkouts, in turns: the minimum of each counts on a machine that does other work.

    PYTHONPATH=. python benchmarks/spark_revisions.py OLD NEW TRACES... [--stage NAME]... [--job NAME] [--rounds 3]

OLD and NEW are checkouts; needs the extra spark. Stages: `all` tables, `one` (`--job`), `convert`, and `six`
tables from the converted Parquet. Without the stage `convert`, TRACES may be a table that `kproxy analyze convert` has
written, and `all` and `six` read it. CPU is user and system time of all processes, also of Java, but without Spark's
Python workers, for which its daemon does not wait; `convert` has them, and `benchmarks/spark.py` counts them. Archives
of Spark's classes are used but not written. The output of each stage must be the same in both. If duckdb is installed,
it does `convert` and `six` too (of a directory of plain traces).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.spark import DUCKDB_CONVERT, DUCKDB_SIX

_ANALYZE = ("-m", "kproxy", "analyze")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: Java outlives Python, and is then a child of this process
_SIX = [word for name in ("latency", "throughput", "errors", "throttling", "batches", "partitions")
        for word in ("--job", name)]  # fmt: skip


def run(checkout: Path, *args: str) -> tuple[float, float, bytes]:
    """Run Python in a checkout; return CPU seconds, seconds to the first output, and the output."""
    before, began, first = _cpu(), time.monotonic(), 0.0
    command = [sys.executable, *args]
    environment = os.environ | {"PYTHONPATH": str(checkout), "KPROXY_SPARK_ARCHIVE": "no"}
    with subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read(1)
        first = time.monotonic() - began
        output += process.stdout.read()
    if process.returncode:
        sys.exit(f"failed: {command}")
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return _cpu() - before, first, output


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a row for each stage."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    parser = argparse.ArgumentParser(description="CPU of kproxy analyze in two checkouts")
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--stage", action="append", choices=("all", "one", "convert", "six"))
    parser.add_argument("--job", default="errors")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    checkouts = [each.resolve() for each in args.checkouts]
    traces = [str(each.resolve()) for each in args.traces]
    chosen = args.stage or ["all", "one", "convert", "six"]
    with tempfile.TemporaryDirectory() as directory:
        converted = [f"{directory}/last"] if "convert" in chosen else traces
        stages = {
            "all": [*traces, "--format", "json"],
            "one": ["--job", args.job, *traces, "--format", "json"],
            "convert": ["convert", *traces, "--out", f"{directory}/@"],
            "six": [*_SIX, *converted, "--format", "json"],
        }
        stages = {stage: words for stage, words in stages.items() if stage in chosen}
        peers = {"six": ["-c", DUCKDB_SIX, *converted]}
        if "convert" in stages:
            peers["convert"] = ["-c", DUCKDB_CONVERT, *traces, *converted, f"{directory}/duckdb"]
        print("| stage | old: CPU s, first output | new: CPU s, first output | DuckDB: CPU s |")
        for stage, words in stages.items():
            found: list[list[tuple[float, float]]] = [[], []]
            for number in range(args.rounds):
                outputs = []
                for place, checkout in enumerate(checkouts):
                    table = f"{directory}/{place}{number}"
                    cpu, first, output = run(
                        checkout, *_ANALYZE, *(each.replace(f"{directory}/@", table) for each in words)
                    )
                    found[place].append((cpu, first))
                    outputs.append(output)
                    if stage == "convert" and not Path(directory, "last").exists():
                        Path(directory, "last").symlink_to(table)
                if outputs[0] != outputs[1]:
                    sys.exit(f"{stage}: the outputs differ")
            old, new = (f"{min(each)[0]:.1f}, {min(first for _, first in each):.1f} s" for each in found)
            peer = f"{run(checkouts[1], *peers[stage])[0]:.1f}" if stage in peers and find_spec("duckdb") else "–"
            print(f"| {stage} | {old} | {new} | {peer} |", flush=True)


if __name__ == "__main__":
    main()
