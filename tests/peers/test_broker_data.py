"""The built-in broker answers data requests (Produce, Fetch, ListOffsets, ...) like real Kafka."""

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
NO_LIMIT = str(2**63 - 1)  # the default of message.timestamp.after.max.ms before 4.0

#: Known differences between the built-in broker and Kafka, with the reasons.
KNOWN_DIFFERENCES = {
    "magic 3": "Kafka adds a sentence",
    "length of a record": "Kafka fails with UNKNOWN_SERVER_ERROR at a varint that is too long, we say INVALID_RECORD",
    "the same twice": "Kafka 4 answers a partition that is asked for twice once, we answer each",
}


@pytest.mark.parametrize("release", RELEASES)
async def test_data_responses_match_kafka(release: str, tmp_path: Path) -> None:
    is_kafka_3 = release.startswith("3")
    kafka = Kafka(
        release, tmp_path / "kafka", {}, {"log.message.timestamp.after.max.ms": NO_LIMIT} if is_kafka_3 else {}
    )
    try:
        kafka_responses = await collect_responses(kafka.direct[1], is_kafka_3=is_kafka_3)
    finally:
        kafka.kill()
    configs = {"log.message.timestamp.after.max.ms": NO_LIMIT} if is_kafka_3 else {}
    async with Broker(configs=configs, data=tmp_path / "data") as broker:
        broker_responses = await collect_responses(broker.ports[0], is_kafka_3=is_kafka_3)
    assert list(broker_responses) == list(kafka_responses)
    assert len(broker_responses) > 150
    differences = {
        label: (kafka_responses[label], broker_responses[label])
        for label in kafka_responses
        if not are_equal(kafka_responses[label], broker_responses[label])
    }
    assert {label: responses for label, responses in differences.items() if label not in KNOWN_DIFFERENCES} == {}
    if not is_kafka_3:
        assert_kafka_reads(tmp_path / "data", kafka)


def assert_kafka_reads(data: Path, kafka: Kafka) -> None:
    """Check the log files of the broker with Kafka's own tool."""
    files = [str(path) for path in data.glob("logs/*/*.log")]
    dump = kafka.tool("dump-log", "--deep-iteration", "--files", ",".join(files))
    assert dump.count("Log starting offset:") == len(files)
    assert dump.count("isvalid: true") > 30
    assert "isvalid: false" not in dump


def are_equal(expected: Any, actual: Any) -> bool:
    """Return whether two responses are equal; one may have more batches at the end of its record data."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            have_same_prefix(expected[name], actual[name])
            if name == "records"
            else are_equal(expected[name], actual[name])
            for name in expected
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(are_equal, expected, actual))
    return bool(expected == actual)


def have_same_prefix(expected: Any, actual: Any) -> bool:
    return bool(expected) == bool(actual) and all(
        expected_batch == actual_batch
        for expected_batch, actual_batch in zip(expected or (), actual or (), strict=False)
    )


def records(count: int = 1, at: int = NOW, key: bytes | None = b"k", size: int = 0) -> list[dict[str, Any]]:
    return [{"key": key, "value": b"v%d" % n + b"x" * size, "timestamp": at + n} for n in range(count)]


def batch(count: int = 1, at: int = NOW, key: bytes | None = b"k", size: int = 0, **values: Any) -> bytes:
    return encode([{"records": records(count, at, key, size), **values}])


def idempotent_batch(sequence: int, count: int = 2, epoch: int = 0, producer: int = 4711) -> bytes:
    return batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def replace_bytes(data: bytes, offset: int, replacement: bytes, *, crc: bool = True) -> bytes:
    content = bytearray(data)
    content[offset : offset + len(replacement)] = replacement
    if crc:
        content[17:21] = google_crc32c.value(bytes(content[21:])).to_bytes(4, "big")
    return bytes(content)


async def collect_responses(port: int, *, is_kafka_3: bool) -> dict[str, Any]:
    """Return the responses of a broker that starts without topics, by label."""
    questions = Questions(port)
    await questions.create_topic("t")
    await questions.create_topic("compacted", cleanup_policy="compact")
    await questions.create_topic("appended", message_timestamp_type="LogAppendTime")
    await questions.create_topic("small", max_message_bytes="300")
    await questions.create_topic("gzip", compression_type="gzip")
    await questions.create_topic("recent", message_timestamp_before_max_ms="1000")
    await questions.create_topic("empty")
    await questions.create_topic("tx")
    if is_kafka_3:
        await produce_message_sets(questions)
    await send_produce_requests(questions, is_kafka_3=is_kafka_3)
    await send_fetch_requests(questions, is_kafka_3=is_kafka_3)
    await send_session_requests(questions)
    await send_transaction_requests(questions)
    await send_offset_requests(questions, is_kafka_3=is_kafka_3)
    await questions.hang_up()
    return questions.answers


async def produce_message_sets(questions: Questions) -> None:
    for magic in (0, 1):

        def messages(count: int = 3, magic: int = magic, **values: Any) -> bytes:
            return encode([{"magic": magic, "records": records(count), **values}])

        for codec in ("none", "gzip", "snappy", "lz4"):
            await questions.produce(f"magic {magic} {codec}", messages(compression=codec), version=2)
        invalid = {
            "two wrappers": messages(compression="gzip") * 2,
            "mixed": messages() + encode([{"magic": 1 - magic, "records": records()}]),
            "crc": replace_bytes(messages(), 12, bytes(4), crc=False),
            "cut": messages()[:-5],
            "nothing": b"",
            "future": encode([{"magic": magic, "records": records(at=NOW + 10**10)}]),
        }
        for label, data in invalid.items():
            await questions.produce(f"magic {magic} {label}", data, version=2)
        await questions.produce(
            f"magic {magic} keyless",
            encode([{"magic": magic, "records": records(2, key=None)}]),
            "compacted",
            version=1,
        )
        await questions.produce(f"magic {magic} append time", messages(2), "appended", version=2)
        await questions.produce(f"magic {magic} to gzip", messages(2), "gzip", version=1)
    for version in range(3):
        await questions.produce(f"format 2 in v{version}", batch(2), version=version)
        await questions.produce(f"two of format 2 in v{version}", batch(2) * 2, version=version)


async def send_produce_requests(questions: Questions, *, is_kafka_3: bool) -> None:
    for version in range(3, 12 if is_kafka_3 else 14):
        await questions.produce(f"produce v{version}", batch(2), version=version)
    for acks in (1, 2, -2):
        await questions.produce(f"acks {acks}", batch(), acks=acks)
    await questions.produce("unknown topic", batch(), "nope")
    await questions.produce("unknown partition", batch(), partition=5)
    await questions.produce("negative partition", batch(), partition=-1)
    single_batch = batch()
    invalid = {
        "two batches": single_batch + single_batch,
        "nothing": b"",
        "garbage behind": single_batch + b"\0\1\2",
        "zeros behind": single_batch + bytes(20),
        "cut off": single_batch[:-3],
        "short header": single_batch[:30],
        "magic 1": encode([{"magic": 1, "records": records()}]),
        "magic 3": replace_bytes(single_batch, 16, b"\3", crc=False),
        "crc": replace_bytes(single_batch, 17, b"\0\0\0\1", crc=False),
        "base offset 5": replace_bytes(single_batch, 0, (5).to_bytes(8, "big"), crc=False),
        "count 0": replace_bytes(single_batch, 57, bytes(4)),
        "count 2": replace_bytes(single_batch, 57, b"\0\0\0\2"),
        "last delta 7": replace_bytes(single_batch, 23, b"\0\0\0\7"),
        "two said, one there": replace_bytes(replace_bytes(single_batch, 57, b"\0\0\0\2"), 23, b"\0\0\0\1"),
        "one said, two there": replace_bytes(replace_bytes(batch(2), 57, b"\0\0\0\1"), 23, b"\0\0\0\0"),
        "control": batch(is_control=True),
        "producer without sequence": batch(producer_id=7, producer_epoch=0),
        "greatest timestamp": batch(2, max_timestamp=NOW + 500),
        "length of a record": replace_bytes(single_batch, 61, b"\xff" * 5),
        "codec 5": replace_bytes(single_batch, 21, b"\0\5"),
        "not gzip": replace_bytes(single_batch, 21, b"\0\1"),
        "says append time": replace_bytes(single_batch, 21, b"\0\x08"),
        "future": batch(at=NOW + 10**8),  # more than an hour ahead of the current time
        "no timestamp": batch(at=-1),
        "negative timestamp": batch(at=-5),
        "long ago": batch(at=5),
    }
    for label, data in invalid.items():
        await questions.produce(label, data)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        await questions.produce(codec, batch(5, compression=codec))
    await questions.produce("zstd v6", batch(compression="zstd"), version=6)
    await questions.produce("without keys", encode([{"records": records() + records(2, key=None)}]), "compacted")
    await questions.produce(
        "without keys, v7", encode([{"records": records() + records(2, key=None)}]), "compacted", version=7
    )
    await questions.produce(
        "keyless and late", encode([{"records": records(1, key=None) + records(1, at=NOW + 10**8)}]), "compacted"
    )
    await questions.produce("append time", batch(3), "appended")
    await questions.produce("append time, gzip", batch(3, compression="gzip"), "appended")
    await questions.produce("append time said", replace_bytes(single_batch, 21, b"\0\x08"), "appended")
    await questions.produce("too large", batch(size=300), "small")
    await questions.produce("small enough", batch(size=10), "small")
    await questions.produce("none to gzip", batch(3), "gzip")
    await questions.produce("lz4 to gzip", batch(3, compression="lz4"), "gzip")
    await questions.produce("too old", batch(at=NOW - 10**7), "recent")
    for number, (sequence, epoch, producer) in enumerate(
        [(0, 0, 1), (2, 0, 1), (0, 0, 1), (2, 0, 1), (7, 0, 1), (3, 0, 1)]
        + [(sequence, 0, 1) for sequence in range(4, 18, 2)]
        + [(0, 0, 1), (5, 1, 1), (0, 1, 1), (18, 0, 1), (9, 0, 2), (2**31 - 2, 0, 3), (0, 0, 3)]
    ):
        label = f"idempotent {number}: sequence {sequence}, epoch {epoch}, producer {producer}"
        await questions.produce(label, idempotent_batch(sequence, epoch=epoch, producer=producer))
    await questions.produce("appended once", idempotent_batch(0, producer=5), "appended")
    await questions.produce("appended twice", idempotent_batch(0, producer=5), "appended")


async def send_fetch_requests(questions: Questions, *, is_kafka_3: bool) -> None:
    for version in range(0 if is_kafka_3 else 4, 18 if is_kafka_3 else 19):
        await questions.fetch(f"fetch v{version}", version=version, partition_max_bytes=4000)
    for topic in ("compacted", "appended", "small", "gzip", "recent"):
        await questions.fetch(f"fetch {topic}", topic=topic)
    for offset in (1, 5, 20, -1, 10**6):
        await questions.fetch(f"fetch at {offset}", offset)
    await questions.fetch("one byte of the partition", 3, partition_max_bytes=1)
    await questions.fetch("no byte of the partition", 3, partition_max_bytes=0)
    await questions.fetch("one byte", 3, max_bytes=1)
    await questions.fetch("no byte", 3, max_bytes=0)
    await questions.fetch("fetch unknown topic", topic="nope")
    await questions.fetch("fetch unknown id", topic="nope", version=13)
    await questions.fetch("fetch unknown partition", partition=9)
    await questions.fetch("fetch epoch 9", current_leader_epoch=9)
    await questions.fetch("fetch epoch 0", 40, current_leader_epoch=0)
    await questions.fetch("a broker fetches", replica_id=5)
    await questions.fetch("a debugger fetches", replica_id=-2)
    await questions.fetch("fetch committed", 40, isolation_level=1)
    await questions.fetch("fetch nothing", topics=[])


async def send_session_requests(questions: Questions) -> None:
    def topic_entry(topic: str, offset: int) -> dict[str, Any]:
        partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100_000}]
        return {"topic": topic, "topic_id": "$" + topic, "partitions": partitions}

    base = {"max_wait_ms": 30, "min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1}
    for version in (7, 12, 13, 16):
        names = ("small", "gzip", "recent")
        body = base | {"session_id": 0, "session_epoch": 0, "topics": [topic_entry(name, 0) for name in names]}
        session = (await questions(f"session v{version}", "Fetch", version, body))["session_id"]

        async def continue_session(
            label: str,
            epoch: int,
            *topics: Any,
            id_: int = session,
            version: int = version,
            first_version: int = version,
            **values: Any,
        ) -> None:
            body = base | {"session_id": id_, "session_epoch": epoch, "topics": list(topics)} | values
            await questions(f"{label}, session of v{first_version}", "Fetch", version, body)

        await continue_session("other offset", 1, topic_entry("small", 1))
        await continue_session("again", 1)
        await continue_session("at the end", 2, topic_entry("gzip", 6))
        await continue_session("nothing new", 3)
        await questions.produce(f"something new, v{version}", batch(size=10), "small")
        await continue_session("new records", 4)
        await continue_session(
            "forgets", 5, forgotten_topics_data=[{"topic": "small", "topic_id": "$small", "partitions": [0]}]
        )
        await continue_session("unknown", 5, id_=session ^ 1)
        await continue_session("names or ids", 6, version=13 if version < 13 else 12)
        await continue_session("ends", -1, topic_entry("small", 0))
        await continue_session("is gone", 6)


async def send_transaction_requests(questions: Questions) -> None:
    """Use two producers concurrently on one partition; one commits and the other aborts, repeatedly."""
    end = 0
    producers = [await questions.transactional_producer(name) for name in ("one", "two")]
    for turn in range(2):
        for name, producer in zip(("one", "two"), producers, strict=True):
            producer_fields = {"producer_id": producer["producer_id"], "producer_epoch": producer["producer_epoch"]}
            await questions.add_to_transaction(f"{name} adds, {turn}", producer, name, "tx")
            data = [{"index": 0, "records": batch(2, base_sequence=2 * turn, is_transactional=True, **producer_fields)}]
            topics = [{"name": "tx", "partition_data": data}]
            body = {"transactional_id": name, "acks": -1, "timeout_ms": 1000, "topic_data": topics}
            await questions(f"{name} writes, {turn}", "Produce", 9, body)
        end += 4
        await questions.fetch(f"committed so far, {turn}", topic="tx", isolation_level=1)
        await questions.list_offsets(f"stable so far, {turn}", -1, "tx", isolation_level=1)
        for name, producer in zip(("two", "one"), reversed(producers), strict=True):
            body = {"transactional_id": name, "committed": name == "one", "producer_epoch": 0}
            await questions(f"{name} ends, {turn}", "EndTxn", 3, body | {"producer_id": producer["producer_id"]})
            end += 1  # wait for each marker, as a busy coordinator may write the second producer's marker first
            await questions.wait_for_end("tx", end, isolation_level=int(name == "one"))
        for offset in range(end):
            await questions.fetch(f"committed from {offset}, {turn}", offset, "tx", isolation_level=1)
    await questions.produce("neither open nor verified", batch(producer_id=99, producer_epoch=0, base_sequence=0), "tx")


async def send_offset_requests(questions: Questions, *, is_kafka_3: bool) -> None:
    for version in range(0 if is_kafka_3 else 1, 10 if is_kafka_3 else 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, NOW, NOW + 1, NOW + 10**10):
            await questions.list_offsets(f"offsets v{version} at {timestamp}", timestamp, version=version)
    await questions.list_offsets("nothing is the latest", -3, "empty")
    await questions.list_offsets("nothing since ever", 0, "empty")
    await questions.list_offsets("offsets of no topic", -1, "nope")
    await questions.list_offsets("offsets of no partition", -1, partition_index=3)
    await questions.list_offsets("offsets in epoch 5", -1, current_leader_epoch=5)
    duplicates = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    await questions(
        "the same twice", "ListOffsets", 5, {"replica_id": -1, "topics": [{"name": "t", "partitions": duplicates}]}
    )
    for epoch, current in ((0, -1), (-1, -1), (1, -1), (0, 8)):
        partitions = [{"partition": index, "current_leader_epoch": current, "leader_epoch": epoch} for index in (0, 4)]
        topics = [{"topic": name, "partitions": partitions} for name in ("t", "nope")]
        await questions(f"epoch {epoch} in {current}", "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": topics})
    for number, (topic, offset) in enumerate(
        [("t", 3), ("t", 3), ("t", 2), ("t", -2), ("t", 10**6), ("compacted", 0), ("nope", 0), ("gzip", -1)]
    ):
        topics_to_delete = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
        await questions(f"delete {number}", "DeleteRecords", 2, {"timeout_ms": 1000, "topics": topics_to_delete})
    await questions.fetch("before the start", 0)
    await questions.fetch("at the start", 3, partition_max_bytes=200)
    await questions.list_offsets("the start", -2, version=5)
    await questions.list_offsets("the start of nothing", -2, "gzip", version=5)
