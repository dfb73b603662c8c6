"""`kproxy diff` compares a client's traffic with Kafka and with the built-in broker, and both brokers directly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.probe.recording import RecordedBroker
from kproxy.proxy.address import TcpAddress
from tests.peers.kafka import RELEASES
from tests.peers.lab import Lab
from tests.peers.proxy import Proxy

confluent_kafka = pytest.importorskip("confluent_kafka")
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

pytestmark = pytest.mark.peers

#: APIs with differences that docs/diff.md explains.
EXPLAINED = {"ApiVersions", "GetTelemetrySubscriptions", "Produce", "AddOffsetsToTxn", "EndTxn"}
DOCUMENT = Path(__file__).parents[2] / "docs/diff.md"


def run_client(bootstrap: str) -> None:
    """Create a topic, produce to it, and read it with a group."""
    common = {"bootstrap.servers": bootstrap, "client.id": "app"}
    admin = AdminClient(common)
    admin.create_topics([NewTopic("diff-orders", 1, 1)])["diff-orders"].result(60)
    producer = confluent_kafka.Producer(common)
    for number in range(10):
        producer.produce("diff-orders", f"record {number}")
    producer.flush(60)
    consumer = confluent_kafka.Consumer({**common, "group.id": "diff", "auto.offset.reset": "earliest"})
    consumer.subscribe(["diff-orders"])
    consumed = 0
    while consumed < 10:
        consumed += len(consumer.consume(10 - consumed, 60))
    consumer.commit(asynchronous=False)
    consumer.close()


def diff(first: object, second: object, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kproxy", "diff", str(first), str(second), "--json", *options]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert (process.returncode, process.stderr) == (1, "")
    return [json.loads(line) for line in process.stdout.splitlines()]


async def wait_for_coordinator(lab: Lab) -> None:
    broker = RecordedBroker(TcpAddress(*lab.kafka.direct), 30)
    await broker.learn_versions()
    await broker.wait_until_ready()


def require_newest_release(lab: Lab) -> Lab:
    if lab.kafka.release != RELEASES[0]:
        pytest.skip("docs/diff.md lists the differences from the newest release")
    return lab


def test_client_sees_few_differences_between_kafka_and_the_built_in_broker(lab: Lab, tmp_path: Path) -> None:
    asyncio.run(wait_for_coordinator(require_newest_release(lab)))
    with lab.chain("PLAIN", tmp_path / "kafka", "--detail", "full") as chain:
        run_client(chain.bootstrap)
        chain.finish()
        kafka = chain.proxy.trace
    (tmp_path / "own").mkdir()
    built_in = Proxy(None, tmp_path / "own", "--detail", "full")
    try:
        run_client(built_in.bootstrap)
        built_in.interrupt()
    finally:
        built_in.kill_all()
    # The requests in flight when a client closes its connections depend on timing.
    *differences, _ = diff(kafka, built_in.trace, "--ignore", "C004")
    # So does the order in which a client's threads send on one connection.
    kinds = {(difference["aspect"], difference["api"]) for difference in differences if difference["aspect"] != "order"}
    expected = {("field", "ApiVersions"), ("request", "GetTelemetrySubscriptions")}
    # A new topic may be missing in Kafka's Metadata for a moment.
    transient = {("error code", "Metadata"), ("field", "Metadata")}
    assert kinds - transient == expected, [
        difference for difference in differences if (difference["aspect"], difference["api"]) not in expected
    ]


def test_built_in_broker_answers_harmless_requests_like_kafka(lab: Lab) -> None:
    kafka = "{}:{}".format(*require_newest_release(lab).kafka.direct)
    with BrokerThread() as built_in:
        *differences, summary = diff(kafka, built_in.bootstrap)
    assert summary["pairs"] > 250
    # Kafka advertises these versions for a client library that checks them, and closes the connection.
    assert {tuple(difference["versions"][0]) for difference in differences if difference["aspect"] == "response"} == {
        (0, 0)
    }
    codes = {difference["api"] for difference in differences if difference["aspect"] == "error code"}
    assert codes <= EXPLAINED, [difference for difference in differences if difference["aspect"] == "error code"]
    page = DOCUMENT.read_text()
    assert [api for api in EXPLAINED if f"`{api}`" not in page] == []


def test_pytest_runs_an_exported_test(tmp_path: Path) -> None:
    """Under pytest as users run it, the test fails with a broker that has the quirk and passes with a correct one."""
    capture = DOCUMENT.parent.parent / "captures/metadata-v1-throttle-first.pcap.gz"
    command = [sys.executable, "-m", "kproxy", "export-test", str(capture), "0:2", "-o", "test_exported.py"]
    subprocess.run(command, cwd=tmp_path, check=True)
    outcomes = []
    for quirks in ([], ["metadata-throttle-first"]):
        with BrokerThread(topics={"orders": 1}, quirks=quirks) as broker:
            process = subprocess.run(
                [sys.executable, "-m", "pytest", "-p", "no:asyncio", "--kproxy-target", broker.bootstrap],
                cwd=tmp_path, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
        outcomes.append((process.returncode, "assert 'L005' not in {'L005': " in process.stdout))
    assert outcomes == [(0, False), (1, True)]
