"""aiokafka: every codec, acks, a transaction; then two members of a group read it all."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

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
    await admin.close()

    produced = 0
    for settings in (
        {"compression_type": None}, {"compression_type": "gzip"}, {"compression_type": "snappy"},
        {"compression_type": "lz4"}, {"compression_type": "zstd"}, {"acks": 0}, {"enable_idempotence": True},
    ):  # fmt: skip
        async with AIOKafkaProducer(**base, linger_ms=5, **settings) as producer:
            produced += await produce(producer, session.topic)
    async with AIOKafkaProducer(**base, transactional_id=f"tx-{session.topic}") as producer, producer.transaction():
        produced += await produce(producer, session.topic)
    run.report(produced=produced, consumed=await consume(base, session, produced))


async def produce(producer: AIOKafkaProducer, topic: str) -> int:
    futures = [await producer.send(topic, m.value, m.key, headers=m.headers) for m in run.messages()]
    await producer.flush()
    await asyncio.wait_for(asyncio.gather(*futures), 15)
    return len(futures)


async def consume(base: dict[str, Any], session: run.Session, expected: int) -> int:
    settings = {"group_id": session.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    members = [AIOKafkaConsumer(session.topic, **base, **settings, fetch_max_wait_ms=100) for _ in range(2)]
    await asyncio.gather(*(member.start() for member in members))
    consumed = 0
    async with asyncio.timeout(run.DEADLINE_SECONDS):
        while consumed < expected or not all(member.assignment() for member in members):
            for member in members:
                got = sum(map(len, (await member.getmany(timeout_ms=100)).values()))
                consumed += got
                if got:
                    await member.commit()
    await asyncio.gather(*(member.stop() for member in members))
    return consumed


if __name__ == "__main__":
    asyncio.run(main())
