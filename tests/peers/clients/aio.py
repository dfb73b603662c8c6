"""aiokafka: every codec, acks, a transaction; a group that grows to two members reads all records; admin."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import CommitFailedError

from tests.peers.clients import session as run


async def main() -> None:
    session = run.session()
    base: dict[str, Any] = {"bootstrap_servers": session.bootstrap, "security_protocol": session.protocol}
    if session.mechanism:
        base |= {
            "sasl_mechanism": session.mechanism,
            "sasl_plain_username": session.user,
            "sasl_plain_password": session.password,
        }
    admin = AIOKafkaAdminClient(**base)
    await admin.start()
    await admin.create_topics([NewTopic(session.topic, run.PARTITIONS, 1)])

    produced = 0
    for settings in (
        {"compression_type": None}, {"compression_type": "gzip"}, {"compression_type": "snappy"},
        {"compression_type": "lz4"}, {"compression_type": "zstd"}, {"acks": 0}, {"enable_idempotence": True},
    ):  # fmt: skip
        async with AIOKafkaProducer(**base, linger_ms=5, **settings) as producer:
            produced += await produce(producer, session.topic)
    async with AIOKafkaProducer(**base, transactional_id=f"tx-{session.topic}") as producer, producer.transaction():
        produced += await produce(producer, session.topic)
    consumed, members = await consume(base, session, produced)
    [described] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, session.topic)])
    await admin.delete_topics([session.topic])
    await admin.close()
    run.report(produced=produced, consumed=consumed, members=members, configs=len(described.resources[0][4]))


async def produce(producer: AIOKafkaProducer, topic: str) -> int:
    futures = [
        await producer.send(topic, message.value, message.key, headers=message.headers) for message in run.messages()
    ]
    await producer.flush()
    await asyncio.wait_for(asyncio.gather(*futures), run.CALL_SECONDS)
    return len(futures)


async def consume(base: dict[str, Any], session: run.Session, expected: int) -> tuple[int, int]:
    """Return the numbers of consumed records and of members with partitions; the second joins once the first has some.

    A record that is consumed twice, as may happen in a rebalance, is counted once.
    """
    settings = {"group_id": session.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    members = [AIOKafkaConsumer(session.topic, **base, **settings, fetch_max_wait_ms=100) for _ in range(2)]
    consumed: set[tuple[int, int]] = set()
    async with asyncio.timeout(run.DEADLINE_SECONDS), asyncio.TaskGroup() as joining:
        await members[0].start()
        joining.create_task(members[1].start())  # completes while the first one keeps polling
        while len(consumed) < expected or not all(member.assignment() for member in members):
            for member in members:
                messages = await member.getmany(timeout_ms=100) if member.assignment() else {}
                consumed.update(
                    (record.partition, record.offset) for records in messages.values() for record in records
                )
                if messages:
                    with contextlib.suppress(CommitFailedError):  # a rebalance has just revoked the partitions
                        await member.commit()
            await asyncio.sleep(0.01)
    sharing = sum(bool(member.assignment()) for member in members)
    await asyncio.gather(*(member.stop() for member in members))
    return len(consumed), sharing


if __name__ == "__main__":
    asyncio.run(main())
