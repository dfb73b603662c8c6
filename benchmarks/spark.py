"""CPU and memory of `kproxy analyze` by the number of lines, beside DuckDB's for the same questions.

PYTHONPATH=. python benchmarks/spark.py [LINES...]      # needs kproxy[spark] and duckdb; 1,000,000 and 5,000,000

Stages: traces to Parquet, then six jobs that SQL can ask too, from Parquet; DuckDB from the same Parquet. Each is a
process of its own, with its children; CPU is user and system time, memory the peaks of Python and Java added up.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.kproxy.spark import planted

_TICKS = 100  # a second, of /proc/PID/stat
_JOBS = ("latency", "throughput", "errors", "throttling", "batches", "partitions")

_DUCKDB = """
import sys
import duckdb

db = duckdb.connect()
files = f"'{sys.argv[1]}/batch=*/**/*.parquet', hive_partitioning=true"
db.execute(f"create view lines as select * from read_parquet({files})")
by = "quantile_cont(latency_us, [0.5, 0.9, 0.99, 0.999]), max(latency_us), count(*)"
carries = "kind = case when api = 'Produce' then 'request' else 'response' end"
topics = f"(select kind, api, client_id, ts, latency_us, unnest(topics) as t, {carries} as carries from lines)"
asked = [
    *(f"select api, {key}, {by} from lines where latency_us is not null group by all"
      for key in ("1", "api_version", "client_id", "server")),
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
    db.sql(sql).fetchall()
"""


class Cost(NamedTuple):
    """CPU seconds, peak MB, and seconds that it took."""

    cpu: float
    memory: int
    wall: float


def cost(*command: str | Path) -> Cost:
    """Run a command with its children, and watch them."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    seen: dict[int, tuple[float, int]] = {}
    while process.poll() is None:
        for pid in _family(process.pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            peak = next((int(line.split()[1]) // 1024 for line in status.splitlines() if "VmHWM" in line), 0)
            before = seen.get(pid, (0.0, 0))
            seen[pid] = (int(fields[11]) + int(fields[12])) / _TICKS, max(peak, before[1])
        time.sleep(0.1)
    assert process.returncode == 0, command
    return Cost(sum(cpu for cpu, _ in seen.values()), sum(peak for _, peak in seen.values()), time.monotonic() - began)


def _family(pid: int) -> list[int]:
    try:
        children = [
            int(each)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [pid, *(each for child in children for each in _family(child))]


def main() -> None:
    """Print a row for each number of lines."""
    print("lines       written  convert      jobs         report       DuckDB       (CPU s / MB; wall s)")
    for about in map(int, sys.argv[1:] or ("1000000", "5000000")):
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            lines = planted.write(folder / "traces", about)
            size = sum(file.stat().st_size for file in (folder / "traces").rglob("*.jsonl"))
            table = folder / "table"
            chosen = [word for job in _JOBS for word in ("--job", job)]
            analyze = ("-m", "kproxy", "analyze")
            costs = [
                cost(*analyze, "convert", folder / "traces", "--out", table),
                cost(*analyze, *chosen, table, "--out", folder / "out"),
                cost(*analyze, table, "--html", folder / "report.html"),
                cost("-c", _DUCKDB, table),
            ]
        told = "".join(f"  {each.cpu:.1f} / {each.memory}; {each.wall:.0f}" for each in costs)
        print(f"{lines:>10,} {size / 1e6:>6.0f} MB{told}", flush=True)


if __name__ == "__main__":
    main()
