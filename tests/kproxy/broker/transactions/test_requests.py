from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.broker.errors import Error
from kproxy.broker.groups.offsets import CommittedOffset, Offsets
from kproxy.broker.java import java_hash
from kproxy.broker.log import Log
from kproxy.broker.log.appending import append
from kproxy.broker.log.settings import settings
from kproxy.broker.topics import Topics
from tests.kproxy.broker.data_requests import batch, now
from tests.kproxy.broker.socket_client import SocketClient, broker_client

TOPICS = {"a": 2}
PARTITION_0 = [{"name": "a", "partitions": [0]}]


async def init_producer(client: SocketClient, version: int = 5, **options: Any) -> Mapping[str, Any]:
    fields = {"transactional_id": "t", "transaction_timeout_ms": 60_000, **options}
    return dict(await client("InitProducerId", version, fields))


async def add_partitions(
    client: SocketClient, producer: Mapping[str, Any], topics: Any = None, version: int = 3
) -> list[int]:
    """Add partitions to a transaction; return their errors, in order."""
    identity = {
        "transactional_id": "t",
        "producer_id": producer["producer_id"],
        "producer_epoch": producer["producer_epoch"],
    }
    fields = {f"v3_and_below_{name}": value for name, value in {**identity, "topics": topics or PARTITION_0}.items()}
    body = await client("AddPartitionsToTxn", version, fields)
    results = body["results_by_topic_v3_and_below"]
    return [partition["partition_error_code"] for topic in results for partition in topic["results_by_partition"]]


async def end_transaction(
    client: SocketClient, producer: Mapping[str, Any], version: int = 5, committed: bool = True
) -> Mapping[str, Any]:
    fields = {"transactional_id": "t", "committed": committed}
    identity = {name: producer[name] for name in ("producer_id", "producer_epoch")}
    return dict(await client("EndTxn", version, {**fields, **identity}))


def log_of(broker: Broker, index: int = 0) -> Log:
    partition = broker.cluster.part(Topics).partition("a", index)
    assert partition is not None
    return partition.log


@pytest.mark.parametrize("version", range(6))
async def test_idempotent_producers_get_distinct_ids(version: int) -> None:
    async with broker_client() as client:
        responses = [await init_producer(client, version, transactional_id=None) for _ in range(2)]
    assert [(response["error_code"], response["producer_epoch"]) for response in responses] == [(0, 0), (0, 0)]
    assert responses[0]["producer_id"] != responses[1]["producer_id"]


@pytest.mark.parametrize("version", range(6))
async def test_transaction_works_in_every_version(version: int) -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = await init_producer(client, version)
        assert (producer["error_code"], producer["producer_epoch"]) == (0, 0)
        assert await add_partitions(client, producer, version=min(version, 3)) == [0]
        fields = {**producer, "transactional_id": "t", "group_id": "g"}
        names = ("transactional_id", "producer_id", "producer_epoch", "group_id")
        body = await client("AddOffsetsToTxn", min(version, 4), {name: fields[name] for name in names})
        assert body["error_code"] == 0
        response = await end_transaction(client, producer, version)
        assert response["error_code"] == 0
        if version >= 5:
            assert (response["producer_id"], response["producer_epoch"]) == (producer["producer_id"], 1)
        retry = await end_transaction(client, producer, version)  # the markers may not be written yet
        assert retry["error_code"] in (0, Error.CONCURRENT_TRANSACTIONS)
    assert log_of(client.broker).end_offset == 1


@pytest.mark.parametrize(
    ("version", "error"), [(3, Error.INVALID_PRODUCER_EPOCH), (4, Error.PRODUCER_FENCED), (5, Error.PRODUCER_FENCED)]
)
async def test_fenced_producer_gets_an_error_that_its_version_knows(version: int, error: Error) -> None:
    async with broker_client(topics=TOPICS) as client:
        first = await init_producer(client)
        await init_producer(client)
        response = await init_producer(
            client, version, producer_id=first["producer_id"], producer_epoch=first["producer_epoch"]
        )
        assert (response["error_code"], response["producer_id"], response["producer_epoch"]) == (error, -1, -1)
        assert await add_partitions(client, first, version=1) == [Error.INVALID_PRODUCER_EPOCH]
        assert await add_partitions(client, first, version=2) == [Error.PRODUCER_FENCED]
        assert (await end_transaction(client, first, 1))["error_code"] == Error.INVALID_PRODUCER_EPOCH
        assert (await end_transaction(client, first, 2))["error_code"] == Error.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"transactional_id": ""}, Error.INVALID_REQUEST),
        ({"transaction_timeout_ms": 900_001}, Error.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 0}, Error.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, Error.INVALID_REQUEST),
        ({"producer_epoch": 5}, Error.INVALID_REQUEST),
    ],
)
async def test_rejects_an_invalid_init_producer_id(fields: Mapping[str, Any], error: Error) -> None:
    async with broker_client() as client:
        assert (await init_producer(client, **fields))["error_code"] == error


async def test_adds_no_partition_if_one_is_unknown() -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = await init_producer(client)
        topics = [{"name": "a", "partitions": [1, 9]}, {"name": "b", "partitions": [0]}]
        unknown_partition = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert await add_partitions(client, producer, topics) == [
            Error.OPERATION_NOT_ATTEMPTED,
            unknown_partition,
            unknown_partition,
        ]
        body = await client("DescribeTransactions", 0, {"transactional_ids": ["t"]})
    assert body["transaction_states"][0]["transaction_state"] == "Empty"


async def test_brokers_can_request_several_transactions_at_once() -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = await init_producer(client)
        await add_partitions(client, producer)
        identity = {name: producer[name] for name in ("producer_id", "producer_epoch")}
        topics = [{"name": "a", "partitions": [0, 1]}]
        transactions = [
            {"transactional_id": "t", **identity, "verify_only": True, "topics": topics},
            {"transactional_id": "nobody", **identity, "verify_only": False, "topics": topics},
            {"transactional_id": "t", **identity, "verify_only": False, "topics": topics},
        ]
        body = await client("AddPartitionsToTxn", 5, {"transactions": transactions})
    assert body["error_code"] == 0
    assert [
        (
            transaction["transactional_id"],
            [
                partition["partition_error_code"]
                for partition in transaction["topic_results"][0]["results_by_partition"]
            ],
        )
        for transaction in body["results_by_transaction"]
    ] == [
        ("t", [Error.NONE, Error.TRANSACTION_ABORTABLE]),
        ("nobody", [Error.INVALID_PRODUCER_ID_MAPPING] * 2),
        ("t", [Error.NONE, Error.NONE]),
    ]


async def test_describes_the_partitions_and_groups_of_a_transaction() -> None:
    async with broker_client(topics=TOPICS) as client:
        producer = await init_producer(client)
        await add_partitions(client, producer, [{"name": "a", "partitions": [1, 0]}])
        identity = {name: producer[name] for name in ("producer_id", "producer_epoch")}
        await client("AddOffsetsToTxn", 4, {"transactional_id": "t", **identity, "group_id": "group"})
        body = await client("DescribeTransactions", 0, {"transactional_ids": ["nobody", "t", ""]})
    nobody, transaction, empty = body["transaction_states"]
    assert (nobody["error_code"], nobody["transactional_id"]) == (Error.TRANSACTIONAL_ID_NOT_FOUND, "nobody")
    assert empty["error_code"] == Error.INVALID_REQUEST
    assert (transaction["transaction_state"], transaction["transaction_timeout_ms"]) == ("Ongoing", 60_000)
    assert (transaction["producer_id"], transaction["producer_epoch"]) == (producer["producer_id"], 0)
    assert transaction["transaction_start_time_ms"] > 0
    assert [dict(topic) for topic in transaction["topics"]] == [
        {"topic": "__consumer_offsets", "partitions": [47]},
        {"topic": "a", "partitions": [0, 1]},
    ]


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("group", 98629247), ("polygenelubricants", -(2**31)), ("é", 233)]
)
def test_java_hash_matches_java(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["t", "other"]),
        ({"state_filters": ["Ongoing"]}, ["t"]),
        ({"state_filters": ["Empty", "Ongoing"]}, ["t", "other"]),
        ({"producer_id_filters": [1]}, ["other"]),
        ({"duration_filter": 600_000}, ["other"]),  # it never began, which Kafka treats as long ago
        ({"transactional_id_pattern": "o.*"}, ["other"]),
        ({"transactional_id_pattern": "the"}, []),
        ({"transactional_id_pattern": ""}, ["t", "other"]),
    ],
)
async def test_list_transactions_applies_all_filters(filters: Mapping[str, Any], expected: list[str]) -> None:
    async with broker_client(topics=TOPICS) as client:
        await add_partitions(client, await init_producer(client))
        await init_producer(client, transactional_id="other")
        body = await client("ListTransactions", 2, filters)
    assert [state["transactional_id"] for state in body["transaction_states"]] == expected


async def test_reports_unknown_filters() -> None:
    async with broker_client() as client:
        body = await client("ListTransactions", 0, {"state_filters": ["Ongoing", "Cheerful"]})
        assert body["unknown_state_filters"] == ["Cheerful"]
        body = await client("ListTransactions", 2, {"transactional_id_pattern": "(("})
        assert body["error_code"] == Error.INVALID_REGULAR_EXPRESSION


async def test_administrator_can_end_a_transaction_in_one_partition() -> None:
    async with broker_client(topics=TOPICS) as client:
        log_of(client.broker).append_marker(7, 3, 0, commit=True)
        body = await client("DescribeProducers", 0, {"topics": [{"name": "a", "partition_indexes": [0, 1, 2]}]})
        first, second, third = body["topics"][0]["partitions"]
        assert [(producer["producer_id"], producer["producer_epoch"]) for producer in first["active_producers"]] == [
            (7, 3)
        ]
        assert (second["error_code"], len(second["active_producers"])) == (0, 0)
        assert third["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        topics = [{"name": "a", "partition_indexes": [0, 2]}, {"name": "b", "partition_indexes": [0]}]
        fields = {"producer_id": 7, "transaction_result": False, "coordinator_epoch": 0, "topics": topics}
        for version, epoch, error in (
            (1, 2, Error.INVALID_PRODUCER_EPOCH),
            (1, 3, Error.NONE),
            (2, 2, Error.INVALID_PRODUCER_EPOCH),
            (2, 3, Error.NONE),  # a retry: there is no transaction to end
            (2, 4, Error.NONE),
        ):
            marker = {**fields, "producer_epoch": epoch, **({"transaction_version": 2} if version == 2 else {})}
            body = await client("WriteTxnMarkers", version, {"markers": [marker]})
            [response] = body["markers"]
            unknown_partition = Error.UNKNOWN_TOPIC_OR_PARTITION
            codes = [[partition["error_code"] for partition in topic["partitions"]] for topic in response["topics"]]
            assert (response["producer_id"], codes) == (7, [[error, unknown_partition], [unknown_partition]])


async def test_transaction_version_2_marker_needs_a_later_epoch_than_its_transaction() -> None:
    async with broker_client(topics=TOPICS) as client:
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        append(log_of(client.broker), memoryview(data), settings(client.broker.cluster, "a"), now())
        topics = [{"name": "a", "partition_indexes": [0]}]
        marker = {"producer_id": 7, "transaction_result": True, "coordinator_epoch": 0, "topics": topics}
        for epoch, error in ((0, Error.INVALID_PRODUCER_EPOCH), (1, Error.NONE)):
            fields = {**marker, "producer_epoch": epoch, "transaction_version": 2}
            body = await client("WriteTxnMarkers", 2, {"markers": [fields]})
            assert body["markers"][0]["topics"][0]["partitions"][0]["error_code"] == error


@pytest.mark.parametrize(("commit", "offsets"), [(True, {("a", 0): 7}), (False, {})])
async def test_administrator_can_complete_staged_offsets_of_a_group(commit: bool, offsets: Mapping[Any, int]) -> None:
    async with broker_client(topics=TOPICS) as client:
        await client("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["group"]})  # creates the topic
        offsets_part, topic = client.broker.cluster.part(Offsets), client.broker.cluster.part(Topics).by_name("a")
        assert topic is not None
        offsets_part.stage(5, 0, "group", {("a", 0): CommittedOffset(7, -1, "", 0, topic.id)})
        topics = [{"name": "__consumer_offsets", "partition_indexes": [46, 47]}]
        marker = {"producer_id": 5, "producer_epoch": 0, "transaction_result": commit, "coordinator_epoch": 0}
        body = await client("WriteTxnMarkers", 1, {"markers": [{**marker, "topics": topics}]})
        assert [partition["error_code"] for partition in body["markers"][0]["topics"][0]["partitions"]] == [0, 0]
        assert {
            topic_partition: committed.offset for topic_partition, committed in offsets_part.for_group("group").items()
        } == offsets
        assert not offsets_part.pending("group")


async def test_only_the_coordinator_serves_a_transactional_id() -> None:
    async with broker_client(brokers=2, topics=TOPICS) as client:
        body = await client("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["t"]})
        other_node = 3 - body["coordinators"][0]["node_id"]
        fields = {"transactional_id": "t", "transaction_timeout_ms": 1000}
        assert (await client("InitProducerId", 5, fields, node=other_node))["error_code"] == Error.NOT_COORDINATOR
        assert (await client("InitProducerId", 5, fields, node=3 - other_node))["error_code"] == 0
        for node in (1, 2):
            empty_id_response = await client("InitProducerId", 5, {**fields, "transactional_id": ""}, node=node)
            assert empty_id_response["error_code"] == Error.INVALID_REQUEST
        for node, expected in ((other_node, []), (3 - other_node, ["t"])):
            body = await client("ListTransactions", 0, {}, node=node)
            assert [state["transactional_id"] for state in body["transaction_states"]] == expected
