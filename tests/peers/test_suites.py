"""Clients' integration suites pass with the built-in broker as they do with real Kafka.

With ``KPROXY_JUDGE=4.3.1`` in the environment, they run with that release of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.peers.lab import Lab
from tests.peers.server import run_server
from tests.peers.suites.all_suites import SUITES, Suite
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

SECONDS = 360


#: The suites that CI can run; rskafka takes minutes to compile.
NAMES = ("kafka-python", "kgo")


@dataclass(frozen=True)
class Run:
    """The outcomes of one suite, and the trace."""

    suite: Suite
    outcomes: dict[str, str]
    lines: list[Line]


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest, judge: Lab | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    suite = SUITES[request.param]
    if suite.missing:
        skip(suite.missing)
    directory = tmp_path_factory.mktemp(request.param)
    with run_server(judge, directory) as server:
        outcomes = suite.run(server.bootstrap, directory, timeout=SECONDS)
        server.proxy.interrupt()
        yield Run(suite, outcomes, read_lines(server.proxy.trace))


def test_all_tests_pass_except_for_known_failures(run: Run) -> None:
    not_passed = {test: outcome for test, outcome in run.outcomes.items() if outcome != "passed"}
    assert {test: outcome for test, outcome in not_passed.items() if test not in run.suite.known} == {}
    assert not_passed.keys() == run.suite.known.keys()
    assert len(run.outcomes) - len(not_passed) >= run.suite.passing


def test_no_finding_blames_the_broker(run: Run) -> None:
    assert [finding for finding in all_findings(run.lines) if finding.get("blame") == "broker"] == []
