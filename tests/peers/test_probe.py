"""Real Kafka passes every check of `kproxy probe` that applies: a check that it fails is a wrong check."""

from __future__ import annotations

import asyncio

import pytest

from kproxy.probe.check import CheckResult, checks
from kproxy.probe.run import run_checks
from kproxy.probe.target import Target
from kproxy.proxy.address import TcpAddress
from tests.peers.lab import Lab

pytestmark = pytest.mark.peers


async def probed(target: Target) -> list[CheckResult]:
    await target.learn_versions()
    return [each async for each in run_checks(target, checks(), writes=True)]


def test_kafka_passes(lab: Lab) -> None:
    results = asyncio.run(probed(Target(TcpAddress(*lab.kafka.direct), 30)))
    failed = {each.check.id: each.sentence for each in results if each.outcome == "fail"}
    assert failed == {}
    assert sum(each.outcome == "pass" for each in results) > 760
    written = {each.check.id for each in results if each.check.writes and each.outcome == "skip"}
    assert written <= {"groups/consumer-protocol"}  # Kafka 3.9 has it only on request
