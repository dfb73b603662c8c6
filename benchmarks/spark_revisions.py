"""Compare the CPU time of `kproxy analyze` in two checkouts, in turns; the minimum counts because of other load.

    PYTHONPATH=. python benchmarks/spark_revisions.py OLD NEW TRACES... [--stage NAME]... [--job NAME] [--rounds 3]
        [--archive] [--outputs DIR]

OLD and NEW are checkouts; needs the extra spark. Stages: `all` tables that OLD has, `one` (`--job`), `convert`, and
`six` tables from the converted Parquet. Without the stage `convert`, TRACES may be a table that `kproxy analyze
convert` has written, and `all` and `six` read it. CPU is the user and system time of all processes, including Java and
Spark's Python workers. By default, there is no archive of Spark's classes; with `--archive`, two runs of NEW write one
first, and both checkouts use it. Tables that differ between OLD and NEW are reported; `--outputs` keeps both. If duckdb
is installed, it also runs `convert` and `six` (for a directory of plain traces).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from benchmarks.spark import DUCKDB_CONVERT, DUCKDB_SIX, Cost, measure_cost

_ANALYZE = ("-m", "kproxy", "analyze")
_SIX = ("latency", "throughput", "errors", "throttling", "batches", "partitions")


def job_options(names: list[str] | tuple[str, ...]) -> list[str]:
    """Return options that select these tables."""
    return [word for name in names for word in ("--job", name)]


def known_jobs(checkout: Path) -> list[str]:
    """Return the tables that a checkout knows."""
    return sorted(path.stem.replace("_", "-") for path in Path(checkout, "kproxy/spark/jobs").glob("[!_]*.py"))


def differing_tables(old: bytes, new: bytes) -> list[str]:
    """Return the tables with differing rows."""
    pairs = zip_longest(old.splitlines(), new.splitlines())
    return sorted({json.loads(row)["job"] for pair in pairs if pair[0] != pair[1] for row in pair if row})


def main() -> None:
    """Print a row for each stage."""
    parser = argparse.ArgumentParser(description="CPU of kproxy analyze in two checkouts")
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--stage", action="append", choices=("all", "one", "convert", "six"))
    parser.add_argument("--job", default="errors")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--archive", action="store_true")
    parser.add_argument("--outputs", type=Path)
    args = parser.parse_args()
    checkouts = [checkout.resolve() for checkout in args.checkouts]
    traces = [str(trace.resolve()) for trace in args.traces]
    stage_names = args.stage or ["all", "one", "convert", "six"]
    with tempfile.TemporaryDirectory() as directory:
        cache = {"XDG_CACHE_HOME": f"{directory}/cache"}
        converted = [f"{directory}/last"] if "convert" in stage_names else traces
        stages = {
            "convert": ["convert", *traces, "--out", f"{directory}/@"],
            "one": [*job_options([args.job]), *traces, "--format", "json"],
            "six": [*job_options(_SIX), *converted, "--format", "json"],
            "all": [*job_options(known_jobs(checkouts[0])), *converted, "--format", "json"],
        }
        peers = {
            "convert": ["-c", DUCKDB_CONVERT, *traces, *converted, f"{directory}/duckdb"],
            "six": ["-c", DUCKDB_SIX, *converted],
        }
        if args.archive:
            for _ in range(2):
                measure_cost(
                    *_ANALYZE, *stages["one"], cwd=checkouts[1], env={**cache, "PYTHONPATH": str(checkouts[1])}
                )
        print("| stage | old: CPU s, first output | new: CPU s, first output | DuckDB: CPU s |")
        for stage, words in ((name, stages[name]) for name in stages if name in stage_names):
            costs: list[list[Cost]] = [[], []]
            outputs = [b"", b""]
            for number in range(args.rounds):
                for revision, checkout in enumerate(checkouts):
                    table = f"{directory}/{revision}{number}"
                    command = (*_ANALYZE, *(word.replace(f"{directory}/@", table) for word in words))
                    environment = {**cache, "PYTHONPATH": str(checkout), "KPROXY_SPARK_ARCHIVE": "no"}
                    run_cost, outputs[revision] = measure_cost(*command, cwd=checkout, env=environment)
                    costs[revision].append(run_cost)
                    if stage == "convert" and not Path(directory, "last").exists():
                        Path(directory, "last").symlink_to(table)
            if differ := differing_tables(*outputs):
                print(f"{stage}: these tables differ: {', '.join(differ)}", file=sys.stderr)
            if args.outputs:
                for name, output in zip(("old", "new"), outputs, strict=True):
                    Path(args.outputs, f"{stage}.{name}.json").write_bytes(output)
            old, new = (f"{min(costs).cpu:.1f}, {min(run.first for run in costs):.1f} s" for costs in costs)
            peer = f"{measure_cost(*peers[stage])[0].cpu:.1f}" if stage in peers and find_spec("duckdb") else "–"
            print(f"| {stage} | {old} | {new} | {peer} |", flush=True)


if __name__ == "__main__":
    main()
