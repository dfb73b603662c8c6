"""Transactions of librdkafka that hold up consumers, fence each other or abort are named live; right ones are not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.processes import until
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
    made = kafka_client.Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 0} | settings)
    if "transactional.id" in settings:
        made.init_transactions(SECONDS)
    return made


def consumer(proxy: Proxy) -> Any:
    """A consumer of committed records, as librdkafka reads by default."""
    made = kafka_client.Consumer(
        {
            "bootstrap.servers": proxy.bootstrap,
            "group.id": "g",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    made.subscribe(["t"])
    return made


def send(sender: Any, *, partition: int = 0) -> None:
    sender.produce("t", b"x", partition=partition)
    assert sender.flush(SECONDS) == 0


def codes(proxy: Proxy) -> set[str]:
    """The findings about transactions, when the proxy has ended."""
    proxy.interrupt()
    return {each["code"] for each in all_findings(read_lines(proxy.trace)) if each["code"].startswith("T")}


def test_the_transaction_that_holds_up_a_consumer_is_named_within_30_s(proxy: Proxy) -> None:
    other = producer(proxy, client_id="other")
    send(other)
    holder = producer(proxy, transactional_id="pay-1", client_id="payments")
    holder.begin_transaction()
    send(holder)
    begun, reader = time.monotonic(), consumer(proxy)

    def is_named() -> bool:
        send(other)
        send(other, partition=1)
        reader.poll(0.2)
        return "T001" in proxy.printed

    until("the transaction is named", is_named, seconds=SECONDS)
    assert time.monotonic() - begun < SECONDS
    holder.abort_transaction(SECONDS)
    reader.close()
    assert codes(proxy) == {"T001"}
    found = [each for each in all_findings(read_lines(proxy.trace)) if each["code"] == "T001"]
    assert {each["severity"] for each in found} == {"warning"}
    assert "transactional id 'pay-1'" in found[0]["message"]
    assert "client 'payments'" in found[0]["message"]
    assert found[0]["message"].startswith("t[0]: ")


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


@pytest.mark.parametrize(("story", "expected"), [(fenced, {"T003"}), (aborted, {"T004"}), (one_after_the_other, set())])
def test_findings_of_transactions(proxy: Proxy, story: Callable[[Proxy], None], expected: set[str]) -> None:
    send(producer(proxy))
    story(proxy)
    assert codes(proxy) == expected
