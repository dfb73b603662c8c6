"""The broker as Python code uses it: with asyncio, without asyncio, and as a pytest fixture."""

from __future__ import annotations

import re
import socket
import time
from typing import Any

import pytest

import kproxy
from kproxy.broker.errors import ApiError
from kproxy.broker.threaded import BrokerThread
from tests.kproxy.broker.socket_client import broker_client


def request_api_versions(bootstrap: str) -> bytes:
    """Send ApiVersions v0 with a blocking client; return the first bytes of the response."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(bytes.fromhex("0000000b 0012 0000 00000007 0001 61"))
        return client.recv(8)


async def test_broker_starts_fast_and_closes_its_port_at_exit() -> None:
    started_at = time.process_time()
    async with kproxy.Broker() as broker:
        assert time.process_time() - started_at < 1  # normally 0.1 s, but the machine may be busy
        [port] = broker.ports
        assert broker.bootstrap == f"127.0.0.1:{port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_broker_thread_works_without_asyncio() -> None:
    with BrokerThread(brokers=2) as broker:
        assert request_api_versions(broker.bootstrap)[4:] == bytes.fromhex("00000007")
        broker.create_topic("orders", 4)
        with pytest.raises(ApiError, match="Topic 'orders' already exists"):
            broker.create_topic("orders")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topic": {"orders": 1}}, "unknown setting 'topic' of a broker; did you mean topics?"),
        ({"port": 9092}, "unknown setting 'port' of a broker; did you mean ports?"),
        ({"topics": ["orders"]}, "topics needs the number of partitions of each topic"),
    ],
)
def test_wrong_setting_raises(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        BrokerThread(**settings)


def test_broker_has_no_address_before_the_block() -> None:
    with pytest.raises(RuntimeError, match="use it in a with block"):
        _ = kproxy.InspectedBrokerThread().bootstrap


def test_occupied_port_raises_and_leaves_nothing_running() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(OSError, match="in use"), BrokerThread(brokers=2, ports=(0, port)):
            pass


def test_fixture_provides_a_broker(kproxy_broker: BrokerThread) -> None:
    assert request_api_versions(kproxy_broker.bootstrap)


@pytest.mark.kproxy_broker(brokers=3, topics={"orders": 6})
def test_marker_configures_the_fixture(kproxy_broker: BrokerThread) -> None:
    assert len(kproxy_broker.bootstrap.split(",")) == 3


async def test_stopping_a_node_moves_its_partitions() -> None:
    async with broker_client(brokers=3, topics={"orders": 3}) as client:
        initial = await client("Metadata", 12, {"topics": None}, node=2)
        await client.broker.stop_node(1)
        without_node = await client("Metadata", 12, {"topics": None}, node=2)
        await client.broker.start_node(1)
        restored = await client("Metadata", 12, {"topics": None}, node=1)
    assert {partition["leader_id"] for partition in initial["topics"][0]["partitions"]} == {1, 2, 3}
    assert {partition["leader_id"] for partition in without_node["topics"][0]["partitions"]} == {2, 3}
    assert [broker["node_id"] for broker in without_node["brokers"]] == [2, 3]
    assert {partition["leader_epoch"] for partition in without_node["topics"][0]["partitions"]} == {0, 1}
    assert [sorted(partition["isr_nodes"]) for partition in restored["topics"][0]["partitions"]] == [[1, 2, 3]] * 3


async def test_move_leader_changes_the_leader() -> None:
    async with broker_client(brokers=2, topics={"orders": 1}, configs={"default.replication.factor": "1"}) as client:
        client.broker.move_leader("orders", 0, 1)
        client.broker.move_leader("orders", 0, 2)
        body = await client("Metadata", 12, {"topics": None})
        with pytest.raises(KeyError, match="unknown partition orders-1"):
            client.broker.move_leader("orders", 1, 2)
    [partition] = body["topics"][0]["partitions"]
    assert partition["leader_id"] == 2
    assert sorted(partition["replica_nodes"]) == [1, 2]
