"""Transactions of librdkafka and Java that block consumers, fence each other or abort are reported.

Correct transactions are not. Kafka 4.3.1 and its client use version 2 of the transaction protocol (KIP-890), all others
version 1.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.kafka import RELEASES, Kafka, class_path, missing
from tests.peers.processes import dies_with_us, until
from tests.peers.proxy import Proxy
from tests.peers.trace import all_findings, read_lines

kafka_client = pytest.importorskip("confluent_kafka")
AdminClient = pytest.importorskip("confluent_kafka.admin").AdminClient

pytestmark = pytest.mark.peers

SECONDS = 30


@pytest.fixture(scope="module", params=["built-in", *RELEASES])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka | None]:
    """Yield a real broker of each release, or None for kproxy's own."""
    if request.param == "built-in":
        yield None
        return
    if reason := missing():
        pytest.skip(reason)
    broker = Kafka(request.param, tmp_path_factory.mktemp("kafka"), {}, {"num.partitions": "2"})
    yield broker
    broker.kill()


@pytest.fixture
def proxy(kafka: Kafka | None, tmp_path: Path) -> Iterator[Proxy]:
    """Run a proxy in front of the broker; delete the topic afterwards."""
    upstream = ("--advertise",) if kafka else ("--topic", "t:2")
    running_proxy = Proxy(kafka and kafka.direct, tmp_path, *upstream, "-q")
    yield running_proxy
    running_proxy.kill_all()
    if kafka:
        delete_topic(kafka)


def delete_topic(kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": "{}:{}".format(*kafka.direct), "log_level": 0})
    admin.delete_topics(["t"])["t"].result(SECONDS)
    until("the topic is deleted", lambda: "t" not in admin.list_topics(timeout=SECONDS).topics)


def producer(proxy: Proxy, **settings: Any) -> Any:
    """Create a producer; initialise it if it has a transactional id."""
    settings = {key.replace("_", "."): value for key, value in settings.items()}
    producer = kafka_client.Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 0} | settings)
    if "transactional.id" in settings:
        producer.init_transactions(SECONDS)
    return producer


def consumer(proxy: Proxy, **settings: Any) -> Any:
    """Create a consumer; librdkafka reads committed records by default."""
    consumer = kafka_client.Consumer(
        {
            "bootstrap.servers": proxy.bootstrap,
            "group.id": f"g-{proxy.address[1]}",  # Kafka keeps the offsets of a deleted topic for a while
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    consumer.subscribe(["t"])
    return consumer


def send(sender: Any, *, partition: int = 0) -> None:
    sender.produce("t", b"x", partition=partition)
    assert sender.flush(SECONDS) == 0


def codes(proxy: Proxy) -> set[str]:
    """Stop the proxy and return the codes of findings about transactions."""
    proxy.interrupt()
    return {finding["code"] for finding in all_findings(read_lines(proxy.trace)) if finding["code"].startswith("T")}


class Librdkafka:
    """A producer of librdkafka that keeps its transaction open until `end`."""

    def __init__(self, proxy: Proxy) -> None:
        self._holder = producer(proxy, transactional_id="pay-1", client_id="payments")
        self._holder.begin_transaction()
        send(self._holder)

    def end(self) -> None:
        self._holder.abort_transaction(SECONDS)


class Java:
    """A producer of Kafka's Java client that keeps its transaction open until `end`."""

    def __init__(self, proxy: Proxy) -> None:
        self._process = start_java(proxy, "hang", stdin=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n"

    def end(self) -> None:
        assert self._process.communicate("\n", timeout=SECONDS)[0] == "done\n"


def start_java(proxy: Proxy, story: str, **options: Any) -> subprocess.Popen[str]:
    """Start the Java client of the newest release with a story of `Transactions.java`."""
    source = Path(__file__).with_name("clients") / "Transactions.java"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx128m", quiet, "-cp", class_path(RELEASES[0]), str(source)]
    return subprocess.Popen(
        dies_with_us([*command, proxy.bootstrap, "pay-1", story]), text=True, stdout=subprocess.PIPE, **options
    )


def java_story(story: str) -> Callable[[Proxy], None]:
    """Return a function that runs a story with the Java client, which must succeed."""

    def run(proxy: Proxy) -> None:
        assert start_java(proxy, story).communicate(timeout=2 * SECONDS)[0] == "done\n"

    return run


@pytest.fixture(params=[Librdkafka, Java])
def client(request: pytest.FixtureRequest) -> Any:
    if request.param is Java and (reason := missing()):
        pytest.skip(reason)
    return request.param


@pytest.mark.parametrize(("isolation", "code"), [("read_committed", "T001"), ("read_uncommitted", "T006")])
def test_transaction_that_blocks_a_consumer_is_reported_within_30_s(
    proxy: Proxy, client: type[Librdkafka | Java], isolation: str, code: str
) -> None:
    other_producer = producer(proxy, client_id="other")
    send(other_producer)
    holder = client(proxy)
    started_at, reader = time.monotonic(), consumer(proxy, isolation_level=isolation)

    def is_reported() -> bool:
        send(other_producer)
        send(other_producer, partition=1)
        reader.poll(0.2)
        return code in proxy.printed

    until("the transaction is named", is_reported, timeout=SECONDS)
    assert time.monotonic() - started_at < SECONDS
    holder.end()
    reader.close()
    assert codes(proxy) == {code}
    lines = [finding for finding in all_findings(read_lines(proxy.trace)) if finding["code"] == code]
    assert {line["severity"] for line in lines} == {"warning"}
    assert "transactional id 'pay-1' (producer " in lines[0]["message"]
    assert "client 'payments'" in lines[0]["message"]
    assert lines[0]["message"].startswith("t[0]: ")


def fence_producer(proxy: Proxy) -> None:
    first = producer(proxy, transactional_id="pay-1")
    first.begin_transaction()
    send(first)
    second = producer(proxy, transactional_id="pay-1", client_id="second")
    second.begin_transaction()
    send(second)
    second.commit_transaction(SECONDS)
    with pytest.raises(kafka_client.KafkaException):
        send_and_commit(first)


def send_and_commit(sender: Any) -> None:
    send(sender)
    sender.commit_transaction(SECONDS)


def abort_transactions(proxy: Proxy) -> None:
    failing = producer(proxy, transactional_id="pay-1")
    for _ in range(6):
        failing.begin_transaction()
        send(failing)
        failing.abort_transaction(SECONDS)


def run_correct_producers(proxy: Proxy) -> None:
    for _ in range(2):
        correct_producer = producer(proxy, transactional_id="pay-1")
        for _ in range(6):
            correct_producer.begin_transaction()
            send(correct_producer)
            correct_producer.commit_transaction(SECONDS)
            correct_producer.begin_transaction()
            send(correct_producer, partition=1)
            correct_producer.abort_transaction(SECONDS)
        del correct_producer
    reader = consumer(proxy)
    count = 0

    def are_read() -> bool:
        nonlocal count
        count += sum(message.error() is None for message in reader.consume(100, 0.5))
        return count == 13  # including the record that created the topic

    until("the committed records are read", are_read, timeout=SECONDS)
    reader.close()


def read_uncommitted_and_committed(proxy: Proxy) -> None:
    """Read with consumers of both isolation levels while transactions are briefly open."""
    reader = consumer(proxy, group_id="all", isolation_level="read_uncommitted")
    run_correct_producers(proxy)
    reader.consume(100, 1)
    reader.close()


STORIES = [
    (fence_producer, {"T003"}),
    (abort_transactions, {"T004"}),
    (run_correct_producers, set()),
    (read_uncommitted_and_committed, set()),
    (java_story("fenced"), {"T003"}),
    (java_story("aborted"), {"T004"}),
    (java_story("right"), set()),
    (java_story("new-offsets"), set()),
]
IDS = ["fenced", "aborted", "right", "read", "java-fenced", "java-aborted", "java-right", "java-new-offsets"]


@pytest.mark.parametrize(("story", "expected"), STORIES, ids=IDS)
def test_transaction_stories_cause_only_the_expected_findings(
    proxy: Proxy, story: Callable[[Proxy], None], expected: set[str]
) -> None:
    if story.__qualname__.startswith("java") and (reason := missing()):
        pytest.skip(reason)
    send(producer(proxy))
    story(proxy)
    assert codes(proxy) == expected


def test_repeated_commits_of_the_same_offsets_are_reported(proxy: Proxy) -> None:
    if reason := missing():
        pytest.skip(reason)
    send(producer(proxy))
    java_story("same-offsets")(proxy)
    reported_codes = codes(proxy)
    uses_version_2 = any(line.get("api") == "EndTxn" and line["api_version"] >= 5 for line in read_lines(proxy.trace))
    assert reported_codes == (set() if uses_version_2 else {"T007"})
