"""Run integration suites of clients directly and through `kproxy --advertise`, and compare them test by test.

    python -m tests.peers.suites [SUITE ...] [--rounds 2] [--brokers N] [--release 4.3.1] [--directory DIR]

Needs Java and Maven for Kafka, and for kafka-python the packages of .ci/constraints-peers.txt, for kgo Go, for rskafka
cargo and a C compiler (it compiles for some minutes at its first run). All suites together take about half an hour on
two cores, so CI leaves them out.

Prints a row of docs/interoperability.md for each suite, and what to look into: tests that did through kproxy what they
never did directly, tests that vary without it, every finding, and gaps. Traces and the suites' output stay in DIR. The
exit status is 1 if there is a difference or the trace has a problem.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.peers.cluster import Cluster
from tests.peers.kafka import RELEASES, missing
from tests.peers.suites.all_suites import SUITES, Suite
from tests.peers.suites.comparison import (
    Run,
    differences,
    other_findings,
    run_directly,
    run_through,
    trace_problems,
    unsteady_tests,
)

SECONDS = 900


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.peers.suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--rounds", type=int, default=2, help="runs each way (default 2)")
    parser.add_argument("--brokers", type=int, help="default: what the suite is written for")
    parser.add_argument("--release", default=RELEASES[0], help=f"of Kafka (default {RELEASES[0]})")
    parser.add_argument("--directory", type=Path, help="default: a new temporary one")
    options = parser.parse_args(arguments)
    suites = options.suites or list(SUITES)
    if unknown_names := sorted(set(suites) - SUITES.keys()):
        parser.error(f"unknown suite {unknown_names[0]}: use {', '.join(SUITES)}")
    for name in suites:
        if reason := missing() or SUITES[name].missing:
            sys.stderr.write(f"{name} {reason}\n")
            return 2
    directory = options.directory or Path(tempfile.mkdtemp(prefix="kproxy-suites-"))
    problems = 0
    for name in suites:
        suite = SUITES[name]
        brokers = options.brokers or suite.brokers
        problems += compare(suite, directory / f"{name}-{brokers}", options.release, brokers, options.rounds)
    print_line(f"traces and output of the suites: {directory}")
    return 1 if problems else 0


def compare(suite: Suite, directory: Path, release: str, brokers: int, rounds: int) -> int:
    """Run one suite directly and through kproxy, in turns; print the results, and return the number of problems."""
    directory.mkdir(parents=True, exist_ok=True)
    run_directory = Path(tempfile.mkdtemp(prefix="brokers-", dir=directory))
    cluster = Cluster(
        release, run_directory, brokers, suite.properties, first=0
    )  # kafka-python's suite expects this node id
    direct: list[Run] = []
    through: list[Run] = []
    print_line(f"{suite.client}, Kafka {release}, {brokers} broker(s)")
    try:
        for number in range(2 * rounds):
            proxied = number % 4 in (1, 2)  # direct, proxied, proxied, direct: neither mode always comes first
            runs, run_suite, mode = (through, run_through, "through") if proxied else (direct, run_directly, "directly")
            run_directory = Path(tempfile.mkdtemp(prefix=f"{mode}-", dir=directory)) / "run"
            run = run_suite(suite.run, cluster, run_directory, timeout=SECONDS)
            runs.append(run)
            print_line(f"  {mode:8}  {run.counts():10}  {run.seconds:4.0f} s  {run_directory}")
            for test, outcome in run.failed().items():
                print_line(f"            {test}: {outcome[:100]}")
    finally:
        cluster.kill()
    counts = [", ".join(dict.fromkeys(run.counts() for run in runs)) for runs in (direct, through)]
    print_line(f"| {suite.client} | {brokers} | {counts[0]} | {counts[1]} |")
    problems = [f"differs: {test}: {text}" for test, text in differences(direct, through).items()]
    for run in through:
        problems += trace_problems(run.trace or [])
    for line in problems:
        print_line(f"  {line}")
    for test, text in unsteady_tests(direct, through).items():
        print_line(f"  varies: {test}: {text}")
    findings = sum((other_findings(run.trace or []) for run in through), Counter[tuple[str, str, str]]())
    for (code, name, blame), count in sorted(findings.items()):
        print_line(f"  finding: {count} x {code} {name}, blame {blame}")
    return len(problems)


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
