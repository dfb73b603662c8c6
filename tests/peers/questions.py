"""Requests to real Kafka and to the built-in broker, with comparable responses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dissectors.records import decode
from dissectors.wire.layout import NULL_UUID
from kproxy.broker.errors import Error
from tests.kproxy.broker.socket_client import SocketClient


class BrokerAddress:
    """A broker on loopback, as `SocketClient` needs it."""

    def __init__(self, port: int) -> None:
        self.ports = (port,)


class Questions:
    """Sends requests, and keeps the responses by label in a comparable form.

    In request bodies and kept responses, a topic's id is replaced by ``$`` and its name. Other differences are removed:
    addresses, ids of sessions and of transactional producers, times assigned by the broker, the order of topics and
    partitions, and a truncated batch at the end of record data.
    """

    def __init__(self, port: int) -> None:
        self.answers: dict[str, Any] = {}
        self._client = SocketClient(BrokerAddress(port), "questions")  # type: ignore[arg-type]
        self._ids: dict[str, str] = {}
        self._producers: list[int] = []  # ids of transactional producers

    async def create_topic(self, name: str, **configs: str) -> None:
        """Create a topic with one partition, and wait until it is usable."""
        topic_configs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1, "configs": topic_configs}]
        created = await self._client("CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})
        assert created["topics"][0]["error_code"] == 0, created
        self._ids["$" + name] = created["topics"][0]["topic_id"]
        expected = {"topics": [{"topic_id": NULL_UUID, "name": name}]}
        async with asyncio.timeout(60):
            while any(  # noqa: ASYNC110
                topic["error_code"] or any(partition["error_code"] for partition in topic["partitions"])
                for topic in (await self._client("Metadata", 12, expected))["topics"]
            ):
                await asyncio.sleep(0.05)

    async def transactional_producer(self, name: str) -> Any:
        """Initialise a producer once its coordinator is available; return the response."""
        request_body = {
            "transactional_id": name,
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        async with asyncio.timeout(60):
            while True:
                await self._client("FindCoordinator", 3, {"key": name, "key_type": 1})
                response = await self._client("InitProducerId", 4, request_body)
                if response["error_code"] == 0:
                    self._producers.append(response["producer_id"])
                    return response
                await asyncio.sleep(0.1)

    async def add_to_transaction(self, label: str, producer: Mapping[str, Any], name: str, topic: str) -> None:
        """Add a partition to a transaction once the previous transaction has completed."""
        body = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": producer["producer_id"],
            "v3_and_below_producer_epoch": producer["producer_epoch"],
            "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
        }
        async with asyncio.timeout(60):
            while True:
                response = await self._client("AddPartitionsToTxn", 3, body)
                [result] = response["results_by_topic_v3_and_below"][0]["results_by_partition"]
                if result["partition_error_code"] != Error.CONCURRENT_TRANSACTIONS:
                    break
                await asyncio.sleep(0.05)
        self.answers[label] = self._make_comparable(response)

    async def wait_for_end(self, topic: str, offset: int, *, isolation_level: int) -> None:
        """Wait until the end or the last stable offset of a log reaches `offset`: coordinators write markers later."""
        partitions = [
            {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}
        ]
        async with asyncio.timeout(60):
            while True:
                body = {"replica_id": -1, "isolation_level": isolation_level, "topics": partitions}
                response = await self._client("ListOffsets", 5, body)
                if response["topics"][0]["partitions"][0]["offset"] >= offset:
                    return
                await asyncio.sleep(0.05)

    async def __call__(self, label: str, api: str, version: int, body: Mapping[str, Any]) -> Any:
        """Send a request and keep its response; return the original response, or None if the connection was closed."""
        assert label not in self.answers, label
        try:
            async with asyncio.timeout(60):
                response = await self._client(api, version, self._insert_ids(body))
        except asyncio.IncompleteReadError:
            await self._client.hang_up()
            response = None
        self.answers[label] = self._make_comparable(response)
        return response

    async def produce(
        self, label: str, data: bytes, topic: str = "t", *, version: int = 9, acks: int = -1, partition: int = 0
    ) -> Any:
        """Produce to a partition."""
        partition_data = {
            "name": topic,
            "topic_id": "$" + topic,
            "partition_data": [{"index": partition, "records": data}],
        }
        return await self(label, "Produce", version, {"acks": acks, "timeout_ms": 1000, "topic_data": [partition_data]})

    async def fetch(self, label: str, offset: int = 0, topic: str = "t", *, version: int = 12, **values: Any) -> Any:
        """Fetch the batches of a partition; `values` are fields of the request or of the partition."""
        partition_entry = {
            "partition": 0,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": -1,
        }
        partition_entry |= {name: values.pop(name) for name in list(values) if name in partition_entry}
        body = {"max_wait_ms": 50, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "replica_id": -1}
        topics = [
            {"topic": topic, "topic_id": self._ids.get("$" + topic, "A" * 21 + "Q"), "partitions": [partition_entry]}
        ]
        return await self(label, "Fetch", version, body | {"topics": topics} | values)

    async def list_offsets(
        self, label: str, timestamp: int, topic: str = "t", *, version: int = 7, **values: Any
    ) -> Any:
        """Look up an offset by timestamp."""
        partition_entry = {
            "partition_index": 0,
            "timestamp": timestamp,
            "current_leader_epoch": -1,
            "max_num_offsets": 5,
        }
        partition_entry |= {name: values.pop(name) for name in list(values) if name in partition_entry}
        body = {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition_entry]}]}
        return await self(label, "ListOffsets", version, body | values)

    async def hang_up(self) -> None:
        """Close the connection."""
        await self._client.hang_up()

    def _insert_ids(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._insert_ids(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._insert_ids(element) for element in value]
        return self._ids.get(value, value) if isinstance(value, str) else value

    def _make_comparable(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {name: self._make_comparable(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return sorted((self._make_comparable(element, key) for element in value), key=_sort_key)
        if key == "records" and value is not None:
            return [
                self._comparable_batch(element_value)
                for element_value in decode(value)
                if "truncated" not in element_value
            ]
        if key == "producer_id" and value in self._producers:
            return f"producer {self._producers.index(value)}"
        if key in ("host", "port", "throttle_time_ms"):
            return "whatever"
        if key == "session_id" or (key == "log_append_time_ms" and value > 0):
            return value > 0
        if key == "batch_index_error_message" and value is not None:
            return value[:25]
        return {id_: name for name, id_ in self._ids.items()}.get(value, value) if isinstance(value, str) else value

    def _comparable_batch(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a batch without the fields that depend on compression, the broker's clock or assigned ids."""
        omitted = {"crc", "batch_length"} if batch["compression"] != "none" else set()
        if batch.get("timestamp_type") == "LogAppendTime":
            omitted |= {"crc", "max_timestamp", "records"}
        if batch.get("producer_id") in self._producers:
            omitted |= {"crc", "producer_id"}
        if batch.get("is_control"):
            omitted |= {"max_timestamp", "base_timestamp"}
            records = [{**record, "timestamp": "whatever"} for record in batch["records"]]
            batch = {**batch, "records": records}
        return {name: value for name, value in batch.items() if name not in omitted}


def _sort_key(value: Any) -> str:
    names = ("name", "topic", "topic_id", "partition_index", "index", "partition")
    return str([value.get(name) for name in names]) if isinstance(value, Mapping) else ""
