"""Transactions of librdkafka and Java that hold up consumers, fence each other or abort are named; right ones are not.

Kafka 4.3.1 and its client use version 2 of the transaction protocol (KIP-890), all others version 1.
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

pytestmark = pytest.mark.peers

SECONDS = 30


@pytest.fixture(params=["built-in", *RELEASES])
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Proxy]:
    """Before the built-in broker, or before real Kafka."""
    if request.param == "built-in":
        opened = Proxy(None, tmp_path, "--topic", "t:2", "-q")
        yield opened
        opened.kill_all()
        return
    if reason := missing():
        pytest.skip(reason)
    kafka = Kafka(request.param, tmp_path / "kafka", {}, {"num.partitions": "2"})
    opened = Proxy(kafka.direct, tmp_path, "--advertise", "-q")
    yield opened
    opened.kill_all()
    kafka.kill()


def producer(proxy: Proxy, **settings: Any) -> Any:
    """A producer; with a transactional id, it is ready to begin a transaction."""
    settings = {key.replace("_", "."): value for key, value in settings.items()}
    producer = kafka_client.Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 0} | settings)
    if "transactional.id" in settings:
        producer.init_transactions(SECONDS)
    return producer


def consumer(proxy: Proxy, **settings: Any) -> Any:
    """A consumer; librdkafka reads committed records by default."""
    consumer = kafka_client.Consumer(
        {
            "bootstrap.servers": proxy.bootstrap,
            "group.id": "g",
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
    """The findings about transactions, when the proxy has ended."""
    proxy.interrupt()
    return {finding["code"] for finding in all_findings(read_lines(proxy.trace)) if finding["code"].startswith("T")}


class Librdkafka:
    """A producer that leaves its transaction open until it may end."""

    def __init__(self, proxy: Proxy) -> None:
        self._holder = producer(proxy, transactional_id="pay-1", client_id="payments")
        self._holder.begin_transaction()
        send(self._holder)

    def end(self) -> None:
        self._holder.abort_transaction(SECONDS)


class Java:
    """The same with Kafka's own client."""

    def __init__(self, proxy: Proxy) -> None:
        self._process = started(proxy, "hang", stdin=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n"

    def end(self) -> None:
        assert self._process.communicate("\n", timeout=SECONDS)[0] == "done\n"


def started(proxy: Proxy, story: str, **options: Any) -> subprocess.Popen[str]:
    """The Java client of the newest release with a story of `Transactions.java`."""
    source = Path(__file__).with_name("clients") / "Transactions.java"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx128m", quiet, "-cp", class_path(RELEASES[0]), str(source)]
    return subprocess.Popen(
        dies_with_us([*command, proxy.bootstrap, "pay-1", story]), text=True, stdout=subprocess.PIPE, **options
    )


def java(story: str) -> Callable[[Proxy], None]:
    """A story of the Java client, which must succeed."""

    def tell(proxy: Proxy) -> None:
        assert started(proxy, story).communicate(timeout=2 * SECONDS)[0] == "done\n"

    return tell


@pytest.fixture(params=[Librdkafka, Java])
def client(request: pytest.FixtureRequest) -> Any:
    if request.param is Java and (reason := missing()):
        pytest.skip(reason)
    return request.param


@pytest.mark.parametrize(("isolation", "code"), [("read_committed", "T001"), ("read_uncommitted", "T006")])
def test_the_transaction_that_holds_the_offset_is_named_within_30_s(
    proxy: Proxy, client: type[Librdkafka | Java], isolation: str, code: str
) -> None:
    other = producer(proxy, client_id="other")
    send(other)
    holder = client(proxy)
    begun, reader = time.monotonic(), consumer(proxy, isolation_level=isolation)

    def is_named() -> bool:
        send(other)
        send(other, partition=1)
        reader.poll(0.2)
        return code in proxy.printed

    until("the transaction is named", is_named, seconds=SECONDS)
    assert time.monotonic() - begun < SECONDS
    holder.end()
    reader.close()
    assert codes(proxy) == {code}
    lines = [finding for finding in all_findings(read_lines(proxy.trace)) if finding["code"] == code]
    assert {line["severity"] for line in lines} == {"warning"}
    assert "transactional id 'pay-1' (producer " in lines[0]["message"]
    assert "client 'payments'" in lines[0]["message"]
    assert lines[0]["message"].startswith("t[0]: ")


def fenced(proxy: Proxy) -> None:
    first = producer(proxy, transactional_id="pay-1")
    first.begin_transaction()
    send(first)
    second = producer(proxy, transactional_id="pay-1", client_id="second")
    second.begin_transaction()
    send(second)
    second.commit_transaction(SECONDS)
    with pytest.raises(kafka_client.KafkaException):
        commit_one_more(first)


def commit_one_more(sender: Any) -> None:
    send(sender)
    sender.commit_transaction(SECONDS)


def aborted(proxy: Proxy) -> None:
    failing = producer(proxy, transactional_id="pay-1")
    for _ in range(6):
        failing.begin_transaction()
        send(failing)
        failing.abort_transaction(SECONDS)


def one_after_the_other(proxy: Proxy) -> None:
    for _ in range(2):
        right = producer(proxy, transactional_id="pay-1")
        for _ in range(6):
            right.begin_transaction()
            send(right)
            right.commit_transaction(SECONDS)
            right.begin_transaction()
            send(right, partition=1)
            right.abort_transaction(SECONDS)
        del right
    reader = consumer(proxy)
    count = 0

    def are_read() -> bool:
        nonlocal count
        count += sum(message.error() is None for message in reader.consume(100, 0.5))
        return count == 13  # and the record that made the topic

    until("the committed records are read", are_read, seconds=SECONDS)
    reader.close()


def unlimited(proxy: Proxy) -> None:
    """Consumers of both kinds read on while transactions are open for a moment."""
    reader = consumer(proxy, group_id="all", isolation_level="read_uncommitted")
    one_after_the_other(proxy)
    reader.consume(100, 1)
    reader.close()


STORIES = [
    (fenced, {"T003"}),
    (aborted, {"T004"}),
    (one_after_the_other, set()),
    (unlimited, set()),
    (java("fenced"), {"T003"}),
    (java("aborted"), {"T004"}),
    (java("right"), set()),
    (java("new-offsets"), set()),
]
IDS = ["fenced", "aborted", "right", "read", "java-fenced", "java-aborted", "java-right", "java-new-offsets"]


@pytest.mark.parametrize(("story", "expected"), STORIES, ids=IDS)
def test_findings_of_transactions(proxy: Proxy, story: Callable[[Proxy], None], expected: set[str]) -> None:
    if story.__qualname__.startswith("java") and (reason := missing()):
        pytest.skip(reason)
    send(producer(proxy))
    story(proxy)
    assert codes(proxy) == expected


def test_commits_of_the_same_offsets_are_named(proxy: Proxy) -> None:
    if reason := missing():
        pytest.skip(reason)
    send(producer(proxy))
    java("same-offsets")(proxy)
    found = codes(proxy)
    is_second = any(line.get("api") == "EndTxn" and line["api_version"] >= 5 for line in read_lines(proxy.trace))
    assert found == (set() if is_second else {"T007"})
