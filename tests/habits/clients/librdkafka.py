"""The bad and the fixed variant of each habit, with librdkafka."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from tests.habits.clients.java import AT_ONCE
from tests.habits.table import BAD, FIXED, HABITS, LIBRDKAFKA, client_id
from tests.peers.processes import until

kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

TIMEOUT_S = 30
RECORDS = 250
TEXT = json.dumps([{"customer": number, "status": "delivered"} for number in range(200)]).encode()
LINGER = {"linger.ms": 50}
SAFE = {"enable.idempotence": True}
SHORT_BATCHES = SAFE | LINGER | {"batch.num.messages": 100}  # on a busy machine, they would be long
EARLIEST = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
#: The topics that clients write and read, and their numbers of partitions.
TOPICS = {"orders": 1, "spread": 6, "filled": 1, "backlog": 1, "flow": 1, "other": 1}
Config = dict[str, Any]
Variant = Callable[[Config], None]


def run_all(bootstrap: str, habits: list[str], *, at_once: int = AT_ONCE) -> None:
    """Play both variants of each habit, `at_once` of them concurrently."""
    common = {"bootstrap.servers": bootstrap, "log_level": 0}
    with ThreadPoolExecutor(at_once) as pool:
        futures = [
            pool.submit(variant, common | {"client.id": client_id(habit, variant_name, LIBRDKAFKA)})
            for habit in habits
            if LIBRDKAFKA in HABITS[habit].clients
            for variant_name, variant in zip((BAD, FIXED), VARIANTS[habit], strict=True)
        ]
        for future in futures:
            future.result()


class Scenery:
    """Topics with records, and a producer that writes to `flow` until it is closed."""

    def __init__(self, bootstrap: str) -> None:
        common = {"bootstrap.servers": bootstrap, "client.id": "scenery"}
        for name, partitions in TOPICS.items():
            create_topic(common, name, partitions)
        self._producer = kafka.Producer(common | SAFE | {"batch.num.messages": 1, "acks": "all"})
        for number in range(RECORDS):
            self._producer.produce("filled", b"v")
            self._producer.produce("backlog", b"%d" % number * 200)
            self._producer.produce("orders", b"v")
        assert self._producer.flush(TIMEOUT_S) == 0
        reader = kafka.Consumer(common | {"group.id": "scenery"})  # this makes Kafka create its topic for offsets
        until("groups have a coordinator", lambda: has_coordinator(reader))
        reader.close()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flow)
        self._thread.start()

    def _flow(self) -> None:
        while not self._stop.wait(0.02):
            self._producer.produce("flow", b"v")
            self._producer.poll(0)

    def close(self) -> None:
        """Stop writing."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(TIMEOUT_S)


def has_coordinator(reader: Any) -> bool:
    try:
        reader.committed([kafka.TopicPartition("filled", 0)], timeout=TIMEOUT_S)
    except kafka.KafkaException:
        return False
    return True


def create_topic(common: Config, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    client = admin.AdminClient(common)
    client.create_topics([admin.NewTopic(topic, partitions, 1, config=config or {})])[topic].result(TIMEOUT_S)


def produce(
    config: Config, *, records: int = RECORDS, value: bytes = b"v", flush_each: bool = False, topic: str = "orders",
    key: Callable[[int], bytes | None] = lambda _: None, pause: float = 0.0,
) -> Variant:  # fmt: skip
    def produce_records(common: Config) -> None:
        producer = kafka.Producer(common | config)
        for number in range(records):
            producer.produce(topic, b"%d " % number + value, key(number))
            if flush_each:
                producer.flush(TIMEOUT_S)
            elif number % 100 == 99:
                producer.poll(0)
            time.sleep(pause)
        producer.flush(TIMEOUT_S)

    return produce_records


def repeat_variant(variant: Variant, times: int, pause: float = 0) -> Variant:
    def run_repeatedly(common: Config) -> None:
        for _ in range(times):
            variant(common)
            time.sleep(pause)

    return run_repeatedly


def open_producers(count: int, config: Config) -> Variant:
    """Return a variant with producers that are all open at the same time."""

    def produce_with_all(common: Config) -> None:
        producers = [kafka.Producer(common | config) for _ in range(count)]
        for producer in producers:
            producer.produce("orders", b"v", partition=0)
        for producer in producers:
            assert producer.flush(TIMEOUT_S) == 0

    return produce_with_all


def produce_to_limited_topic(size: int) -> Variant:
    """Return a variant that produces to a topic whose batches may have 20,000 bytes at most."""

    def create_and_produce(common: Config) -> None:
        topic = f"limited-{common['client.id']}"
        create_topic(common, topic, config={"max.message.bytes": "20000"})
        produce(SAFE, topic=topic, value=b"v" * size, records=4, flush_each=True)(common)

    return create_and_produce


def produce_to_compacted_topic(key: bytes | None, value: bytes | None) -> Variant:
    def create_and_produce(common: Config) -> None:
        topic = f"compacted-{common['client.id']}"
        create_topic(common, topic, config={"cleanup.policy": "compact"})
        producer = kafka.Producer(common)
        for _ in range(5):
            producer.produce(topic, value, key)
            producer.flush(TIMEOUT_S)

    return create_and_produce


def transactions(count: int, *, abort: bool = False, seconds: float = 0) -> Variant:
    def run_transactions(common: Config) -> None:
        producer_config = {"transactional.id": common["client.id"], "transaction.timeout.ms": 2000}
        producer = kafka.Producer(common | producer_config)
        producer.init_transactions(TIMEOUT_S)
        for _ in range(count):
            producer.begin_transaction()
            producer.produce("orders", b"v", partition=0)
            producer.flush(TIMEOUT_S)
            time.sleep(seconds)
            if abort:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)

    return run_transactions


def open_consumer(common: Config, topic: str, config: Config | None = None) -> Any:
    consumer_config = {"group.id": common["client.id"]} | EARLIEST | (config or {})
    opened = kafka.Consumer(common | consumer_config)
    opened.subscribe([topic])
    return opened


def consume(*, commit: str, config: Config | None = None, seconds: float = 0.0) -> Variant:
    """Return a consumer of `RECORDS` records that commits each record, once per poll, or even without new records."""

    def consume_records(common: Config) -> None:
        reader = open_consumer(common, "filled", config)
        read = 0
        while read < RECORDS:
            messages = reader.consume(1 if commit == "record" else 100, timeout=1)
            for message in messages:
                assert message.error() is None
            read += len(messages)
            if messages:
                reader.commit(asynchronous=False)
        for _ in range(150 if commit == "always" else 0):
            reader.consume(1, timeout=0.001)
            reader.commit(asynchronous=False, offsets=reader.position(reader.assignment()))
        if seconds:
            reader.consume(1, timeout=seconds)
        reader.close()

    return consume_records


def follow(topic: str, seconds: float, config: Config, *, commit_every: float = 0) -> Variant:
    """Return a consumer that polls for `seconds` after its first record."""

    def follow_topic(common: Config) -> None:
        reader = open_consumer(common, topic, config)
        started = wait_for_record(reader)
        committed = started
        while time.monotonic() < started + seconds:
            reader.poll(0.05)
            if commit_every and time.monotonic() > committed + commit_every:
                reader.commit(asynchronous=False)
                committed = time.monotonic()
        reader.close()

    return follow_topic


def wait_for_record(reader: Any) -> float:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            return time.monotonic()
    raise TimeoutError("no record")


def restart_consumer(count: int, config: Config) -> Variant:
    """Return a consumer that is closed once it has read a record, and then created again."""

    def run_restarts(common: Config) -> None:
        for number in range(count):
            reader = open_consumer(common, "filled", config | {"client.id": common["client.id"]})
            wait_for_record(reader)
            reader.close()
            time.sleep(0.1 * (1 + number % 3))

    return run_restarts


def rejoin_group(count: int, config: Config) -> Variant:
    """Return a group in which one consumer stays and another repeatedly joins and leaves."""

    def run_rejoins(common: Config) -> None:
        first = open_consumer(common, "spread", config | {"client.id": f"{common['client.id']}-first"})
        is_over = threading.Event()

        def poll() -> None:
            while not is_over.is_set():
                first.poll(0.05)

        polling = threading.Thread(target=poll)
        polling.start()
        for number in range(count):
            second = open_consumer(common, "spread", config | {"client.id": f"{common['client.id']}-{number}"})
            wait_for_assignment(second)
            second.close()
            time.sleep(0.2)
        is_over.set()
        polling.join()
        first.close()

    return run_rejoins


def wait_for_assignment(reader: Any) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not reader.assignment():
        reader.poll(0.05)
        assert time.monotonic() < end, "no partitions"


def run_pair(first: tuple[str, Config], second: tuple[str, Config]) -> Variant:
    """Return two members of a group, each with its own topic and configuration."""

    def poll_both(common: Config) -> None:
        readers = [open_consumer(common, topic, config) for topic, config in (first, second)]
        end = time.monotonic() + 6
        while time.monotonic() < end:
            for reader in readers:
                reader.poll(0.05)
        for reader in readers:
            reader.close()

    return poll_both


def commit_beside_group(group: str) -> Variant:
    """Return a group with one member, and a standalone consumer that assigns itself a partition and commits offsets."""

    def commit_repeatedly(common: Config) -> None:
        member = open_consumer(common, "filled", {"client.id": f"{common['client.id']}-member"})
        wait_for_record(member)
        standalone = kafka.Consumer(common | EARLIEST | {"group.id": group.format(common["client.id"])})
        standalone.assign([kafka.TopicPartition("filled", 0, 0)])
        for number in range(8):
            standalone.poll(0.2)
            with suppress(kafka.KafkaException):  # the coordinator refuses it
                standalone.commit(offsets=[kafka.TopicPartition("filled", 0, number)], asynchronous=False)
        for client in (standalone, member):
            client.close()

    return commit_repeatedly


def commit_at(*offsets: int) -> Variant:
    def commit_offsets(common: Config) -> None:
        reader = open_consumer(common, "filled")
        wait_for_record(reader)
        for offset in offsets:
            reader.commit(offsets=[kafka.TopicPartition("filled", 0, offset)], asynchronous=False)
        reader.close()

    return commit_offsets


def begin_at(offset: int) -> Variant:
    def read_from_offset(common: Config) -> None:
        consumer_config = {"group.id": common["client.id"], "auto.offset.reset": "latest", "enable.auto.commit": False}
        reader = kafka.Consumer(common | consumer_config)
        reader.assign([kafka.TopicPartition("filled", 0, offset)])
        reader.consume(RECORDS, timeout=2)
        reader.close()

    return read_from_offset


def poll_topic(topic: str, seconds: float = 9) -> Variant:
    """Return a consumer that polls a topic until it gets a record, or for `seconds`."""

    def poll_until_end(common: Config) -> None:
        reader = open_consumer(common, topic, {"allow.auto.create.topics": False})
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                break
        reader.close()

    return poll_until_end


def request_metadata(count: int, *, new_client: bool = False) -> Variant:
    def list_topics(common: Config) -> None:
        client = kafka.Producer(common)
        for _ in range(count):
            client.list_topics("orders", timeout=TIMEOUT_S)
            if new_client:
                client = kafka.Producer(common)
        if not new_client:
            client.produce("orders", b"v", partition=0)
            client.flush(TIMEOUT_S)

    return list_topics


def request_offsets(count: int) -> Variant:
    def request_committed(common: Config) -> None:
        reader = kafka.Consumer(common | EARLIEST | {"group.id": common["client.id"]})
        for _ in range(count):
            reader.committed([kafka.TopicPartition("filled", 0)], timeout=TIMEOUT_S)
        reader.close()

    return request_committed


def use_default_id(common: Config) -> None:
    del common["client.id"]
    open_producers(2, {})(common)


def same_key(number: int) -> bytes:
    return b"unknown" if number % 20 else b"%d" % number


def distinct_key(number: int) -> bytes:
    return b"%d" % number


SESSION = {"session.timeout.ms": 3000, "max.poll.interval.ms": 10_000}
HASTY = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1, "message.send.max.retries": 40}
ONE_BATCH_EACH = {"linger.ms": 0, "batch.num.messages": 1}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
FREQUENT_HEARTBEATS = {"heartbeat.interval.ms": 500}
RANGE = {"partition.assignment.strategy": "range"}
HUGE = {
    "fetch.max.bytes": 1 << 30,
    "fetch.message.max.bytes": 1_000_000_000,
    "receive.message.max.bytes": (1 << 30) + 512,
}
#: The bad and the fixed variant, by habit.
VARIANTS: dict[str, tuple[Variant, Variant]] = {
    "client-per-message": (repeat_variant(produce({}, records=1), 25), produce({}, records=25)),
    "producer-per-task": (open_producers(24, SAFE), open_producers(1, SAFE)),
    "flush-each": (produce({}, flush_each=True), produce(SAFE | LINGER)),
    "no-linger": (produce(ONE_BATCH_EACH, records=600), produce(LINGER, records=600)),
    "no-compression": (produce(LINGER, value=TEXT), produce(LINGER | {"compression.type": "lz4"}, value=TEXT)),
    "acks-0": (produce({"acks": 0} | ONE_BATCH_EACH, records=400), produce({"acks": "all"} | LINGER, records=400)),
    "acks-1-beside-all": (produce({"acks": 1}, records=60, flush_each=True),
                          produce(SAFE, records=60, flush_each=True)),
    "no-idempotence": (produce({}, records=60, flush_each=True), produce(SAFE, records=60, flush_each=True)),
    "in-flight": (produce(ONE_BATCH_EACH, records=90), produce(ONE_BATCH_EACH | SAFE, records=90)),
    "retry-reorders": (produce(ONE_BATCH_EACH, records=90), produce(SAFE | LINGER, records=90)),
    "key-skew": (produce(SHORT_BATCHES, records=3000, topic="spread", key=same_key, pause=0.0002),
                 produce(SHORT_BATCHES, records=3000, topic="spread", key=distinct_key, pause=0.0002)),
    "near-limit": (produce_to_limited_topic(18_000), produce_to_limited_topic(9_000)),
    "keyless": (produce_to_compacted_topic(None, b"v"), produce_to_compacted_topic(b"k", b"v")),
    "empty-value": (produce_to_compacted_topic(b"k", b""), produce_to_compacted_topic(b"k", None)),
    "aborts": (transactions(6, abort=True), transactions(6)),
    "long-transaction": (transactions(1, seconds=1.8), transactions(1, seconds=0.5)),
    "auto-create": (produce({}, records=1, topic="made-by-librdkafka"), produce({}, records=1)),
    "commit-each": (consume(commit="record"), consume(commit="poll")),
    "commit-nothing": (consume(commit="always"), consume(commit="poll")),
    "rare-commits": (follow("flow", 9, SESSION | {"session.timeout.ms": 1500, "heartbeat.interval.ms": 400},
                            commit_every=2),
                     follow("flow", 4, SESSION | {"heartbeat.interval.ms": 800}, commit_every=0.5)),
    "busy-poll": (consume(commit="poll", config={"fetch.wait.max.ms": 1}, seconds=8),
                  consume(commit="poll", seconds=2)),
    "min-bytes": (follow("flow", 4, {"fetch.min.bytes": 100_000, "fetch.wait.max.ms": 100}), follow("flow", 3, {})),
    "small-fetches": (follow("backlog", 3, {"fetch.message.max.bytes": 1000}), follow("backlog", 1, {})),
    "huge-fetches": (follow("filled", 0, HUGE), follow("filled", 0, {})),
    "few-heartbeats": (follow("flow", 8, SESSION | {"heartbeat.interval.ms": 1300}),
                       follow("flow", 4, SESSION | {"heartbeat.interval.ms": 500})),
    "not-static": (restart_consumer(4, {}), restart_consumer(1, {})),
    "consumer-per-message": (restart_consumer(7, {}), consume(commit="poll")),
    "eager": (rejoin_group(4, RANGE | FREQUENT_HEARTBEATS), rejoin_group(4, COOPERATIVE | FREQUENT_HEARTBEATS)),
    "subscriptions": (run_pair(("filled", RANGE), ("other", RANGE)), run_pair(("filled", RANGE), ("filled", RANGE))),
    "assignors": (run_pair(("filled", RANGE), ("filled", {"partition.assignment.strategy": "roundrobin,range"})),
                  run_pair(("filled", RANGE), ("filled", RANGE))),
    "manual-commits": (commit_beside_group("{}"), commit_beside_group("{}-own")),
    "commit-back": (commit_at(20, 10), commit_at(10, 20)),
    "reset-to-the-end": (begin_at(100_000), begin_at(0)),
    "missing-topic": (poll_topic("nowhere"), poll_topic("filled")),
    "default-id": (use_default_id, open_producers(2, {})),
    "many-connections": (open_producers(25, {}), open_producers(1, {})),
    "cadence": (repeat_variant(produce({}, records=4, flush_each=True, pause=0.3), 7),
                produce({}, records=16, flush_each=True, pause=0.3)),
    "metadata-storm": (request_metadata(80), request_metadata(1)),
    "metadata-only": (request_metadata(12, new_client=True), request_metadata(12)),
    "same-question": (request_offsets(40), request_offsets(2)),
    "throttled": (produce({}, records=5, flush_each=True), produce({}, records=5, flush_each=True)),
    "no-backoff": (produce(HASTY, records=1), produce({}, records=1)),
}  # fmt: skip
