"""Run a suite with real brokers directly and through `kproxy --advertise`, and compare test by test."""

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

#: Rules about addresses that bypass the proxy.
PAST_THE_PROXY = frozenset({"S001", "S002", "S003"})
#: Rules about slow responses, which a busy machine may cause.
SLOW_RESPONSES = frozenset({"C012", "C023"})


@dataclass(frozen=True)
class Run:
    """One run of a suite.

    Attributes:
        outcomes: The outcome of each test.
        seconds: The duration.
        trace: The lines of kproxy's trace; None for a direct run.
    """

    outcomes: dict[str, str]
    seconds: float
    trace: list[Line] | None

    def counts(self) -> str:
        """Return the numbers of passed, failed and skipped tests, e.g. ``55/0/1``."""
        counter = Counter(map(verdict, self.outcomes.values()))
        return "/".join(str(counter[name]) for name in ("passed", "failed", "skipped"))

    def failed(self) -> dict[str, str]:
        """Return the tests that failed, with their outcomes."""
        return {test: outcome for test, outcome in self.outcomes.items() if verdict(outcome) == "failed"}


def run_directly(suite: Callable[..., dict[str, str]], cluster: Cluster, directory: Path, *, timeout: float) -> Run:
    """Run a suite directly with the brokers.

    Args:
        suite: A function that is called with HOST:PORT, `directory` and `timeout`.
        cluster: The brokers; the first is the bootstrap server.
        directory: A new directory for the suite's files and output.
        timeout: The time limit for the suite.
    """
    directory.mkdir(parents=True)
    started = time.monotonic()
    outcomes = suite("{}:{}".format(*cluster.first.direct), directory, timeout=timeout)
    return Run(outcomes, time.monotonic() - started, None)


def run_through(suite: Callable[..., dict[str, str]], cluster: Cluster, directory: Path, *, timeout: float) -> Run:
    """Run a suite through kproxy, with the arguments of `run_directly`. The trace is written to `directory`."""
    directory.mkdir(parents=True)
    proxy = Proxy(cluster.first.direct, directory, "--advertise", "-q")
    try:
        started = time.monotonic()
        outcomes = suite(proxy.bootstrap, directory, timeout=timeout)
        seconds_taken = time.monotonic() - started
        proxy.interrupt()
    finally:
        proxy.kill_all()
    return Run(outcomes, seconds_taken, read_lines(proxy.trace))


def differences(direct: Sequence[Run], through: Sequence[Run]) -> dict[str, str]:
    """Return the tests with outcomes through kproxy that never occur directly, with all their outcomes."""
    return {
        test: f"directly {', '.join(sorted(direct_verdicts))}; through kproxy {', '.join(sorted(proxied_verdicts))}"
        for test, direct_verdicts, proxied_verdicts in _verdicts(direct, through)
        if not proxied_verdicts <= direct_verdicts
    }


def unsteady_tests(direct: Sequence[Run], through: Sequence[Run]) -> dict[str, str]:
    """Return the tests that vary from run to run even without kproxy, with all their outcomes."""
    return {
        test: f"directly {', '.join(sorted(direct_verdicts))}; through kproxy {', '.join(sorted(proxied_verdicts))}"
        for test, direct_verdicts, proxied_verdicts in _verdicts(direct, through)
        if proxied_verdicts <= direct_verdicts and len(direct_verdicts) > 1
    }


def trace_problems(lines: Sequence[Line]) -> Iterator[str]:
    """Yield problems that a trace of valid clients and real brokers must not have, as sentences."""
    if gaps := sum(line["kind"] == "gap" for line in lines):
        yield f"{gaps} gaps in the trace"
    for (code, name, blame), count in sorted(Counter(_finding_keys(lines)).items()):
        if code in PAST_THE_PROXY or code[0] in "LK" or (blame == "broker" and code not in SLOW_RESPONSES):
            yield f"{count} x {code} {name}, blame {blame}"
    not_rewritten = [
        line
        for line in lines
        if line.get("api") == "Metadata" and line["kind"] == "response" and not _is_rewritten(line)
    ]
    if not_rewritten:
        yield f"{len(not_rewritten)} Metadata responses whose brokers' ports were not all rewritten"


def other_findings(lines: Sequence[Line]) -> Counter[tuple[str, str, str]]:
    """Return the counts of findings, by (code, name, blame)."""
    return Counter(_finding_keys(lines))


def _finding_keys(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    for finding in all_findings(list(lines)):
        yield finding["code"], finding["name"], finding.get("blame", "")


def _is_rewritten(line: Line) -> bool:
    ports = [change for change in line.get("rewritten", []) if change["path"].endswith(".port")]
    return len(ports) == len(line.get("brokers", []))


def _verdicts(direct: Sequence[Run], through: Sequence[Run]) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield (test, direct verdicts, verdicts through kproxy); the verdict is "absent" if a run lacks the test."""
    verdicts_by_mode: tuple[defaultdict[str, set[str]], ...] = (defaultdict(set), defaultdict(set))
    all_tests = sorted({test for run in (*direct, *through) for test in run.outcomes})
    for verdicts, runs in zip(verdicts_by_mode, (direct, through), strict=True):
        for run in runs:
            for test in all_tests:
                verdicts[test].add(verdict(run.outcomes[test]) if test in run.outcomes else "absent")
    for test in all_tests:
        yield test, verdicts_by_mode[0][test], verdicts_by_mode[1][test]
