"""Measure CPU, memory and time of `kproxy analyze` with each engine, by the number of lines.

PYTHONPATH=. python benchmarks/engines.py [ENGINE...] [LINES...]    # needs the extras spark and analytics

By default, both engines run with 370 lines (the repository's trace), 100,000, 1 million and 4 million. Small inputs are
analyzed as JSON, millions as the Parquet written by one `convert`. Each row is one run of a process with its
descendants: user and system time, memory of the largest process, seconds to the first line of output and to the end.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.spark import measure_cost
from tests.kproxy.spark import sample_fleet
from tests.kproxy.spark.files import TRACE_1

_SIX_JOBS = ("latency", "throughput", "errors", "throttling", "batches", "partitions")
_JOBS = {"one": ("errors",), "six": _SIX_JOBS, "all": ()}
_MIN_GENERATED, _MIN_PARQUET = 1000, 1_000_000


def planned_runs(lines: int, folder: Path, engines: list[str]) -> Iterator[tuple[str, tuple[str | Path, ...]]]:
    """Yield the runs to measure, in order: a name, and arguments for Python."""
    analyze = ("-m", "kproxy", "analyze")
    traces = TRACE_1 if lines < _MIN_GENERATED else folder / "traces"
    if lines >= _MIN_GENERATED and not traces.exists():
        sample_fleet.write(traces, lines)
    source = traces
    if lines >= _MIN_PARQUET:
        source = folder / "table"
        yield "convert", (*analyze, "convert", traces, "--out", source)
    for engine in engines:
        for name, jobs in _JOBS.items():
            job_options = [word for job in jobs for word in ("--job", job)]
            yield f"{engine}, {name}", (*analyze, "--engine", engine, "--format", "json", *job_options, source)


def main() -> None:
    """Print a row for each run."""
    engines = [argument for argument in sys.argv[1:] if not argument.isdigit()] or ["embedded", "spark"]
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()] or [370, 100_000, 1_000_000, 4_000_000]
    print("|     lines | run            | CPU s | MB    | first s | end s |")
    for lines in numbers:
        with tempfile.TemporaryDirectory() as directory:
            for name, command in planned_runs(lines, Path(directory), engines):
                run_cost, _ = measure_cost(*command)
                peak = max(run_cost.java, run_cost.python)
                print(
                    f"| {lines:>9,} | {name:<14} | {run_cost.cpu:>5.1f} | {peak:>5,} | {run_cost.first:>7.1f} "
                    f"| {run_cost.wall:>5.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
