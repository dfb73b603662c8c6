"""`kproxy diff`: the same client against Kafka and against the built-in broker, and both brokers themselves."""

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


def use(bootstrap: str) -> None:
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
    read = 0
    while read < 10:
        read += len(consumer.consume(10 - read, 60))
    consumer.commit(asynchronous=False)
    consumer.close()


def diff(a: object, b: object, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kproxy", "diff", str(a), str(b), "--json", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


async def coordinated(lab: Lab) -> None:
    broker = RecordedBroker(TcpAddress(*lab.kafka.direct), 30)
    await broker.learn_versions()
    await broker.wait_until_ready()


def of_kafka_4(lab: Lab) -> Lab:
    if lab.kafka.release != RELEASES[0]:
        pytest.skip("docs/diff.md lists the differences from the newest release")
    return lab


def test_a_client_sees_few_differences_between_kafka_and_the_built_in_broker(lab: Lab, tmp_path: Path) -> None:
    asyncio.run(coordinated(of_kafka_4(lab)))
    with lab.chain("PLAIN", tmp_path / "kafka", "--detail", "full") as chain:
        use(chain.bootstrap)
        chain.finish()
        kafka = chain.proxy.trace
    (tmp_path / "own").mkdir()
    own = Proxy(None, tmp_path / "own", "--detail", "full")
    try:
        use(own.bootstrap)
        own.interrupt()
    finally:
        own.kill_all()
    # Which requests are in flight when a client closes its connections depends on time.
    *differences, _ = diff(kafka, own.trace, "--ignore", "C004")
    # So does the order of what its threads send on one connection.
    got = {(difference["aspect"], difference["api"]) for difference in differences if difference["aspect"] != "order"}
    expected = {("field", "ApiVersions"), ("request", "GetTelemetrySubscriptions")}
    # A new topic may be missing in Kafka's Metadata for a moment.
    lag = {("error code", "Metadata"), ("field", "Metadata")}
    assert got - lag == expected, [
        difference for difference in differences if (difference["aspect"], difference["api"]) not in expected
    ]


def test_the_built_in_broker_answers_harmless_requests_like_kafka(lab: Lab) -> None:
    kafka = "{}:{}".format(*of_kafka_4(lab).kafka.direct)
    with BrokerThread() as own:
        *differences, end = diff(kafka, own.bootstrap)
    assert end["pairs"] > 250
    # Kafka advertises these versions for a client library that checks them, and closes the connection.
    assert {tuple(difference["versions"][0]) for difference in differences if difference["aspect"] == "response"} == {
        (0, 0)
    }
    codes = {difference["api"] for difference in differences if difference["aspect"] == "error code"}
    assert codes <= EXPLAINED, [difference for difference in differences if difference["aspect"] == "error code"]
    page = DOCUMENT.read_text()
    assert [each for each in EXPLAINED if f"`{each}`" not in page] == []


def test_pytest_runs_an_exported_test(tmp_path: Path) -> None:
    """It fails at a broker with the quirk and passes at a correct one, with pytest as users run it."""
    capture = DOCUMENT.parent.parent / "captures/metadata-v1-throttle-first.pcap.gz"
    command = [sys.executable, "-m", "kproxy", "export-test", str(capture), "0:2", "-o", "test_exported.py"]
    subprocess.run(command, cwd=tmp_path, check=True)
    outcomes = []
    for quirks in ([], ["metadata-throttle-first"]):
        with BrokerThread(topics={"orders": 1}, quirks=quirks) as broker:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-p", "no:asyncio", "--kproxy-target", broker.bootstrap],
                cwd=tmp_path, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
        outcomes.append((done.returncode, "assert 'L005' not in {'L005': " in done.stdout))
    assert outcomes == [(0, False), (1, True)]
