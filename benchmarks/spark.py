"""Measure CPU and memory of `kproxy analyze` by the number of lines, and of DuckDB for the same questions.

PYTHONPATH=. python benchmarks/spark.py [LINES or TRACES...]      # needs the extra spark, duckdb; 1, 5 and 20 million

LINES are generated; a directory of traces is used as it is. Stages: conversion of traces to Parquet; six jobs that SQL
can also express, all jobs, and the report, from that Parquet; DuckDB's own Parquet from the same traces, and the six
questions from kproxy's Parquet. Each stage is a separate process with its descendants, including those that outlive it.
CPU is user and system time, read ten times per second from /proc; memory is the peaks of Java and of Python. At the
end, the cost of each further million is printed, from one number of lines to the next.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.kproxy.spark import sample_fleet

_TICKS = os.sysconf("SC_CLK_TCK")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphaned descendants become children of this process
_MILLION = 1_000_000
_JOBS = ("latency", "throughput", "errors", "throttling", "batches", "partitions")

#: DuckDB's programs; their arguments are TRACES TABLE OUT, and TABLE.
DUCKDB_CONVERT = """
import sys
import duckdb

traces, table, out = sys.argv[1:]
partitioned = f"'{table}/batch=*/**/*.parquet', hive_partitioning=true"
aside = "file, corrupt, damage, batch, date, hour"
known = duckdb.sql(f"describe select * exclude ({aside}) from read_parquet({partitioned})")
columns = ", ".join(f"'{name}': '{kind}'" for name, kind, *_ in known.fetchall())
read = f"read_json('{traces}/**/*.jsonl', format='newline_delimited', columns={{{columns}}}, hive_partitioning=true)"
duckdb.sql(f"copy (from {read}) to '{out}' (format parquet, compression zstd, partition_by (date, hour))")
"""
DUCKDB_SIX = """
import sys
import duckdb

files = f"'{sys.argv[1]}/batch=*/**/*.parquet', hive_partitioning=true"
duckdb.sql(f"create view lines as from read_parquet({files})")
by = "quantile_cont(latency_us, [0.5, 0.9, 0.99, 0.999]), max(latency_us), count(*)"
carries = "kind = case when api = 'Produce' then 'request' else 'response' end"
topics = f"(select kind, api, client_id, ts, latency_us, unnest(topics) as t, {carries} as carries from lines)"
asked = [
    *(f"select api, {key}, {by} from lines where latency_us is not null group by all"
      for key in ("null", "api_version", "client_id", "server")),
    f"select api, t.topic, {by} from {topics} where latency_us is not null group by all",
    *(f"select {key}, kind, count(*), sum(size), quantile_cont(size, [0.5, 0.99]), max(size), min(ts), max(ts) "
      "from lines where kind in ('request', 'response') group by all" for key in ("api", "client_id", "server")),
    "select t.topic, kind, count(*), sum(t.bytes), quantile_cont(t.bytes, [0.5, 0.99]), max(t.bytes), min(ts), max(ts) "
    f"from {topics} where carries group by all",
    *(f"select {key}, e.name, e.code, count(*), min(ts), max(ts) from "
      f"(select {key}, ts, unnest(errors) as e from lines) group by all" for key in ("api", "client_id", "server")),
    "select client_id, server, date_trunc('hour', ts), count(*), sum(throttle_time_ms), max(throttle_time_ms) "
    "from lines where kind = 'response' group by rollup (client_id, server, date_trunc('hour', ts))",
    "select client_id, t.topic, count(*), sum(t.batches), sum(t.records), sum(t.bytes), "
    "quantile_cont(t.bytes / t.batches, [0.5, 0.99]) "
    f"from {topics} where kind = 'request' and api = 'Produce' group by all",
    "select topic, p, kind, sum(b) from (select t.topic, kind, unnest(t.partitions) as p, "
    f"unnest(t.partition_bytes) as b from {topics} where carries) group by all",
]
for sql in asked:
    duckdb.sql(sql).fetchall()
"""


class Cost(NamedTuple):
    """CPU seconds, peak MB of the largest Java and Python processes, seconds to the first output and to the end."""

    cpu: float
    java: int
    python: int
    first: float
    wall: float


def measure_cost(
    *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> tuple[Cost, bytes]:
    """Run Python, and watch it and its descendants until all have ended; return the cost and the output.

    `env` is added to the environment. Spark's daemon does not wait for its Python workers, so the kernel's sum of CPU
    time for ended children would omit them.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    cpu: dict[int, float] = {}
    peaks = {"java": 0, "python": 0}
    first = 0.0
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdout=output, cwd=cwd, env=os.environ | (env or {})
        )
        while watched := _process_tree(os.getpid())[1:]:
            for pid in watched:
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    cpu[pid] = (int(fields[11]) + int(fields[12])) / _TICKS  # zombies also have this, but no status
                    status = Path(f"/proc/{pid}/status").read_text().splitlines()
                    kind = "java" if Path(f"/proc/{pid}/exe").readlink().name == "java" else "python"
                except OSError:
                    continue
                peak = next((int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")), 0)
                peaks[kind] = max(peak, peaks[kind])
            if not first and os.fstat(output.fileno()).st_size:
                first = time.monotonic() - started
            process.poll()
            while process.returncode is not None and _reap():
                pass
            time.sleep(0.1)
        wall = time.monotonic() - started
        if process.wait() != 0:
            sys.exit(f"failed: {command}")
        output.seek(0)
        return Cost(sum(cpu.values()), peaks["java"], peaks["python"], first or wall, wall), output.read()


def _reap() -> bool:
    """Reap a descendant that has outlived its parent and ended; return whether there was one."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _process_tree(pid: int) -> list[int]:
    """Return a process and its descendants; nothing if it has ended."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
    processes = [pid]
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue  # a thread that has ended; the others go on
        for child in children:
            processes += _process_tree(int(child))
    return processes


def stages(traces: Path, folder: Path) -> dict[str, tuple[str | Path, ...]]:
    """Return the commands to measure, in order; they write to `folder`."""
    table = folder / "table"
    analyze = ("-m", "kproxy", "analyze")
    job_options = [word for job in _JOBS for word in ("--job", job)]
    return {
        "convert": (*analyze, "convert", traces, "--out", table),
        "six jobs": (*analyze, *job_options, table, "--out", folder / "six"),
        "all jobs": (*analyze, table, "--out", folder / "all"),
        "report": (*analyze, table, "--html", folder / "report.html"),
        "DuckDB: convert": ("-c", DUCKDB_CONVERT, traces, table, folder / "duckdb"),
        "DuckDB: six jobs": ("-c", DUCKDB_SIX, table),
    }


def main() -> None:
    """Print a row for each stage and number of lines."""
    results: list[tuple[int, dict[str, Cost]]] = []
    print("|      lines | stage            | CPU s | Java MB | Python MB | wall s |")
    for argument in sys.argv[1:] or ("1000000", "5000000", "20000000"):
        with tempfile.TemporaryDirectory() as directory:
            traces = Path(argument)
            if argument.isdigit():
                traces = Path(directory, "traces")
                sample_fleet.write(traces, int(argument))
            lines = sum(_count_lines(file) for file in traces.rglob("*.jsonl"))
            results.append((lines, {}))
            for stage, command in stages(traces, Path(directory)).items():
                stage_cost, _ = measure_cost(*command)
                results[-1][1][stage] = stage_cost
                print(
                    f"| {lines:>10,} | {stage:<16} | {stage_cost.cpu:>5.1f} | {stage_cost.java:>7,} | "
                    f"{stage_cost.python:>9,} | {stage_cost.wall:>6.0f} |",
                    flush=True,
                )
    for (few, few_costs), (many, many_costs) in pairwise(results):
        millions = (many - few) / _MILLION
        cost_texts = (
            f"{stage} {(many_costs[stage].cpu - few_costs[stage].cpu) / millions:.2f}" for stage in many_costs
        )
        print(f"a further million, from {few:,} to {many:,}, in CPU s: {', '.join(cost_texts)}")


def _count_lines(file: Path) -> int:
    with file.open("rb") as opened:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: opened.read(1 << 20), b""))


if __name__ == "__main__":
    main()
