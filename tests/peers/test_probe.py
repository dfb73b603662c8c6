"""Real Kafka passes every check of `kproxy probe` that applies; otherwise the check is wrong."""

from __future__ import annotations

import asyncio

import pytest

from kproxy.probe.check import CheckResult, checks
from kproxy.probe.run import run_checks
from kproxy.probe.target import Target
from kproxy.proxy.address import TcpAddress
from tests.peers.lab import Lab

pytestmark = pytest.mark.peers


async def run_probe(target: Target) -> list[CheckResult]:
    await target.learn_versions()
    return [check async for check in run_checks(target, checks(), writes=True)]


def test_kafka_passes_all_checks(lab: Lab) -> None:
    results = asyncio.run(run_probe(Target(TcpAddress(*lab.kafka.direct), 30)))
    failed = {
        check_result.check.id: check_result.sentence for check_result in results if check_result.outcome == "fail"
    }
    assert failed == {}
    assert sum(result.outcome == "pass" for result in results) > 800
    skipped = {
        check_result.check.id: check_result.sentence
        for check_result in results
        if check_result.check.writes and check_result.outcome == "skip"
    }
    unexplained = {
        name for name, reason in skipped.items() if "does not serve" not in reason and "only up to" not in reason
    }
    # There is one broker without an authorizer; Kafka 3.9 has the new consumer protocol only on request.
    assert unexplained <= {"acls/round-trip", "acls/prefixed", "groups/consumer-protocol", "offsets/not-leader"}
