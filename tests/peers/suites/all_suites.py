"""The suites by name, with their known failures."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.peers.server import AUTHORIZER, CONFIGS
from tests.peers.suites import kafka_python, kgo, rskafka
from tests.peers.toolchains import absent


@dataclass(frozen=True)
class Suite:
    """A suite, and its known failures.

    Attributes:
        client: Name and version of the client.
        run: A function that returns the outcome of each test.
        missing: Why the suite cannot run here, or None.
        passing: The minimum number of tests that pass.
        known: Tests that do not pass, even with real Kafka, and why.
        brokers: The number of brokers that the suite is written for.
        properties: Lines of server.properties that the suite assumes.
    """

    client: str
    run: Callable[..., dict[str, str]]
    missing: str | None
    passing: int
    known: Mapping[str, str]
    brokers: int
    properties: Mapping[str, str]


def _missing_kafka_python() -> str | None:
    needed = "needs the Python package kafka: .ci/constraints-peers.txt"
    return None if importlib.util.find_spec("kafka") else needed


SUITES = {
    "kafka-python": Suite(
        f"kafka-python {kafka_python.version()}",
        kafka_python.run,
        _missing_kafka_python(),
        55,
        {"test_kafka_consumer_offsets_for_time_old": "is for brokers before 0.10.1"},
        1,
        CONFIGS | AUTHORIZER,
    ),
    "kgo": Suite(
        f"franz-go {kgo.version()}",
        kgo.run,
        absent("go"),
        149,
        {
            "TestIssueProduceBrokerTooOldFailsRecords": "is for brokers before 4.0",
            "TestSCRAMAuth": "wants a listener with SCRAM beside the one without",
            "TestSCRAMAuthBadCredentials": "wants a listener with SCRAM beside the one without",
        },
        1,
        CONFIGS | AUTHORIZER,
    ),
    "rskafka": Suite(
        f"rskafka {rskafka.VERSION}",
        rskafka.run,
        absent("cargo", "cc", "mvn"),
        57,
        {"test_sasl": "wants a listener with SASL beside the one without"},
        3,
        {"auto.create.topics.enable": "false"},
    ),
}


def verdict(outcome: str) -> str:
    """Classify an outcome: "passed", "skipped" or "failed"."""
    if outcome == "passed":
        return outcome
    return "skipped" if outcome.lower().startswith(("skip", "ignored")) else "failed"
