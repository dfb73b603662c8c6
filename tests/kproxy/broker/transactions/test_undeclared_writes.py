from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.errors import Error
from kproxy.broker.groups.offsets import Offsets
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import Producer, Transactions, TransactionState
from tests.kproxy.broker.data_requests import batch, log_of, produce
from tests.kproxy.broker.socket_client import SocketClient, broker_client

TOPICS = {"t": 1}


def transactions(client: SocketClient) -> Transactions:
    return client.broker.cluster.part(Transactions)


async def write(client: SocketClient, producer: Producer, version: int, sequence: int = 0) -> Any:
    data = batch(producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=sequence, is_transactional=True)
    body = await produce(client, data, version=version, transactional_id="tx")
    return Error(body["error_code"])


async def commit_offset(client: SocketClient, producer: Producer, version: int) -> Error:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}]
    if version < 2:
        del partitions[0]["committed_leader_epoch"]
    fields = {
        "transactional_id": "tx",
        "group_id": "g",
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "topics": [{"name": "t", "partitions": partitions}],
    }
    if version >= 3:
        fields |= {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    body = await client("TxnOffsetCommit", version, fields)
    return Error(body["topics"][0]["partitions"][0]["error_code"])


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, Error.INVALID_TXN_STATE), (11, Error.TRANSACTION_ABORTABLE), (12, Error.NONE)],
)
async def test_write_to_an_undeclared_partition_depends_on_the_version(version: int, error: Error) -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = transactions(client).init("tx", 1000)
        assert await write(client, producer, version) is error
        transaction = transactions(client).by_id("tx")
        assert transaction is not None
        assert (transaction.state is TransactionState.ONGOING) is (error is Error.NONE)
        assert log_of(client).end_offset == (error is Error.NONE)


@pytest.mark.parametrize("version", [9, 11, 12])
async def test_only_the_producer_of_the_transaction_may_write(version: int) -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = transactions(client).init("tx", 1000)
        transactions(client).add("tx", producer, [("t", 0)])
        assert await write(client, producer, version) is Error.NONE
        later = Producer(producer.id, producer.epoch + 1)
        assert await write(client, later, version) is Error.INVALID_PRODUCER_EPOCH
        other = Producer(producer.id + 1, 0)
        assert await write(client, other, version) is Error.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("version", "error"),
    [(11, Error.NOT_ENOUGH_REPLICAS), (12, Error.CONCURRENT_TRANSACTIONS)],
)
async def test_next_transaction_is_refused_while_one_completes(version: int, error: Error) -> None:
    async with broker_client(topics={**TOPICS, "down": 1}) as client:
        producer = transactions(client).init("tx", 1000)
        transactions(client).add("tx", producer, [("t", 0), ("down", 0)])
        topics = client.broker.cluster.part(Topics)
        leaderless_partition = topics.partition("down", 0)
        assert leaderless_partition is not None
        topics.set_leader(leaderless_partition, -1)
        transactions(client).end("tx", producer, commit=True)
        assert await write(client, producer, version) is error
        assert await commit_offset(client, producer, 5) is Error.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("version", "error"),
    [(0, Error.INVALID_TXN_STATE), (3, Error.INVALID_TXN_STATE), (4, Error.TRANSACTION_ABORTABLE), (5, Error.NONE)],
)
async def test_offset_commit_of_an_undeclared_group_depends_on_the_version(version: int, error: Error) -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = transactions(client).init("tx", 1000)
        assert await commit_offset(client, producer, version) is error


@pytest.mark.parametrize("version", [0, 3, 4, 5])
async def test_only_the_producer_of_the_transaction_may_commit_offsets(version: int) -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = transactions(client).init("tx", 1000)
        transactions(client).add("tx", producer, groups=["g"])
        assert await commit_offset(client, producer, version) is Error.NONE
        later = Producer(producer.id, producer.epoch + 1)
        assert await commit_offset(client, later, version) is Error.INVALID_PRODUCER_EPOCH


async def test_transaction_continues_after_a_restart(tmp_path: Path) -> None:
    async with broker_client(topics=TOPICS, data=tmp_path) as client:
        producer = transactions(client).init("tx", 60_000)
        assert await write(client, producer, 12) is Error.NONE
        assert await commit_offset(client, producer, 5) is Error.NONE
    async with broker_client(data=tmp_path) as client:
        assert log_of(client).last_stable_offset == 0
        assert await write(client, producer, 12, sequence=1) is Error.NONE
        fields = {"transactional_id": "tx", "producer_id": producer.id, "producer_epoch": 0, "committed": True}
        assert (await client("EndTxn", 5, fields))["producer_epoch"] == 1
    async with broker_client(data=tmp_path) as client:
        await client("ApiVersions", 0)  # gives the event loop a turn to complete the commit
        assert log_of(client).last_stable_offset == 3
        assert [committed.offset for committed in client.broker.cluster.part(Offsets).for_group("g").values()] == [1]
        assert transactions(client).init("tx", 60_000) == (producer.id, 2)
