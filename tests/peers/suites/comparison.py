"""Runs a suite against real brokers directly and through `kproxy --advertise`, and compares test by test."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.cluster import Cluster
from tests.peers.proxy import Proxy
from tests.peers.suites.all_suites import verdict
from tests.peers.trace import Line, all_findings, read_lines

#: Rules about addresses that lead past the proxy.
PAST_THE_PROXY = frozenset({"S001", "S002", "S003"})
#: Blames a broker for time, which a busy machine takes.
SLOW_RESPONSE = "C012"


@dataclass(frozen=True)
class Run:
    """One run of a suite.

    Attributes:
        outcomes: Of each test.
        seconds: How long it took.
        trace: kproxy's lines; None where it ran directly.
    """

    outcomes: dict[str, str]
    seconds: float
    trace: list[Line] | None

    def counts(self) -> str:
        """Passed, failed and skipped, e.g. ``55/0/1``."""
        counter = Counter(map(verdict, self.outcomes.values()))
        return "/".join(str(counter[name]) for name in ("passed", "failed", "skipped"))

    def failed(self) -> dict[str, str]:
        """The tests that failed, with what they did."""
        return {test: outcome for test, outcome in self.outcomes.items() if verdict(outcome) == "failed"}


def run_directly(suite: Callable[..., dict[str, str]], cluster: Cluster, directory: Path, *, seconds: float) -> Run:
    """Run a suite against the brokers.

    Args:
        suite: Is given HOST:PORT, `directory` and `seconds`.
        cluster: Its first broker is the bootstrap server.
        directory: For what the suite unpacks and prints; it is created.
        seconds: What the suite has.
    """
    directory.mkdir(parents=True)
    began = time.monotonic()
    outcomes = suite("{}:{}".format(*cluster.first.direct), directory, seconds=seconds)
    return Run(outcomes, time.monotonic() - began, None)


def run_through(suite: Callable[..., dict[str, str]], cluster: Cluster, directory: Path, *, seconds: float) -> Run:
    """Run it through kproxy; the arguments are those of `run_directly`. The trace is in `directory`."""
    directory.mkdir(parents=True)
    proxy = Proxy(cluster.first.direct, directory, "--advertise", "-q")
    try:
        began = time.monotonic()
        outcomes = suite(proxy.bootstrap, directory, seconds=seconds)
        took = time.monotonic() - began
        proxy.interrupt()
    finally:
        proxy.kill_all()
    return Run(outcomes, took, read_lines(proxy.trace))


def differences(direct: Sequence[Run], through: Sequence[Run]) -> dict[str, str]:
    """The tests that did through kproxy what they never did directly, with their outcomes both ways."""
    return {
        test: f"directly {', '.join(sorted(one))}; through kproxy {', '.join(sorted(other))}"
        for test, one, other in _verdicts(direct, through)
        if not other <= one
    }


def unsteady(direct: Sequence[Run], through: Sequence[Run]) -> dict[str, str]:
    """The tests that vary from run to run without kproxy, with their outcomes both ways."""
    return {
        test: f"directly {', '.join(sorted(one))}; through kproxy {', '.join(sorted(other))}"
        for test, one, other in _verdicts(direct, through)
        if other <= one and len(one) > 1
    }


def trace_problems(lines: Sequence[Line]) -> Iterator[str]:
    """What a trace of valid clients and real brokers must not have: a sentence each."""
    if gaps := sum(line["kind"] == "gap" for line in lines):
        yield f"{gaps} gaps in the trace"
    for (code, name, blame), count in sorted(Counter(_identified(lines)).items()):
        if code in PAST_THE_PROXY or code[0] in "LK" or (blame == "broker" and code != SLOW_RESPONSE):
            yield f"{count} x {code} {name}, blame {blame}"
    left = [
        line for line in lines if line.get("api") == "Metadata" and line["kind"] == "response" and not _led_back(line)
    ]
    if left:
        yield f"{len(left)} Metadata responses whose brokers' ports were not all rewritten"


def other_findings(lines: Sequence[Line]) -> Counter[tuple[str, str, str]]:
    """How often each finding occurs, by (code, name, blame)."""
    return Counter(_identified(lines))


def _identified(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    for finding in all_findings(list(lines)):
        yield finding["code"], finding["name"], finding.get("blame", "")


def _led_back(line: Line) -> bool:
    ports = [each for each in line.get("rewritten", []) if each["path"].endswith(".port")]
    return len(ports) == len(line.get("brokers", []))


def _verdicts(direct: Sequence[Run], through: Sequence[Run]) -> Iterator[tuple[str, set[str], set[str]]]:
    """(test, what it did directly, what it did through kproxy); "absent" where a run did not have it."""
    ways: tuple[defaultdict[str, set[str]], ...] = (defaultdict(set), defaultdict(set))
    every = sorted({test for run in (*direct, *through) for test in run.outcomes})
    for way, runs in zip(ways, (direct, through), strict=True):
        for run in runs:
            for test in every:
                way[test].add(verdict(run.outcomes[test]) if test in run.outcomes else "absent")
    for test in every:
        yield test, ways[0][test], ways[1][test]
