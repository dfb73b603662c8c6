"""Produce and Fetch: records are read as they were written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from dissectors import records
from dissectors.schemas.codes import ApiKey, Error
from kproxy.probe.check import Check, CheckFailed, CheckSkipped, check, family
from kproxy.probe.scratch import batch, expect, scratch_topic, values_of
from kproxy.probe.target import Target

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LOG = "storage/src/main/java/org/apache/kafka/storage/internals/log/UnifiedLog.java"
_VALIDATOR = "storage/src/main/java/org/apache/kafka/storage/internals/log/LogValidator.java"
_FETCH = "core/src/main/scala/kafka/server/ReplicaManager.scala"
_LAST_VERSION_WITHOUT_ZSTD = 6  # version of Produce
_CLOCK_TOLERANCE_S = 0.05  # seconds by which clocks may disagree


@family
def codec_checks() -> Iterator[Check]:
    """Yield a check for each codec."""
    for codec in _CODECS:
        yield Check(
            f"records/{codec}", f"records in a batch with compression {codec} are fetched as they were produced",
            "Keys, values, null, headers, timestamps and offsets must survive, and the CRC must be right.",
            (_VALIDATOR,), partial(_round_trip, codec), writes=True,
        )  # fmt: skip


async def _round_trip(codec: str, target: Target) -> None:
    if codec == "zstd":
        target.version("Produce", 7)  # KIP-110
    now_ms = time.time_ns() // 1_000_000
    produced_records: list[dict[str, Any]] = [
        {"key": b"key", "value": b"value" * 50, "headers": [{"key": "h", "value": b"\x00\xff"}], "timestamp": now_ms},
        {"key": None, "value": None, "headers": [], "timestamp": now_ms + 1},
        {"key": b"", "value": b"", "headers": [{"key": "", "value": None}], "timestamp": now_ms + 2},
        {"key": "schlüssel".encode(), "value": b"\x00" * 100, "headers": [], "timestamp": now_ms + 3},
    ]
    data = records.encode([{"records": produced_records, "compression": codec, "partition_leader_epoch": -1}])
    async with scratch_topic(target) as topic:
        for base_offset in (0, len(produced_records)):
            produce_result = await topic.produce(data)
            expect(produce_result["error_code"], Error.NONE, f"Produce with {codec}")
            if produce_result["base_offset"] != base_offset:
                raise CheckFailed(
                    f"Produce returns base offset {produce_result['base_offset']} instead of {base_offset}"
                )
        fetch_result = await topic.fetch()
        if fetch_result["high_watermark"] != 2 * len(produced_records):
            raise CheckFailed(
                f"the high watermark is {fetch_result['high_watermark']} instead of {2 * len(produced_records)}"
            )
        batches = records.decode(fetch_result["records"] or b"")
        if not all(entry.get("crc_valid") for entry in batches):
            raise CheckFailed("a fetched batch has a wrong CRC")
        fetched_records = [record for entry in batches for record in entry.get("records", ())]
        if [record["offset"] for record in fetched_records] != list(range(2 * len(produced_records))):
            raise CheckFailed(f"the offsets are {[record['offset'] for record in fetched_records]}")
        for record, expected in zip(fetched_records, produced_records * 2, strict=True):
            for name, value in expected.items():
                if record.get(name, []) != value:
                    raise CheckFailed(f"the {name} at offset {record['offset']} is {record.get(name)!r}, not {value!r}")


@check("records/wrong-crc", _VALIDATOR, writes=True)
async def check_wrong_crc(target: Target) -> None:
    """A batch with a wrong CRC is rejected with CORRUPT_MESSAGE, and not stored.

    Otherwise, damaged records reach consumers, which get stuck at them.
    """
    data = bytearray(batch(b"damaged"))
    data[-3] ^= 0x40
    async with scratch_topic(target) as topic:
        expect((await topic.produce(bytes(data)))["error_code"], Error.CORRUPT_MESSAGE, "Produce of a wrong CRC")
        if (await topic.offset(-1))["offset"]:
            raise CheckFailed("the rejected batch is in the log")


@check("records/wrong-acks", "core/src/main/scala/kafka/server/ReplicaManager.scala", writes=True)
async def check_wrong_acks(target: Target) -> None:
    """Produce with acks other than 0, 1 and -1 returns INVALID_REQUIRED_ACKS.

    A producer that expects it to mean something else loses records.
    """
    async with scratch_topic(target) as topic:
        expect(
            (await topic.produce(batch(b"x"), acks=2))["error_code"], Error.INVALID_REQUIRED_ACKS, "Produce with acks=2"
        )


@check("records/unsupported-compression", "KIP-110", writes=True)
async def check_unsupported_compression(target: Target) -> None:
    """Produce of a zstd batch before version 7 returns UNSUPPORTED_COMPRESSION_TYPE.

    The old version implies that the producer, and consumers of the same release, cannot read zstd.
    """
    target.version("Produce", 7)
    if target.served[ApiKey.PRODUCE][0] > _LAST_VERSION_WITHOUT_ZSTD:
        raise CheckSkipped(f"the broker does not serve Produce v{_LAST_VERSION_WITHOUT_ZSTD}")
    async with scratch_topic(target) as topic:
        produce_result = await topic.produce(batch(b"x" * 100, compression="zstd"), at_most=_LAST_VERSION_WITHOUT_ZSTD)
        expect(
            produce_result["error_code"],
            Error.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce v{_LAST_VERSION_WITHOUT_ZSTD} with zstd",
        )


@check("records/no-acks", "https://kafka.apache.org/protocol#The_Messages_Produce", writes=True)
async def check_no_acks(target: Target) -> None:
    """Produce with acks=0 stores the records and gets no response.

    A response would be mistaken for that of the next request.
    """
    async with scratch_topic(target) as topic:
        version = min(9, target.version("Produce"))
        partition = {"index": 0, "records": batch(b"unacknowledged")}
        values = {"acks": 0, "timeout_ms": 1000, "topic_data": [{"name": topic.name, "partition_data": [partition]}]}
        topic.connection.send(target.frame(topic.connection, "Produce", version, **values))
        await target.request(topic.connection, "ApiVersions", 0)  # fails if it gets the response to Produce
        if values_of((await topic.fetch())["records"]) != [b"unacknowledged"]:
            raise CheckFailed("the record is not stored")


@check("records/unknown-topic", "core/src/main/scala/kafka/server/KafkaApis.scala")
async def check_unknown_topic(target: Target) -> None:
    """Fetch from a topic that does not exist returns UNKNOWN_TOPIC_OR_PARTITION.

    It makes consumers refresh their metadata, and stop reading a deleted topic.
    """
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    async with target.connection() as connection:
        response = await target.request(
            connection, "Fetch", min(11, target.version("Fetch")), max_wait_ms=0, max_bytes=1000,
            topics=[{"topic": target.new_name("missing"), "partitions": [partition]}],
        )  # fmt: skip
        code = response.body["responses"][0]["partitions"][0]["error_code"]
        expect(code, Error.UNKNOWN_TOPIC_OR_PARTITION, "Fetch of an unknown topic")


@check("records/offset-out-of-range", _FETCH, writes=True)
async def check_offset_out_of_range(target: Target) -> None:
    """Fetch from an offset beyond the end returns OFFSET_OUT_OF_RANGE.

    Only this error makes consumers reset their position.
    """
    async with scratch_topic(target) as topic:
        expect((await topic.produce(batch(b"one")))["error_code"], Error.NONE, "Produce")
        expect((await topic.fetch(1000))["error_code"], Error.OFFSET_OUT_OF_RANGE, "Fetch from offset 1000 of 1")


@check("records/max-wait", _FETCH, writes=True)
async def check_max_wait(target: Target) -> None:
    """Fetch at the end of the log waits max_wait_ms, and then returns without records.

    A broker that returns at once makes consumers spin; one that waits longer makes them time out.
    """
    async with scratch_topic(target) as topic:
        started_at = time.monotonic()
        fetch_result = await topic.fetch(max_wait_ms=400)
        elapsed_s = time.monotonic() - started_at
        expect(fetch_result["error_code"], Error.NONE, "Fetch at the end")
        if elapsed_s < 0.4 - _CLOCK_TOLERANCE_S:
            raise CheckFailed(f"Fetch with max_wait_ms=400 returns after {1000 * elapsed_s:.0f} ms without records")


@check("records/min-bytes", _FETCH, writes=True)
async def check_min_bytes(target: Target) -> None:
    """Fetch with min_bytes=0 returns at once, and a waiting Fetch returns when records arrive.

    Clients that only check for records use 0; otherwise, records must not wait until the time has passed.
    """
    async with scratch_topic(target) as topic:
        started_at = time.monotonic()
        await topic.fetch(max_wait_ms=5000, min_bytes=0)
        if time.monotonic() - started_at > 4:
            raise CheckFailed("Fetch with min_bytes=0 waits")
        async with topic.target.connection() as producer_connection:
            producer = type(topic)(topic.target, producer_connection, topic.name)
            async with asyncio.TaskGroup() as group:
                pending_fetch = group.create_task(topic.fetch(max_wait_ms=8000))
                await asyncio.sleep(0.2)
                expect((await producer.produce(batch(b"news")))["error_code"], Error.NONE, "Produce")
        if values_of(pending_fetch.result()["records"]) != [b"news"]:
            raise CheckFailed("a waiting Fetch does not return the records that arrive")


@check("records/max-bytes", "KIP-74", writes=True)
async def check_max_bytes(target: Target) -> None:
    """Fetch returns the first batch even if it is larger than max_bytes.

    Otherwise a consumer never gets past a large record.
    """
    large = b"x" * 5000
    async with scratch_topic(target) as topic:
        expect((await topic.produce(batch(large)))["error_code"], Error.NONE, "Produce")
        fetch_result = await topic.fetch(max_bytes=100)
        expect(fetch_result["error_code"], Error.NONE, "Fetch with max_bytes=100")
        if values_of(fetch_result["records"]) != [large]:
            raise CheckFailed("a batch of 5 kB is not returned with max_bytes=100")


@check("records/list-offsets", "KIP-79", "KIP-734", writes=True)
async def check_list_offsets(target: Target) -> None:
    """ListOffsets returns the earliest and latest offset, and the first offset from a timestamp on.

    Consumers begin there, and tools reset groups to a time.
    """
    async with scratch_topic(target) as topic:
        for number in range(3):
            expect(
                (await topic.produce(_batch_at(1_700_000_000_000 + 1000 * number)))["error_code"], Error.NONE, "Produce"
            )
        for timestamp, offset, description in (
            (-2, 0, "earliest"), (-1, 3, "latest"), (1_700_000_000_500, 1, "a timestamp between two records"),
            (1_800_000_000_000, -1, "a timestamp after the last record"),
        ):  # fmt: skip
            partition = await topic.offset(timestamp)
            expect(partition["error_code"], Error.NONE, f"ListOffsets of {description}")
            if partition["offset"] != offset:
                raise CheckFailed(f"ListOffsets of {description} returns {partition['offset']} instead of {offset}")


def _batch_at(timestamp: int) -> bytes:
    return records.encode([{"records": [{"key": None, "value": b"v", "timestamp": timestamp}]}])
