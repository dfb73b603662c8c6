"""An idempotent producer that numbers its records, and an independent reader of the records that the broker stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from tests.peers.processes import until

PARTITIONS = 4
_QUIET = {"log_level": 0, "error_cb": lambda error: None}
#: Settings with which a record may take as long as a fault lasts, and closed connections are soon reopened.
_PRODUCER_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "delivery.timeout.ms": 120_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.kbytes": 1 << 20,
}


@dataclass(frozen=True)
class Pace:
    """Records per second, and their size."""

    records: int = 1000
    size: int = 500


class Load:
    """Produces in a thread until `finish`.

    Attributes:
        acknowledged: Numbers of the records that the broker has acknowledged.
        failures: Numbers of the records that failed, with the reasons.
    """

    def __init__(self, bootstrap: str, topic: str, pace: Pace) -> None:
        self.acknowledged: set[int] = set()
        self.failures: dict[int, str] = {}
        self._topic = topic
        self._pace = pace
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **_PRODUCER_SETTINGS, **_QUIET})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def advance(self, records: int = 200, *, timeout: float = 30) -> None:
        """Wait until `records` more records have been acknowledged."""
        goal = len(self.acknowledged) + records
        until(f"{records} more records are acknowledged", lambda: len(self.acknowledged) >= goal, timeout=timeout)

    def finish(self, *, timeout: float = 60) -> None:
        """Stop producing, and wait for pending acknowledgements; those missing after `timeout` count as failed."""
        self._ended.set()
        self._thread.join()
        if self._producer.flush(timeout):
            self._producer.purge()
            self._producer.flush(5)

    def _produce(self) -> None:
        padding = b"." * self._pace.size
        started = time.monotonic()
        for number in count():
            while number > (time.monotonic() - started) * self._pace.records:
                self._producer.poll(0.005)
                if self._ended.is_set():
                    return
            try:
                self._producer.produce(
                    self._topic, b"%d %s" % (number, padding), b"%d" % number, on_delivery=self._record_outcome
                )
            except BufferError:  # the queue of librdkafka is full because of a long fault
                self._producer.poll(0.1)
            if self._ended.is_set():
                return

    def _record_outcome(self, error: Any, message: Any) -> None:
        number = int(message.key())
        if error is None:
            self.acknowledged.add(number)
        else:
            self.failures[number] = str(error)


def create_topic(broker: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Create a topic directly on the broker."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker, **_QUIET})
    futures = admin.create_topics([confluent_kafka.admin.NewTopic(topic, partitions, 1)], request_timeout=30)
    futures[topic].result()


def fill_topic(broker: str, topic: str, records: int, size: int) -> None:
    """Create a topic with one partition and fill it with records of `size` bytes, directly on the broker."""
    create_topic(broker, topic, 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker, **_QUIET})
    for _ in range(records):
        producer.produce(topic, bytes(size))
        producer.poll(0)
    assert producer.flush(60) == 0


def stored_numbers(broker: str, topic: str) -> list[list[int]]:
    """Return the numbers of the records in each partition, in order, read directly from the broker."""
    partitions = [confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    numbers: list[list[int]] = [[] for _ in partitions]
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker, "group.id": "chaos", "enable.partition.eof": True, "enable.auto.commit": False}
        | _QUIET
    )
    try:
        consumer.assign(partitions)
        for message in _messages(consumer):
            numbers[message.partition()].append(int(message.key()))
    finally:
        consumer.close()
    return numbers


def _messages(consumer: Any) -> Iterator[Any]:
    """Yield all messages until the end of each partition."""
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer the reader"
        if (error := message.error()) is None:
            yield message
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
