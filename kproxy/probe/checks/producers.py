"""Idempotent and transactional producers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dissectors.schemas.codes import Error
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckFailed, check
from kproxy.probe.scratch import (
    ScratchTopic,
    batch,
    expect,
    find_coordinator,
    scratch_topic,
    send_when_ready,
    values_of,
)
from kproxy.probe.target import Target

_COORDINATOR = "core/src/main/scala/kafka/coordinator/transaction/TransactionCoordinator.scala"
_STATE = "storage/src/main/java/org/apache/kafka/storage/internals/log/ProducerStateManager.java"
_RETRIES, _POLL_S = 50, 0.1


@asynccontextmanager
async def _idempotent_producer(target: Target) -> AsyncIterator[tuple[ScratchTopic, dict[str, int]]]:
    """Create a topic, and yield it with a producer id and its epoch."""
    version = min(4, target.version("InitProducerId"))
    async with scratch_topic(target) as topic:
        response = await send_when_ready(target, topic.connection, "InitProducerId", version, transactional_id=None,
                                         transaction_timeout_ms=60_000)  # fmt: skip
        expect(response.body["error_code"], Error.NONE, "InitProducerId")
        yield topic, {"producer_id": response.body["producer_id"], "producer_epoch": response.body["producer_epoch"]}


@check("producers/duplicate", "KIP-98", _STATE, writes=True)
async def check_duplicate_batch(target: Target) -> None:
    """A batch that an idempotent producer repeats is stored once, and returns the first offset again.

    Producers repeat batches whose responses were lost.
    """
    async with _idempotent_producer(target) as (topic, producer):
        data = batch(b"once", base_sequence=0, **producer)
        for _ in range(2):
            produce_result = await topic.produce(data)
            expect(produce_result["error_code"], Error.NONE, "Produce")
            if produce_result["base_offset"] not in (0, -1):
                raise CheckFailed(f"the repeated batch returns base offset {produce_result['base_offset']}")
        if values_of((await topic.fetch())["records"]) != [b"once"]:
            raise CheckFailed("the repeated batch is stored twice")


@check("producers/out-of-order", "KIP-98", _STATE, writes=True)
async def check_out_of_order_sequence(target: Target) -> None:
    """A batch after a gap in the sequence numbers returns OUT_OF_ORDER_SEQUENCE_NUMBER.

    The batch before it may have been lost. Without the error, records would be missing or out of order.
    """
    async with _idempotent_producer(target) as (topic, producer):
        expect((await topic.produce(batch(b"0", base_sequence=0, **producer)))["error_code"], Error.NONE, "Produce")
        code = (await topic.produce(batch(b"5", base_sequence=5, **producer)))["error_code"]
        expect(code, Error.OUT_OF_ORDER_SEQUENCE_NUMBER, "Produce of sequence number 5 after 0")


@check("producers/old-epoch", "KIP-98", _STATE, writes=True)
async def check_old_epoch(target: Target) -> None:
    """A batch with an older epoch than the last one is fenced.

    A producer that was replaced must not write after its successor.
    """
    async with _idempotent_producer(target) as (topic, producer):
        newer_producer = {**producer, "producer_epoch": producer["producer_epoch"] + 1}
        expect(
            (await topic.produce(batch(b"new", base_sequence=0, **newer_producer)))["error_code"], Error.NONE, "Produce"
        )
        code = (await topic.produce(batch(b"old", base_sequence=0, **producer)))["error_code"]
        expect(code, Error.INVALID_PRODUCER_EPOCH, "Produce with an older epoch")


@check("producers/fenced", "KIP-98", "KIP-588", _COORDINATOR, writes=True)
async def check_fenced_producer(target: Target) -> None:
    """The second producer with a transactional id gets a new epoch, and the first one PRODUCER_FENCED.

    An application that seemed dead and was replaced stops because of this error. Otherwise, both write.
    """
    transactional_id = target.new_name("transaction")
    coordinator = await find_coordinator(target, transactional_id, transactions=True)
    async with scratch_topic(target) as topic, coordinator.connection() as connection:
        first, second = [
            await _init_transactional_producer(coordinator, connection, transactional_id) for _ in range(2)
        ]
        if (first["producer_id"], first["producer_epoch"]) >= (second["producer_id"], second["producer_epoch"]):
            raise CheckFailed(f"the first producer is {first}, and the second one {second}")
        coordinator.version("AddPartitionsToTxn", 2)  # earlier versions return INVALID_PRODUCER_EPOCH
        code = await _add_partition(coordinator, connection, transactional_id, first, topic.name)
        expect(code, Error.PRODUCER_FENCED, "AddPartitionsToTxn of the first producer")


@check("producers/transaction-timeout", "transaction.max.timeout.ms", _COORDINATOR, writes=True)
async def check_transaction_timeout(target: Target) -> None:
    """InitProducerId with a transaction timeout of 24 days returns INVALID_TRANSACTION_TIMEOUT.

    An open transaction blocks consumers with read_committed for that long.
    """
    transactional_id = target.new_name("transaction")
    coordinator = await find_coordinator(target, transactional_id, transactions=True)
    async with coordinator.connection() as connection:
        response = await send_when_ready(coordinator, connection, "InitProducerId",
                                         min(3, coordinator.version("InitProducerId")),
                                         transactional_id=transactional_id,
                                         transaction_timeout_ms=(1 << 31) - 1)  # fmt: skip
        expect(response.body["error_code"], Error.INVALID_TRANSACTION_TIMEOUT, "InitProducerId with a long timeout")


@check("producers/transactions", "KIP-98", _COORDINATOR, writes=True)
async def check_transactions(target: Target) -> None:
    """A read_committed Fetch has the records of committed transactions, and lists aborted ones.

    The response also has the aborted records, which consumers skip with the help of that list.
    """
    transactional_id = target.new_name("transaction")
    coordinator = await find_coordinator(target, transactional_id, transactions=True)
    async with scratch_topic(target) as topic, coordinator.connection() as connection:
        producer = await _init_transactional_producer(coordinator, connection, transactional_id)
        for number, (value, committed) in enumerate(((b"aborted", False), (b"committed", True))):
            expect(
                await _add_partition(coordinator, connection, transactional_id, producer, topic.name),
                Error.NONE,
                "AddPartitionsToTxn",
            )
            data = batch(value, base_sequence=number, is_transactional=True, **producer)
            expect(
                (await topic.produce(data, transactional_id=transactional_id))["error_code"],
                Error.NONE,
                "transactional Produce",
            )
            open_result = await topic.fetch(isolation_level=1)
            if (stable := open_result["last_stable_offset"]) != 2 * number:
                raise CheckFailed(f"the last stable offset of an open transaction is {stable} instead of {2 * number}")
            end_response = await coordinator.request(connection, "EndTxn", min(3, coordinator.version("EndTxn")),
                                                 transactional_id=transactional_id, committed=committed,
                                                 **producer)  # fmt: skip
            expect(end_response.body["error_code"], Error.NONE, "EndTxn")
        for _ in range(_RETRIES):  # markers are written after EndTxn has been answered
            final_result = await topic.fetch(isolation_level=1)
            if final_result["last_stable_offset"] == final_result["high_watermark"] == 4:
                break
            await asyncio.sleep(_POLL_S)
        aborted = {transaction["producer_id"] for transaction in final_result["aborted_transactions"] or ()}
        if aborted != {producer["producer_id"]} or values_of(final_result["records"]) != [b"aborted", b"committed"]:
            raise CheckFailed(
                "after an aborted and a committed transaction, read_committed returns "
                f"{values_of(final_result['records'])} "
                f"up to {final_result['last_stable_offset']}, and the aborted producers {sorted(aborted)}"
            )


async def _init_transactional_producer(
    target: Target, connection: BrokerConnection, transactional_id: str
) -> dict[str, int]:
    """Initialize a producer with a transactional id, and return its id and epoch."""
    response = await send_when_ready(target, connection, "InitProducerId", min(3, target.version("InitProducerId")),
                                     transactional_id=transactional_id, transaction_timeout_ms=60_000)  # fmt: skip
    expect(response.body["error_code"], Error.NONE, "InitProducerId with a transactional id")
    return {"producer_id": response.body["producer_id"], "producer_epoch": response.body["producer_epoch"]}


async def _add_partition(
    target: Target, connection: BrokerConnection, transactional_id: str, producer: dict[str, int], topic: str
) -> int:
    """Add the topic's partition to the transaction, and return the error code."""
    values = {
        f"v3_and_below_{key}": value for key, value in ({"transactional_id": transactional_id} | producer).items()
    }
    for _ in range(_RETRIES):
        version = min(3, target.version("AddPartitionsToTxn"))
        response = await target.request(connection, "AddPartitionsToTxn", version, **values,
                                        v3_and_below_topics=[{"name": topic, "partitions": [0]}])  # fmt: skip
        code: int = response.body["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"]
        if code != Error.CONCURRENT_TRANSACTIONS:  # the previous transaction is still being completed
            break
        await asyncio.sleep(_POLL_S)
    return code
