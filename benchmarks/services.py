"""Produce the traffic of a small company with librdkafka and kafka-python.

    python benchmarks/services.py HOST:PORT SECONDS

Twelve services share one cluster: five producers (four idempotent ones with common codecs, one from kafka-python with
acks=1), one service that consumes, transforms and produces in transactions, five consumers in three groups (with
automatic commits, or a commit per poll), and a monitor. Topics have 1, 6 and 12 partitions.
Needs confluent-kafka and kafka-python (`.ci/constraints-peers.txt`).
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

CONSUMERS = ("mail-1", "mail-2", "stats-1", "stats-2", "archive-1", "billing")
WORDS = ["order", "customer", "paid", "sent", "cancelled", "returned", "invoice", "country"]
TOPICS = {"orders": 6, "clicks": 12, "audit": 1, "invoices": 6}


class Services:
    """The services that share one cluster; they run until `stop` is set."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._unassigned = set(CONSUMERS)
        self._consumers_ready = threading.Event()  # so that no consumer starts with a backlog
        self.stop = threading.Event()

    def all(self) -> list[Callable[[], None]]:
        """Return the services, each of which runs in a thread of its own."""
        automatic = {"auto.commit.interval.ms": 500}
        return [
            partial(self._produce, "shop", "orders", "lz4", 400, (60, 400)),
            partial(self._produce, "web", "clicks", "zstd", 1200, (40, 120)),
            partial(self._produce, "audit", "audit", "none", 100, (200, 2000)),
            partial(self._produce, "batch", "orders", "none", 300, (500, 900), linger_ms=50),
            self._run_legacy_producer,
            *(partial(self._consume, f"mail-{number}", "orders", commits=True) for number in (1, 2)),
            *(partial(self._consume, f"stats-{number}", "clicks", **automatic) for number in (1, 2)),
            partial(self._consume, "archive-1", "audit"),
            self._run_billing,
            self._run_monitor,
        ]

    def create_topics(self) -> None:
        """Create the topics; they must not exist."""
        admin = AdminClient(self._settings("setup"))  # its futures complete only while it exists
        topics = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
        for creation in admin.create_topics(topics).values():
            creation.result(30)

    def _settings(self, client: str, **more: object) -> dict[str, object]:
        return {"bootstrap.servers": self._bootstrap, "client.id": client, **more}

    def _produce(
        self, client: str, topic: str, codec: str, rate: int, sizes: tuple[int, int], linger_ms: int = 5
    ) -> None:
        settings = {"linger.ms": linger_ms, "compression.type": codec, "enable.idempotence": True}
        producer = Producer(self._settings(client, **settings))
        random_numbers, sent_count = random.Random(client), 0
        self._consumers_ready.wait()
        while not self.stop.wait(0.01):
            for _ in range(rate // 100):
                sent_count += 1
                text = " ".join(random_numbers.choices(WORDS, k=random_numbers.randint(*sizes) // 5))
                body = json.dumps({"id": sent_count, "at": time.time(), "text": text}).encode()
                headers = {"trace": f"{sent_count:016x}"} if sent_count % 3 == 0 else None
                producer.produce(topic, key=f"key-{random_numbers.randint(0, 500)}", value=body, headers=headers)
            producer.poll(0)
        producer.flush(10)

    def _run_legacy_producer(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap, client_id="legacy", acks=1, linger_ms=0, enable_idempotence=False
        )
        self._consumers_ready.wait()
        while not self.stop.wait(0.01):
            producer.send("clicks", b"v" * 80)
        producer.close(timeout=10)

    def _consumer(self, client: str, topic: str, **more: object) -> Consumer:
        def record_assignment(*_: object) -> None:
            self._unassigned.discard(client)
            if not self._unassigned:
                self._consumers_ready.set()

        group = client.partition("-")[0]
        earliest = {"group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50}
        consumer = Consumer(self._settings(client, **earliest, **more))
        consumer.subscribe([topic], on_assign=record_assignment)
        return consumer

    def _consume(self, client: str, topic: str, *, commits: bool = False, **more: object) -> None:
        consumer = self._consumer(client, topic, **{"enable.auto.commit": not commits}, **more)
        while not self.stop.is_set():
            if consumer.consume(200, 0.05) and commits:
                with contextlib.suppress(KafkaException):  # a rebalance is in progress
                    consumer.commit(asynchronous=False)
        consumer.close()

    def _run_billing(self) -> None:
        committed = {"enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = self._consumer("billing", "orders", **committed)
        producer = Producer(self._settings("billing", **{"transactional.id": "billing", "linger.ms": 2}))
        producer.init_transactions(30)
        while not self.stop.is_set():
            orders = [message for message in consumer.consume(100, 0.1) if message.error() is None]
            if not orders:
                continue
            producer.begin_transaction()
            for order in orders:
                producer.produce("invoices", key=order.key(), value=order.value()[:100])
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
            producer.commit_transaction(10)
        consumer.close()

    def _run_monitor(self) -> None:
        admin = AdminClient(self._settings("monitor"))
        topic_partitions = [
            TopicPartition(name, number) for name, partitions in TOPICS.items() for number in range(partitions)
        ]
        while not self.stop.wait(0.5):
            admin.list_topics(timeout=5)
            for offset in admin.list_offsets(
                {topic_partition: OffsetSpec.latest() for topic_partition in topic_partitions}
            ).values():
                with contextlib.suppress(KafkaException):  # leaders are still being elected
                    offset.result(10)
            admin.list_consumer_groups().result(10)


def main() -> None:
    services = Services(sys.argv[1])
    services.create_topics()
    with ThreadPoolExecutor(12) as pool:
        futures = [pool.submit(service) for service in services.all()]
        time.sleep(float(sys.argv[2]))
        services.stop.set()
    for future in futures:
        future.result()


if __name__ == "__main__":
    main()
