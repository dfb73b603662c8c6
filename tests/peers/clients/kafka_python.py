"""kafka-python: every codec, acks, a transaction; a group that grows to two members reads all records; admin."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from tests.peers.clients import session as run


def main() -> None:
    session = run.session()
    base: dict[str, Any] = {"bootstrap_servers": session.bootstrap, "security_protocol": session.protocol}
    if session.mechanism:
        base |= {
            "sasl_mechanism": session.mechanism,
            "sasl_plain_username": session.user,
            "sasl_plain_password": session.password,
        }
    admin = KafkaAdminClient(**base)
    admin.create_topics([NewTopic(session.topic, run.PARTITIONS, 1)])

    produced = 0
    plain = {"enable_idempotence": False, "linger_ms": 5}
    for settings in (
        {"compression_type": None}, {"compression_type": "gzip"}, {"compression_type": "snappy"},
        {"compression_type": "lz4"}, {"compression_type": "zstd"}, {"acks": 0},
        {"enable_idempotence": True, "acks": "all"},
    ):  # fmt: skip
        producer = KafkaProducer(**(base | plain | settings))
        produced += produce(producer, session.topic)
        producer.close()
    transactional = KafkaProducer(**base, transactional_id=f"tx-{session.topic}", enable_idempotence=True)
    transactional.init_transactions()
    transactional.begin_transaction()
    produced += produce(transactional, session.topic)
    transactional.commit_transaction()
    transactional.close()
    consumed, members = consume(base, session, produced)
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, session.topic)], config_filter="all")
    admin.delete_topics([session.topic])
    admin.close()
    configs = len(described["topic"][session.topic])
    run.report(produced=produced, consumed=consumed, members=members, configs=configs)


def produce(producer: KafkaProducer, topic: str) -> int:
    futures = [producer.send(topic, message.value, message.key, message.headers) for message in run.messages()]
    producer.flush(run.CALL_SECONDS)
    for future in futures:
        future.get(run.CALL_SECONDS)
    return len(futures)


def consume(base: dict[str, Any], session: run.Session, expected: int) -> tuple[int, int]:
    """Return the numbers of consumed records and of members with partitions; the second joins when the first is done.

    Each runs in its own thread because a poll blocks while it waits for the group. Two races in the client (3.0.12) are
    avoided: a member may lose its partitions if a poll times out while they are being assigned (8 of 173 runs that
    polled for 100 ms), and a subscription may be forgotten until the client requests Metadata again
    (tests/peers/suites/kafka_python.py).
    """
    settings = {"group_id": session.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    quick_settings = {"fetch_max_wait_ms": 100, "heartbeat_interval_ms": 300, "metadata_max_age_ms": 1000}
    consumed, assigned_members, end = 0, 0, run.deadline()

    def member(number: int) -> None:
        nonlocal consumed, assigned_members
        consumer = KafkaConsumer(session.topic, **base, **settings, **quick_settings)
        assigned = False
        while assigned_members < 2 and time.monotonic() < end:
            records = sum(map(len, consumer.poll(1000).values()))
            consumed += records
            if records:
                consumer.commit()
            if not assigned and consumer.assignment() and (number or consumed >= expected):
                assigned_members, assigned = assigned_members + 1, True
                if not number:
                    second_member.submit(member, 1)
        consumer.close()

    with ThreadPoolExecutor(1) as second_member:
        member(0)
    return consumed, assigned_members


if __name__ == "__main__":
    main()
