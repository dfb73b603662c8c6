"""The built-in broker answers what is about data (Produce, Fetch, ListOffsets, ...) as real Kafka does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from dissectors.records import encode
from kproxy.broker import Broker
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.questions import Questions

pytestmark = [pytest.mark.peers, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

NOW = int(time.time() * 1000)
NO_LIMIT = str(2**63 - 1)  # what message.timestamp.after.max.ms was before 4.0

#: Where the broker knowingly answers otherwise, and why.
KNOWN = {
    "magic 3": "Kafka adds a sentence",
    "length of a record": "Kafka fails with UNKNOWN_SERVER_ERROR at a varint that is too long, we say INVALID_RECORD",
    "the same twice": "Kafka 4 answers a partition that is asked for twice once, we answer each",
}


@pytest.mark.parametrize("release", RELEASES)
async def test_answers_like_kafka(release: str, tmp_path: Path) -> None:
    old = release.startswith("3")
    kafka = Kafka(release, tmp_path / "kafka", {}, {"log.message.timestamp.after.max.ms": NO_LIMIT} if old else {})
    try:
        real = await asked(kafka.direct[1], old=old)
    finally:
        kafka.kill()
    configs = {"log.message.timestamp.after.max.ms": NO_LIMIT} if old else {}
    async with Broker(configs=configs, data=tmp_path / "data") as broker:
        ours = await asked(broker.ports[0], old=old)
    assert list(ours) == list(real)
    assert len(ours) > 150
    differ = {label: (real[label], ours[label]) for label in real if not same(real[label], ours[label])}
    assert {label: answers for label, answers in differ.items() if label not in KNOWN} == {}
    if not old:
        assert_kafka_reads(tmp_path / "data", kafka)


def assert_kafka_reads(data: Path, kafka: Kafka) -> None:
    """Kafka's own tool finds nothing wrong with what the broker keeps on the disk."""
    files = [str(path) for path in data.glob("logs/*/*.log")]
    dumped = kafka.tool("dump-log", "--deep-iteration", "--files", ",".join(files))
    assert dumped.count("Log starting offset:") == len(files)
    assert dumped.count("isvalid: true") > 30
    assert "isvalid: false" not in dumped


def same(real: Any, ours: Any) -> bool:
    """Whether two answers agree; of record data the one may have more whole batches at its end."""
    if isinstance(real, dict) and isinstance(ours, dict):
        return real.keys() == ours.keys() and all(
            prefix(real[name], ours[name]) if name == "records" else same(real[name], ours[name]) for name in real
        )
    if isinstance(real, list) and isinstance(ours, list):
        return len(real) == len(ours) and all(map(same, real, ours))
    return bool(real == ours)


def prefix(real: Any, ours: Any) -> bool:
    return bool(real) == bool(ours) and all(one == other for one, other in zip(real or (), ours or (), strict=False))


def records(count: int = 1, at: int = NOW, key: bytes | None = b"k", size: int = 0) -> list[dict[str, Any]]:
    return [{"key": key, "value": b"v%d" % n + b"x" * size, "timestamp": at + n} for n in range(count)]


def batch(count: int = 1, at: int = NOW, key: bytes | None = b"k", size: int = 0, **values: Any) -> bytes:
    return encode([{"records": records(count, at, key, size), **values}])


def idempotent(sequence: int, count: int = 2, epoch: int = 0, producer: int = 4711) -> bytes:
    return batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def changed(data: bytes, at: int, new: bytes, *, crc: bool = True) -> bytes:
    out = bytearray(data)
    out[at : at + len(new)] = new
    if crc:
        out[17:21] = google_crc32c.value(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)


async def asked(port: int, *, old: bool) -> dict[str, Any]:
    """The answers of a broker without topics."""
    ask = Questions(port)
    await ask.topic("t")
    await ask.topic("compacted", cleanup_policy="compact")
    await ask.topic("appended", message_timestamp_type="LogAppendTime")
    await ask.topic("small", max_message_bytes="300")
    await ask.topic("gzip", compression_type="gzip")
    await ask.topic("recent", message_timestamp_before_max_ms="1000")
    await ask.topic("empty")
    await ask.topic("tx")
    if old:
        await produce_message_sets(ask)
    await produce(ask, old=old)
    await fetch(ask, old=old)
    await sessions(ask)
    await transactions(ask)
    await offsets(ask, old=old)
    await ask.hang_up()
    return ask.answers


async def produce_message_sets(ask: Questions) -> None:
    for magic in (0, 1):

        def messages(count: int = 3, magic: int = magic, **values: Any) -> bytes:
            return encode([{"magic": magic, "records": records(count), **values}])

        for codec in ("none", "gzip", "snappy", "lz4"):
            await ask.produce(f"magic {magic} {codec}", messages(compression=codec), version=2)
        broken = {
            "two wrappers": messages(compression="gzip") * 2,
            "mixed": messages() + encode([{"magic": 1 - magic, "records": records()}]),
            "crc": changed(messages(), 12, bytes(4), crc=False),
            "cut": messages()[:-5],
            "nothing": b"",
            "future": encode([{"magic": magic, "records": records(at=NOW + 10**10)}]),
        }
        for label, data in broken.items():
            await ask.produce(f"magic {magic} {label}", data, version=2)
        await ask.produce(
            f"magic {magic} keyless",
            encode([{"magic": magic, "records": records(2, key=None)}]),
            "compacted",
            version=1,
        )
        await ask.produce(f"magic {magic} append time", messages(2), "appended", version=2)
        await ask.produce(f"magic {magic} to gzip", messages(2), "gzip", version=1)
    for version in range(3):
        await ask.produce(f"format 2 in v{version}", batch(2), version=version)
        await ask.produce(f"two of format 2 in v{version}", batch(2) * 2, version=version)


async def produce(ask: Questions, *, old: bool) -> None:
    for version in range(3, 12 if old else 14):
        await ask.produce(f"produce v{version}", batch(2), version=version)
    for acks in (1, 2, -2):
        await ask.produce(f"acks {acks}", batch(), acks=acks)
    await ask.produce("unknown topic", batch(), "nope")
    await ask.produce("unknown partition", batch(), partition=5)
    await ask.produce("negative partition", batch(), partition=-1)
    one = batch()
    broken = {
        "two batches": one + one,
        "nothing": b"",
        "garbage behind": one + b"\0\1\2",
        "zeros behind": one + bytes(20),
        "cut off": one[:-3],
        "short header": one[:30],
        "magic 1": encode([{"magic": 1, "records": records()}]),
        "magic 3": changed(one, 16, b"\3", crc=False),
        "crc": changed(one, 17, b"\0\0\0\1", crc=False),
        "base offset 5": changed(one, 0, (5).to_bytes(8, "big"), crc=False),
        "count 0": changed(one, 57, bytes(4)),
        "count 2": changed(one, 57, b"\0\0\0\2"),
        "last delta 7": changed(one, 23, b"\0\0\0\7"),
        "two said, one there": changed(changed(one, 57, b"\0\0\0\2"), 23, b"\0\0\0\1"),
        "one said, two there": changed(changed(batch(2), 57, b"\0\0\0\1"), 23, b"\0\0\0\0"),
        "control": batch(is_control=True),
        "producer without sequence": batch(producer_id=7, producer_epoch=0),
        "greatest timestamp": batch(2, max_timestamp=NOW + 500),
        "length of a record": changed(one, 61, b"\xff" * 5),
        "codec 5": changed(one, 21, b"\0\5"),
        "not gzip": changed(one, 21, b"\0\1"),
        "says append time": changed(one, 21, b"\0\x08"),
        "future": batch(at=NOW + 10**8),  # more than an hour ahead, however long ago NOW was
        "no timestamp": batch(at=-1),
        "negative timestamp": batch(at=-5),
        "long ago": batch(at=5),
    }
    for label, data in broken.items():
        await ask.produce(label, data)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        await ask.produce(codec, batch(5, compression=codec))
    await ask.produce("zstd v6", batch(compression="zstd"), version=6)
    await ask.produce("without keys", encode([{"records": records() + records(2, key=None)}]), "compacted")
    await ask.produce(
        "without keys, v7", encode([{"records": records() + records(2, key=None)}]), "compacted", version=7
    )
    await ask.produce(
        "keyless and late", encode([{"records": records(1, key=None) + records(1, at=NOW + 10**8)}]), "compacted"
    )
    await ask.produce("append time", batch(3), "appended")
    await ask.produce("append time, gzip", batch(3, compression="gzip"), "appended")
    await ask.produce("append time said", changed(one, 21, b"\0\x08"), "appended")
    await ask.produce("too large", batch(size=300), "small")
    await ask.produce("small enough", batch(size=10), "small")
    await ask.produce("none to gzip", batch(3), "gzip")
    await ask.produce("lz4 to gzip", batch(3, compression="lz4"), "gzip")
    await ask.produce("too old", batch(at=NOW - 10**7), "recent")
    for number, (sequence, epoch, producer) in enumerate(
        [(0, 0, 1), (2, 0, 1), (0, 0, 1), (2, 0, 1), (7, 0, 1), (3, 0, 1)]
        + [(sequence, 0, 1) for sequence in range(4, 18, 2)]
        + [(0, 0, 1), (5, 1, 1), (0, 1, 1), (18, 0, 1), (9, 0, 2), (2**31 - 2, 0, 3), (0, 0, 3)]
    ):
        label = f"idempotent {number}: sequence {sequence}, epoch {epoch}, producer {producer}"
        await ask.produce(label, idempotent(sequence, epoch=epoch, producer=producer))
    await ask.produce("appended once", idempotent(0, producer=5), "appended")
    await ask.produce("appended twice", idempotent(0, producer=5), "appended")


async def fetch(ask: Questions, *, old: bool) -> None:
    for version in range(0 if old else 4, 18 if old else 19):
        await ask.fetch(f"fetch v{version}", version=version, partition_max_bytes=4000)
    for topic in ("compacted", "appended", "small", "gzip", "recent"):
        await ask.fetch(f"fetch {topic}", topic=topic)
    for offset in (1, 5, 20, -1, 10**6):
        await ask.fetch(f"fetch at {offset}", offset)
    await ask.fetch("one byte of the partition", 3, partition_max_bytes=1)
    await ask.fetch("no byte of the partition", 3, partition_max_bytes=0)
    await ask.fetch("one byte", 3, max_bytes=1)
    await ask.fetch("no byte", 3, max_bytes=0)
    await ask.fetch("fetch unknown topic", topic="nope")
    await ask.fetch("fetch unknown id", topic="nope", version=13)
    await ask.fetch("fetch unknown partition", partition=9)
    await ask.fetch("fetch epoch 9", current_leader_epoch=9)
    await ask.fetch("fetch epoch 0", 40, current_leader_epoch=0)
    await ask.fetch("a broker fetches", replica_id=5)
    await ask.fetch("a debugger fetches", replica_id=-2)
    await ask.fetch("fetch committed", 40, isolation_level=1)
    await ask.fetch("fetch nothing", topics=[])


async def sessions(ask: Questions) -> None:
    def of(topic: str, offset: int) -> dict[str, Any]:
        wanted = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100_000}]
        return {"topic": topic, "topic_id": "$" + topic, "partitions": wanted}

    base = {"max_wait_ms": 30, "min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1}
    for version in (7, 12, 13, 16):
        names = ("small", "gzip", "recent")
        body = base | {"session_id": 0, "session_epoch": 0, "topics": [of(name, 0) for name in names]}
        session = (await ask(f"session v{version}", "Fetch", version, body))["session_id"]

        async def go_on(
            label: str,
            epoch: int,
            *topics: Any,
            id_: int = session,
            version: int = version,
            began: int = version,
            **values: Any,
        ) -> None:
            body = base | {"session_id": id_, "session_epoch": epoch, "topics": list(topics)} | values
            await ask(f"{label}, session of v{began}", "Fetch", version, body)

        await go_on("other offset", 1, of("small", 1))
        await go_on("again", 1)
        await go_on("at the end", 2, of("gzip", 6))
        await go_on("nothing new", 3)
        await ask.produce(f"something new, v{version}", batch(size=10), "small")
        await go_on("it is told", 4)
        await go_on("forgets", 5, forgotten_topics_data=[{"topic": "small", "topic_id": "$small", "partitions": [0]}])
        await go_on("unknown", 5, id_=session ^ 1)
        await go_on("names or ids", 6, version=13 if version < 13 else 12)
        await go_on("ends", -1, of("small", 0))
        await go_on("is gone", 6)


async def transactions(ask: Questions) -> None:
    """Two producers at a time on one partition: one commits, one aborts, again and again."""
    end = 0
    producers = [await ask.transactional_producer(name) for name in ("one", "two")]
    for turn in range(2):
        for name, producer in zip(("one", "two"), producers, strict=True):
            who = {"producer_id": producer["producer_id"], "producer_epoch": producer["producer_epoch"]}
            await ask.add_to_transaction(f"{name} adds, {turn}", producer, name, "tx")
            data = [{"index": 0, "records": batch(2, base_sequence=2 * turn, is_transactional=True, **who)}]
            topics = [{"name": "tx", "partition_data": data}]
            body = {"transactional_id": name, "acks": -1, "timeout_ms": 1000, "topic_data": topics}
            await ask(f"{name} writes, {turn}", "Produce", 9, body)
        end += 4
        await ask.fetch(f"committed so far, {turn}", topic="tx", isolation_level=1)
        await ask.offsets(f"stable so far, {turn}", -1, "tx", isolation_level=1)
        for name, producer in zip(("two", "one"), reversed(producers), strict=True):
            body = {"transactional_id": name, "committed": name == "one", "producer_epoch": 0}
            await ask(f"{name} ends, {turn}", "EndTxn", 3, body | {"producer_id": producer["producer_id"]})
            end += 1  # a coordinator that is busy may write the marker of the second first
            await ask.until_end("tx", end, isolation_level=int(name == "one"))
        for offset in range(end):
            await ask.fetch(f"committed from {offset}, {turn}", offset, "tx", isolation_level=1)
    await ask.produce("neither open nor verified", batch(producer_id=99, producer_epoch=0, base_sequence=0), "tx")


async def offsets(ask: Questions, *, old: bool) -> None:
    for version in range(0 if old else 1, 10 if old else 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, NOW, NOW + 1, NOW + 10**10):
            await ask.offsets(f"offsets v{version} at {timestamp}", timestamp, version=version)
    await ask.offsets("nothing is the latest", -3, "empty")
    await ask.offsets("nothing since ever", 0, "empty")
    await ask.offsets("offsets of no topic", -1, "nope")
    await ask.offsets("offsets of no partition", -1, partition_index=3)
    await ask.offsets("offsets in epoch 5", -1, current_leader_epoch=5)
    twice = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    await ask("the same twice", "ListOffsets", 5, {"replica_id": -1, "topics": [{"name": "t", "partitions": twice}]})
    for epoch, current in ((0, -1), (-1, -1), (1, -1), (0, 8)):
        wanted = [{"partition": index, "current_leader_epoch": current, "leader_epoch": epoch} for index in (0, 4)]
        topics = [{"topic": name, "partitions": wanted} for name in ("t", "nope")]
        await ask(f"epoch {epoch} in {current}", "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": topics})
    for number, (topic, offset) in enumerate(
        [("t", 3), ("t", 3), ("t", 2), ("t", -2), ("t", 10**6), ("compacted", 0), ("nope", 0), ("gzip", -1)]
    ):
        deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
        await ask(f"delete {number}", "DeleteRecords", 2, {"timeout_ms": 1000, "topics": deleted})
    await ask.fetch("before the start", 0)
    await ask.fetch("at the start", 3, partition_max_bytes=200)
    await ask.offsets("the start", -2, version=5)
    await ask.offsets("the start of nothing", -2, "gzip", version=5)
