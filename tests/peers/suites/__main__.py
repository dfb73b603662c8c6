"""Runs clients' own integration suites directly and through `kproxy --advertise`, and compares them test by test.

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
    unsteady,
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
    chosen = options.suites or list(SUITES)
    if unknown := sorted(set(chosen) - SUITES.keys()):
        parser.error(f"unknown suite {unknown[0]}: use {', '.join(SUITES)}")
    for name in chosen:
        if reason := missing() or SUITES[name].missing:
            sys.stderr.write(f"{name} {reason}\n")
            return 2
    directory = options.directory or Path(tempfile.mkdtemp(prefix="kproxy-suites-"))
    problems = 0
    for name in chosen:
        suite = SUITES[name]
        brokers = options.brokers or suite.brokers
        problems += compare(suite, directory / f"{name}-{brokers}", options.release, brokers, options.rounds)
    say(f"traces and output of the suites: {directory}")
    return 1 if problems else 0


def compare(suite: Suite, directory: Path, release: str, brokers: int, rounds: int) -> int:
    """Run one suite both ways, in turns; print what came of it. Gives the number of problems."""
    directory.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="brokers-", dir=directory))
    cluster = Cluster(
        release, place, brokers, suite.properties, first=0
    )  # the node id that kafka-python's suite expects
    direct: list[Run] = []
    through: list[Run] = []
    say(f"{suite.client}, Kafka {release}, {brokers} broker(s)")
    try:
        for number in range(2 * rounds):
            proxied = number % 4 in (1, 2)  # directly, through, through, directly: neither always comes first
            runs, go, way = (through, run_through, "through") if proxied else (direct, run_directly, "directly")
            place = Path(tempfile.mkdtemp(prefix=f"{way}-", dir=directory)) / "run"
            run = go(suite.run, cluster, place, seconds=SECONDS)
            runs.append(run)
            say(f"  {way:8}  {run.counts():10}  {run.seconds:4.0f} s  {place}")
            for test, outcome in run.failed().items():
                say(f"            {test}: {outcome[:100]}")
    finally:
        cluster.kill()
    counted = [", ".join(dict.fromkeys(run.counts() for run in runs)) for runs in (direct, through)]
    say(f"| {suite.client} | {brokers} | {counted[0]} | {counted[1]} |")
    found = [f"differs: {test}: {text}" for test, text in differences(direct, through).items()]
    for run in through:
        found += trace_problems(run.trace or [])
    for line in found:
        say(f"  {line}")
    for test, text in unsteady(direct, through).items():
        say(f"  varies: {test}: {text}")
    findings = sum((other_findings(run.trace or []) for run in through), Counter[tuple[str, str, str]]())
    for (code, name, blame), count in sorted(findings.items()):
        say(f"  finding: {count} x {code} {name}, blame {blame}")
    return len(found)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
