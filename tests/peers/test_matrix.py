"""Real clients do all they can with the built-in broker, and kproxy finds nothing wrong with its answers.

With ``KPROXY_JUDGE=4.3.1`` in the environment the same tests run against that release of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers import clients
from tests.peers.kafka import RELEASES
from tests.peers.lab import Lab
from tests.peers.server import serving
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

#: What each client asks for, beside what it needs to find its way.
EVERY = {
    "CreateTopics", "FindCoordinator", "InitProducerId", "Produce", "EndTxn", "JoinGroup", "SyncGroup", "OffsetFetch",
    "Fetch", "OffsetCommit", "Heartbeat", "LeaveGroup", "DescribeConfigs", "DeleteTopics",
}  # fmt: skip
SHARING = {"ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"}
MORE = {
    "franz": {"ConsumerGroupHeartbeat"},
    "java": {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe", *SHARING},
    "sarama": {"AddOffsetsToTxn", "TxnOffsetCommit"},
    "kafkajs": {"AddOffsetsToTxn", "TxnOffsetCommit"},
}
#: (client, rule) -> what the client does that the rule tells of.
DEPARTURES = {
    (
        "confluent",
        "L010",
    ): "librdkafka's first Metadata v13 is written with fixed lengths, and Kafka reads it all the same",
    ("java", "S001"): "the judge advertises the port of a forwarder in front of kproxy",
    ("kafkago", "L028"): "kafka-go's subscription says version 1 and has the fields of version 0",
    ("kafkago", "S091"): "this client commits each message",
}


@dataclass(frozen=True)
class Run:
    """What one client said of its run, and the trace."""

    client: str
    report: clients.Report
    lines: list[Line]


@pytest.fixture(scope="module", params=clients.ALL)
def run(request: pytest.FixtureRequest, judge: Lab | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    client: str = request.param
    if reason := clients.missing(client):
        skip(reason)
    directory: Path = tmp_path_factory.mktemp(client)
    with serving(judge, directory) as server:
        report = clients.run(client, RELEASES[0], server.bootstrap, f"topic-{client}")
        server.proxy.interrupt()
        yield Run(client, report, read_lines(server.proxy.trace))


def test_group_of_two_consumes_what_was_produced(run: Run) -> None:
    assert run.report["consumed"] == run.report["produced"] > 0
    assert run.report["members"] == 2


def test_topic_has_configs(run: Run) -> None:
    assert run.report["configs"] > 20


def test_all_that_the_client_can_went_over_the_wire(run: Run) -> None:
    answered = {line["api"] for line in run.lines if line["kind"] == "response"}
    assert EVERY | MORE.get(run.client, set()) <= answered


def test_no_finding_blames_the_broker(run: Run) -> None:
    assert [finding for finding in all_findings(run.lines) if finding.get("blame") == "broker"] == []


def test_what_is_worth_a_warning_is_known_of_the_client(run: Run) -> None:
    found = {(run.client, finding["code"]) for finding in all_findings(run.lines) if finding["severity"] != "info"}
    assert found <= DEPARTURES.keys()


def test_nothing_is_missing_from_the_trace(run: Run) -> None:
    assert [line for line in run.lines if line["kind"] == "gap"] == []
