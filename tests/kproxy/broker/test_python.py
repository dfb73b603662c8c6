"""The broker as Python code uses it: with asyncio, without, and as a pytest fixture."""

from __future__ import annotations

import socket
import time

import pytest

import kproxy
from kproxy.broker.errors import Refused
from kproxy.broker.threaded import BrokerThread
from tests.kproxy.broker.socket_client import asked


def ask_versions(bootstrap: str) -> bytes:
    """What a broker answers to ApiVersions v0, by a blocking client."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(bytes.fromhex("0000000b 0012 0000 00000007 0001 61"))
        return client.recv(8)


async def test_is_ready_at_once_and_gone_at_the_end() -> None:
    began = time.process_time()
    async with kproxy.Broker() as broker:
        assert time.process_time() - began < 1  # it says 0.1 s; a machine may be busy
        [port] = broker.ports
        assert broker.bootstrap == f"127.0.0.1:{port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_runs_beside_code_without_asyncio() -> None:
    with BrokerThread(brokers=2) as broker:
        assert ask_versions(broker.bootstrap)[4:] == bytes.fromhex("00000007")
        broker.create_topic("orders", 4)
        with pytest.raises(Refused, match="Topic 'orders' already exists"):
            broker.create_topic("orders")


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"), BrokerThread(brokers=2, ports=(0, port)):
            pass


def test_the_fixture_is_a_broker(kproxy_broker: BrokerThread) -> None:
    assert ask_versions(kproxy_broker.bootstrap)


@pytest.mark.kproxy_broker(brokers=3, topics={"orders": 6})
def test_the_fixture_is_set_up_by_a_marker(kproxy_broker: BrokerThread) -> None:
    assert len(kproxy_broker.bootstrap.split(",")) == 3


async def test_a_broker_that_stops_hands_its_partitions_over() -> None:
    async with asked(brokers=3, topics={"orders": 3}) as ask:
        before = await ask("Metadata", 12, {"topics": None}, node=2)
        await ask.broker.stop_node(1)
        after = await ask("Metadata", 12, {"topics": None}, node=2)
        await ask.broker.start_node(1)
        again = await ask("Metadata", 12, {"topics": None}, node=1)
    assert {partition["leader_id"] for partition in before["topics"][0]["partitions"]} == {1, 2, 3}
    assert {partition["leader_id"] for partition in after["topics"][0]["partitions"]} == {2, 3}
    assert [broker["node_id"] for broker in after["brokers"]] == [2, 3]
    assert {partition["leader_epoch"] for partition in after["topics"][0]["partitions"]} == {0, 1}
    assert [sorted(partition["isr_nodes"]) for partition in again["topics"][0]["partitions"]] == [[1, 2, 3]] * 3


async def test_a_leader_is_moved() -> None:
    async with asked(brokers=2, topics={"orders": 1}, configs={"default.replication.factor": "1"}) as ask:
        ask.broker.move_leader("orders", 0, 1)
        ask.broker.move_leader("orders", 0, 2)
        body = await ask("Metadata", 12, {"topics": None})
        with pytest.raises(KeyError, match="unknown partition orders-1"):
            ask.broker.move_leader("orders", 1, 2)
    [partition] = body["topics"][0]["partitions"]
    assert partition["leader_id"] == 2
    assert sorted(partition["replica_nodes"]) == [1, 2]
