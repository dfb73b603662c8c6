"""Show where the CPU time of `kproxy analyze` goes: planning and running of each table, by kind of Java thread.

    PYTHONPATH=. python benchmarks/spark_profile.py TRACES [--job NAME]... [--conf KEY=VALUE]...

Prints CPU seconds since the previous row: of Java, of its threads (tasks; calls from Python, which plan queries;
compilers; garbage collectors), and of Python. Rows of plans show the numbers of file scans, scans of kept results,
exchanges, windows and sorts; operators inside a kept result also count, although it is computed only once. Threads that
end between two rows are missing in their column, but not in Java's. `one row` is the first query of the session,
without any lines: the rows before the tables are the minimum cost of any table.

Needs Linux, and the extra spark. The session has the settings of the command for the size of TRACES.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import SparkContext

from kproxy.cli.analyze.sizes import is_short, is_tiny
from kproxy.spark import jobs
from kproxy.spark.derived.cache import shared_results
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.lines import Period, open_lines
from kproxy.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TICKS = os.sysconf("SC_CLK_TCK")
#: Kinds of threads, by the beginning of their names; Linux cuts names at 15 characters.
_KINDS: Final = {
    "tasks": ("Executor task",),
    "calls": ("Thread-",),
    "compilers": ("C1 Comp", "C2 Comp"),
    "collectors": ("GC ", "G1 ", "VM Thread"),
}
#: Patterns of operators in a physical plan.
_OPERATORS: Final = {
    "scans": r"FileScan ",
    "kept": r"InMemoryTableScan",
    "exchanges": r"\b(?:Broadcast)?Exchange ",
    "windows": r"\bWindow ",
    "sorts": r"\bSort ",
}


class Meter:
    """Prints rows with the CPU time since the previous row."""

    def __init__(self, java: int) -> None:
        self._java = Path(f"/proc/{java}")
        self._last = dict.fromkeys(("java", *_KINDS, "python"), 0.0)
        print(f"| {'':<24} | {' | '.join(f'{name:>10}' for name in self._last)} |")

    def print_row(self, name: str, remark: str = "") -> None:
        """Print a row, and start measuring the next."""
        current = self._cpu_seconds()
        cells = " | ".join(f"{current[kind] - self._last[kind]:>10.2f}" for kind in current)
        print(f"| {name:<24} | {cells} | {remark}", flush=True)
        self._last = current

    def _cpu_seconds(self) -> dict[str, float]:
        seconds_by_kind = dict.fromkeys(self._last, 0.0)
        seconds_by_kind["java"], seconds_by_kind["python"] = _cpu(self._java)[1], time.process_time()
        for thread in (self._java / "task").iterdir():
            try:
                name, seconds = _cpu(thread)
            except OSError:  # the thread has ended
                continue
            for kind, names in _KINDS.items():
                if name.startswith(names):
                    seconds_by_kind[kind] += seconds
        return seconds_by_kind


def _cpu(folder: Path) -> tuple[str, float]:
    """Return the name of a process or thread, and its CPU seconds."""
    name, _, stat_fields = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    fields = stat_fields.split()
    return name, (int(fields[11]) + int(fields[12])) / _TICKS


def _operator_counts(table: DataFrame) -> str:
    plan = table._jdf.queryExecution().executedPlan().toString()
    return ", ".join(f"{len(re.findall(pattern, plan))} {name}" for name, pattern in _OPERATORS.items())


def main() -> None:
    """Print a row for each step."""
    parser = argparse.ArgumentParser(description="CPU of kproxy analyze by table and kind of thread")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--job", action="append", choices=jobs.names())
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in args.conf)
    spark = session(short=is_short(args.traces), tiny=is_tiny(args.traces), settings=settings)
    assert SparkContext._gateway is not None
    meter = Meter(SparkContext._gateway.proc.pid)
    meter.print_row("start")
    spark.range(1).collect()
    meter.print_row("one row")
    with open_lines(spark, args.traces, CaptureOptions(), period=Period()) as lines:
        meter.print_row("read, clusters")
        job_names = args.job or jobs.names()
        with shared_results(lines.rows, job_names):
            meter.print_row("plan shared results")
            for name in job_names:
                table = jobs.find(name).run(lines.rows)
                meter.print_row(f"plan {name}", _operator_counts(table))
                rows = table.collect()
                meter.print_row(name, f"{len(rows)} rows")


if __name__ == "__main__":
    main()
