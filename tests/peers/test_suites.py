"""Clients' own integration suites pass on the built-in broker as they do on a real Kafka.

With ``KPROXY_JUDGE=4.3.1`` in the environment they run against that release of Kafka.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.peers.lab import Lab
from tests.peers.server import serving
from tests.peers.suites import kafka_python, kgo
from tests.peers.toolchains import absent, skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

SECONDS = 360


@dataclass(frozen=True)
class Suite:
    """A suite, and what is known of it.

    Attributes:
        run: Gives the outcome of each test.
        missing: Why it cannot run here, or None.
        passing: So many pass.
        known: Test -> why it does not pass; on a real Kafka it does not either.
    """

    run: Callable[..., dict[str, str]]
    missing: str | None
    passing: int
    known: Mapping[str, str]


SUITES = {
    "kafka-python": Suite(
        kafka_python.run,
        None if importlib.util.find_spec("kafka") else "needs the Python package kafka: .ci/constraints-peers.txt",
        55,
        {"test_kafka_consumer_offsets_for_time_old": "is for brokers before 0.10.1"},
    ),
    "kgo": Suite(
        kgo.run,
        absent("go"),
        149,
        {
            "TestIssueProduceBrokerTooOldFailsRecords": "is for brokers before 4.0",
            "TestSCRAMAuth": "wants a listener with SCRAM beside the one without",
            "TestSCRAMAuthBadCredentials": "wants a listener with SCRAM beside the one without",
        },
    ),
}


@dataclass(frozen=True)
class Run:
    """What one suite said, and the trace."""

    suite: Suite
    outcomes: dict[str, str]
    lines: list[Line]


@pytest.fixture(scope="module", params=SUITES)
def run(request: pytest.FixtureRequest, judge: Lab | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    suite = SUITES[request.param]
    if suite.missing:
        skip(suite.missing)
    directory = tmp_path_factory.mktemp(request.param)
    with serving(judge, directory) as server:
        outcomes = suite.run(server.bootstrap, directory, seconds=SECONDS)
        server.proxy.interrupt()
        yield Run(suite, outcomes, read_lines(server.proxy.trace))


def test_suite_passes_but_for_what_is_known(run: Run) -> None:
    others = {test: outcome for test, outcome in run.outcomes.items() if outcome != "passed"}
    assert {test: outcome for test, outcome in others.items() if test not in run.suite.known} == {}
    assert others.keys() == run.suite.known.keys()
    assert len(run.outcomes) - len(others) >= run.suite.passing


def test_no_finding_blames_the_broker(run: Run) -> None:
    assert [each for each in all_findings(run.lines) if each.get("blame") == "broker"] == []
