"""Compare the tables of a standalone Spark cluster with those of the embedded engine.

python -m benchmarks.cluster [LINES]    # needs kproxy installed with the extra spark, and pysail; 2 million lines

The lines are generated and converted to Parquet once. A master and a worker with two executors run on loopback; their
Python has no kproxy. Prints the tables that differ, and how long each engine took. The status is 1 if a table differs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.kproxy.spark import sample_fleet
from tests.kproxy.spark.spark_processes import JAVA_OPTIONS, analyze, kproxy_files, python_without_kproxy, spark_process

_LINES = 2_000_000
_ADDRESS = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
_SETTINGS = {
    "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.executor.cores": "1",
    "spark.executor.memory": "2g", "spark.executor.extraJavaOptions": JAVA_OPTIONS, "spark.sql.shuffle.partitions": "4",
}  # fmt: skip


def tables(python: Path, *arguments: object) -> dict[str, list[str]]:
    """Return the rows of all tables, as sorted JSON, by the name of the table; print the time."""
    started = time.monotonic()
    result = analyze(python, *arguments, "--format", "json")
    if result.returncode:
        sys.exit(result.stderr)
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for line in result.stdout.splitlines():
        rows[json.loads(line)["job"]].append(line)
    print(
        f"{time.monotonic() - started:6.0f} s  {sum(map(len, rows.values())):,} rows  {arguments[0]} {arguments[1]}",
        flush=True,
    )
    return {name: sorted(lines) for name, lines in rows.items()}


def main() -> int:
    """Compare the tables; return the status."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else _LINES
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        sample_fleet.write(folder / "traces", lines)
        table = folder / "table"
        converted = analyze(Path(sys.executable), "convert", folder / "traces", "--out", table)
        print(converted.stdout.strip() or converted.stderr, flush=True)
        embedded = tables(Path(sys.executable), "--engine", "embedded", table)
        python = python_without_kproxy(folder / "python")
        master = ["spark-class", "org.apache.spark.deploy.master.Master", *_ADDRESS]
        with spark_process(master, python, r"Starting Spark master at (spark://\S+)") as url:
            worker = [
                "spark-class",
                "org.apache.spark.deploy.worker.Worker",
                *_ADDRESS,
                "--cores",
                "2",
                "--memory",
                "5g",
            ]
            with spark_process([*worker, "--work-dir", str(folder / "work"), url], python, "(Successfully registered)"):
                options = [word for setting in _SETTINGS.items() for word in ("--conf", "=".join(setting))]
                on_cluster = tables(python, "--master", url, *options, *kproxy_files(folder), table)
    differing = [name for name in embedded | on_cluster if embedded.get(name) != on_cluster.get(name)]
    print(f"{len(embedded | on_cluster)} tables of {lines:,} lines; different: {', '.join(differing) or 'none'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
