"""In-process connections to the built-in broker, without a port."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker import Broker
from tests.kproxy.broker.socket_client import SocketClient


class InProcessClient(SocketClient):
    """A client that connects through `Broker.connect`."""

    def __init__(self, broker: Broker, host: str, certificate: Mapping[str, Any] | None = None) -> None:
        super().__init__(broker, "test")
        self._origin = host, certificate

    async def streams(self, node: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if node not in self._streams:
            sock = await self.broker.connect(self.broker.listeners[0], node, *self._origin)
            self._streams[node] = await asyncio.open_unix_connection(sock=sock)
        return self._streams[node]


async def test_broker_without_ports_accepts_in_process_connections() -> None:
    async with Broker(ports=None, brokers=2, topics={"t": 2}) as broker:
        assert (broker.listeners, broker.ports) == (("PLAINTEXT",), ())
        assert all(server._server is None for server in broker._servers.values())
        client = InProcessClient(broker, "127.0.0.1")
        for node in (1, 2):
            assert len((await client("Metadata", 9, {"topics": []}, node=node))["brokers"]) == 2
            await client.hang_up(node)


async def test_stopped_node_refuses_connections() -> None:
    async with Broker(ports=None, brokers=2) as broker:
        client = InProcessClient(broker, "127.0.0.1")
        await client("Metadata", 9, {"topics": []}, node=2)
        await broker.stop_node(2)
        reader, _ = await client.streams(2)
        assert await reader.read() == b""
        await client.hang_up(2)
        with pytest.raises(ConnectionRefusedError):
            await client("Metadata", 9, {"topics": []}, node=2)
        await broker.start_node(2)
        assert await client("Metadata", 9, {"topics": []}, node=2)
        await client.hang_up(2)


@pytest.mark.parametrize(
    ("host", "shown"),
    [("10.0.0.9", "/10.0.0.9"), ("::1", "/0:0:0:0:0:0:0:1"), ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1")],
)
async def test_client_host_is_formatted_as_in_kafka(host: str, shown: str) -> None:
    async with Broker(ports=None) as broker:
        client = InProcessClient(broker, host)
        joined = await client(
            "JoinGroup", 3,
            {
                "group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 10000, "member_id": "",
                "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
            },
        )  # fmt: skip
        assert joined["error_code"] == 0
        [group] = (await client("DescribeGroups", 1, {"groups": ["g"]}))["groups"]
        assert [member["client_host"] for member in group["members"]] == [shown]
        await client.hang_up()


async def test_certificate_is_the_principal_only_without_sasl() -> None:
    alice = {"subject": ((("organizationName", "o"),), (("commonName", "alice"),))}
    options = {"acls": True, "super_users": ("User:CN=alice,O=o",), "topics": {"t": 1}}
    for certificate, code in ((alice, 0), (None, 29)):
        async with Broker(ports=None, **options) as broker:
            client = InProcessClient(broker, "127.0.0.1", certificate)
            [topic] = (await client("Metadata", 9, {"topics": [{"name": "t"}]}))["topics"]
            assert topic["error_code"] == code
            await client.hang_up()
    async with Broker(ports=None, sasl=["PLAIN"], report=lambda sentence: None) as broker:
        client = InProcessClient(broker, "127.0.0.1", alice)
        with pytest.raises(asyncio.IncompleteReadError):
            await client("Metadata", 9, {"topics": []})
        await client.hang_up()
