"""Real clients use many features of the built-in broker, and no finding blames the broker.

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
from tests.peers.server import run_server
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

#: APIs that each client uses, besides those that it uses to find brokers.
EXPECTED_APIS = {
    "CreateTopics", "FindCoordinator", "InitProducerId", "Produce", "EndTxn", "JoinGroup", "SyncGroup", "OffsetFetch",
    "Fetch", "OffsetCommit", "Heartbeat", "LeaveGroup", "DescribeConfigs", "DeleteTopics",
}  # fmt: skip
SHARE_GROUP_APIS = {"ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"}
ADDITIONAL_APIS = {
    "franz": {"ConsumerGroupHeartbeat"},
    "java": {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe", *SHARE_GROUP_APIS},
    "sarama": {"AddOffsetsToTxn", "TxnOffsetCommit"},
    "kafkajs": {"AddOffsetsToTxn", "TxnOffsetCommit"},
}
#: The behaviour of the client that causes a finding, by (client, rule).
KNOWN_FINDINGS = {
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
    """The report of one client, and the lines of the trace."""

    client: str
    report: clients.Report
    lines: list[Line]


@pytest.fixture(scope="module", params=clients.ALL)
def run(request: pytest.FixtureRequest, judge: Lab | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    client: str = request.param
    if reason := clients.missing(client):
        skip(reason)
    directory: Path = tmp_path_factory.mktemp(client)
    with run_server(judge, directory) as server:
        report = clients.run(client, RELEASES[0], server.bootstrap, f"topic-{client}")
        server.proxy.interrupt()
        yield Run(client, report, read_lines(server.proxy.trace))


def test_group_of_two_consumes_all_records(run: Run) -> None:
    assert run.report["consumed"] == run.report["produced"] > 0
    assert run.report["members"] == 2


def test_topic_has_configs(run: Run) -> None:
    assert run.report["configs"] > 20


def test_client_uses_all_expected_apis(run: Run) -> None:
    answered_apis = {line["api"] for line in run.lines if line["kind"] == "response"}
    assert EXPECTED_APIS | ADDITIONAL_APIS.get(run.client, set()) <= answered_apis


def test_no_finding_blames_the_broker(run: Run) -> None:
    assert [finding for finding in all_findings(run.lines) if finding.get("blame") == "broker"] == []


def test_client_causes_only_known_findings(run: Run) -> None:
    findings = {(run.client, finding["code"]) for finding in all_findings(run.lines) if finding["severity"] != "info"}
    assert findings <= KNOWN_FINDINGS.keys()


def test_trace_has_no_gaps(run: Run) -> None:
    assert [line for line in run.lines if line["kind"] == "gap"] == []
