"""An idempotent producer that numbers its records, and an independent reader of what the broker has stored."""

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
_SILENT = {"log_level": 0, "error_cb": lambda error: None}
#: A record may take as long as a fault lasts; a connection that a fault has closed is opened again at once.
_PATIENT = {
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
    """How many records a second, and how large they are."""

    records: int = 1000
    size: int = 500


class Load:
    """Produces in a thread until `finish`.

    Attributes:
        acked: Numbers of the records that the broker has acknowledged.
        failed: Why the others were not.
    """

    def __init__(self, bootstrap: str, topic: str, pace: Pace) -> None:
        self.acked: set[int] = set()
        self.failed: dict[int, str] = {}
        self._topic = topic
        self._pace = pace
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **_PATIENT, **_SILENT})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def advance(self, records: int = 200, *, seconds: float = 30) -> None:
        """Return when so many more records have been acknowledged."""
        goal = len(self.acked) + records
        until(f"{records} more records are acknowledged", lambda: len(self.acked) >= goal, seconds=seconds)

    def finish(self, *, seconds: float = 60) -> None:
        """Produce no more, and wait for what is not acknowledged yet; after so long, it counts as failed."""
        self._ended.set()
        self._thread.join()
        if self._producer.flush(seconds):
            self._producer.purge()
            self._producer.flush(5)

    def _produce(self) -> None:
        filling = b"." * self._pace.size
        began = time.monotonic()
        for number in count():
            while number > (time.monotonic() - began) * self._pace.records:
                self._producer.poll(0.005)
                if self._ended.is_set():
                    return
            try:
                self._producer.produce(self._topic, b"%d %s" % (number, filling), b"%d" % number, on_delivery=self._ack)
            except BufferError:  # the fault has lasted so long that librdkafka takes no more
                self._producer.poll(0.1)
            if self._ended.is_set():
                return

    def _ack(self, error: Any, message: Any) -> None:
        number = int(message.key())
        if error is None:
            self.acked.add(number)
        else:
            self.failed[number] = str(error)


def create_topic(broker: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Create a topic at the broker itself."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker, **_SILENT})
    created = admin.create_topics([confluent_kafka.admin.NewTopic(topic, partitions, 1)], request_timeout=30)
    created[topic].result()


def fill_topic(broker: str, topic: str, records: int, size: int) -> None:
    """Create a topic of one partition and give it large records, past kproxy."""
    create_topic(broker, topic, 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker, **_SILENT})
    for _ in range(records):
        producer.produce(topic, bytes(size))
        producer.poll(0)
    assert producer.flush(60) == 0


def stored(broker: str, topic: str) -> list[list[int]]:
    """The numbers of the records in each partition, in their order, read from the broker itself."""
    partitions = [confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    found: list[list[int]] = [[] for _ in partitions]
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker, "group.id": "chaos", "enable.partition.eof": True, "enable.auto.commit": False}
        | _SILENT
    )
    try:
        consumer.assign(partitions)
        for message in _messages(consumer):
            found[message.partition()].append(int(message.key()))
    finally:
        consumer.close()
    return found


def _messages(consumer: Any) -> Iterator[Any]:
    """Every message, up to the end of each partition."""
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer the reader"
        if (error := message.error()) is None:
            yield message
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
