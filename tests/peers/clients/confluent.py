"""confluent-kafka (librdkafka): every codec, acks, transactions; a group of two reads all records; admin."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.peers.clients import session as run


def main() -> None:
    session = run.session()
    base: dict[str, Any] = {"bootstrap.servers": session.bootstrap, "security.protocol": session.protocol}
    if session.mechanism:
        base |= {
            "sasl.mechanism": session.mechanism, "sasl.username": session.user, "sasl.password": session.password,
        }  # fmt: skip
    admin = AdminClient(base)  # its futures complete only while it exists
    admin.create_topics([NewTopic(session.topic, run.PARTITIONS, 1)])[session.topic].result(run.CALL_SECONDS)

    produced = 0
    for settings in (
        {"compression.type": "none"}, {"compression.type": "gzip"}, {"compression.type": "snappy"},
        {"compression.type": "lz4"}, {"compression.type": "zstd"}, {"acks": 0}, {"enable.idempotence": True},
    ):  # fmt: skip
        produced += produce(Producer(base | {"linger.ms": 5} | settings), session.topic)
    transactional = Producer(base | {"transactional.id": f"tx-{session.topic}"})
    transactional.init_transactions(run.CALL_SECONDS)
    transactional.begin_transaction()
    produced += produce(transactional, session.topic)
    transactional.commit_transaction(run.CALL_SECONDS)
    transactional.begin_transaction()
    produce(transactional, session.topic)
    transactional.abort_transaction(run.CALL_SECONDS)
    consumed, members = consume(base, session, produced)
    [configs] = admin.describe_configs([ConfigResource("topic", session.topic)]).values()
    admin.delete_topics([session.topic])[session.topic].result(run.CALL_SECONDS)
    run.report(produced=produced, consumed=consumed, members=members, configs=len(configs.result(run.CALL_SECONDS)))


def produce(producer: Producer, topic: str) -> int:
    errors: list[KafkaError] = []
    sent = run.messages()
    for message in sent:
        producer.produce(
            topic, message.value, message.key, headers=message.headers,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )  # fmt: skip
    pending = producer.flush(run.CALL_SECONDS)
    assert not pending
    assert not errors, errors
    return len(sent)


def consume(base: dict[str, Any], session: run.Session, expected: int) -> tuple[int, int]:
    """Return the numbers of consumed records and of members with partitions; the second joins once the first has some.

    A record that is consumed twice, as may happen in a rebalance, is counted once.
    """
    settings = {"group.id": session.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    members = [Consumer(base | settings | {"fetch.wait.max.ms": 100}) for _ in range(2)]
    members[0].subscribe([session.topic])
    consumed: set[tuple[int | None, int | None]] = set()
    deadline, second_has_joined = run.deadline(), False
    while (
        len(consumed) < expected or not all(consumer.assignment() for consumer in members)
    ) and time.monotonic() < deadline:
        if not second_has_joined and members[0].assignment():
            members[1].subscribe([session.topic])
            second_has_joined = True
        for member in members[: 1 + second_has_joined]:
            batch = member.consume(500, 0.1)
            errors = [message.error() for message in batch if message.error()]
            assert not errors, errors
            consumed.update((message.partition(), message.offset()) for message in batch)
            if batch:
                commit(member)
    sharing = sum(bool(member.assignment()) for member in members)
    for member in members:
        member.close()
    return len(consumed), sharing


def commit(member: Consumer) -> None:
    """Commit, unless a rebalance has just revoked the partitions: their next owner will consume the records again."""
    try:
        member.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS):
            raise


if __name__ == "__main__":
    main()
