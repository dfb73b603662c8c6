"""A broker with several listeners: each applies its security protocol and advertises its own address."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.broker.errors import Error
from tests.kproxy.broker.security.certificates import tls_context, write_self_signed
from tests.kproxy.broker.security.sasl_client import login_plain
from tests.kproxy.broker.socket_client import SocketClient

ALL = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerClient(SocketClient):
    """A client of one listener."""

    def __init__(self, broker: Broker, listener: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(broker, "test", tls if listener.endswith("SSL") else None)
        self.listener = listener

    async def streams(self, node: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if node not in self._streams:
            port = self.broker.ports_of(self.listener)[node - 1]
            self._streams[node] = await asyncio.open_connection("127.0.0.1", port, ssl=self.tls)
        return self._streams[node]

    async def brokers(self) -> dict[int, tuple[str, int]]:
        response = await self("Metadata", 9, {"topics": []})
        return {broker["node_id"]: (broker["host"], broker["port"]) for broker in response["brokers"]}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_self_signed(tmp_path_factory.mktemp("tls") / "both.pem")


def security_options(certificate: Path) -> dict[str, Any]:
    return {"tls_certificate": certificate, "sasl": ["PLAIN"], "users": {"alice": "secret"}}


async def test_every_listener_uses_its_protocol_and_advertises_its_own_address(certificate: Path) -> None:
    async with Broker(brokers=2, listeners=ALL, topics={"t": 2}, **security_options(certificate)) as broker:
        assert broker.listeners == ALL
        assert broker.bootstrap == broker.bootstrap_of("PLAINTEXT")
        for name in ALL:
            client = ListenerClient(broker, name, tls_context(certificate))
            if name.startswith("SASL"):
                assert (await login_plain(client, "alice", "secret"))["error_code"] == Error.NONE
            addresses = dict(enumerate((("127.0.0.1", port) for port in broker.ports_of(name)), 1))
            assert await client.brokers() == addresses
            response = await client("FindCoordinator", 4, {"coordinator_keys": ["g"]})
            [coordinator] = response["coordinators"]
            assert (coordinator["host"], coordinator["port"]) == addresses[coordinator["node_id"]]
            cluster = await client("DescribeCluster", 0, {})
            assert {broker["broker_id"]: (broker["host"], broker["port"]) for broker in cluster["brokers"]} == addresses
            await client.hang_up()
        ports = [port for name in ALL for port in broker.ports_of(name)]
        assert len(set(ports)) == len(ports) == 8


async def test_sasl_listener_closes_a_connection_that_does_not_log_in(certificate: Path) -> None:
    reports: list[str] = []
    async with Broker(listeners=ALL, report=reports.append, **security_options(certificate)) as broker:
        client = ListenerClient(broker, "SASL_PLAINTEXT")
        with pytest.raises(asyncio.IncompleteReadError):
            await client.brokers()
        await client.hang_up()
    assert reports == ["/127.0.0.1: Metadata v9 before the login that this listener requires; connection closed"]


async def test_restarted_broker_has_all_its_listeners(certificate: Path) -> None:
    names = ("PLAINTEXT", "SSL")
    async with Broker(listeners=names, brokers=2, tls_certificate=certificate) as broker:
        await broker.stop_node(2)
        for name in names:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", broker.ports_of(name)[1])
        await broker.start_node(2)
        for name in names:
            client = ListenerClient(broker, name, tls_context(certificate))
            await client("Metadata", 9, {"topics": []}, node=2)
            await client.hang_up(2)


async def test_listeners_can_have_custom_names_and_advertised_addresses() -> None:
    async with Broker(
        listeners=("INTERNAL", "EXTERNAL"),
        configs={"listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"},
        advertised={"EXTERNAL": [("kafka.example", 9094)]},
    ) as broker:
        internal_client, external_client = ListenerClient(broker, "INTERNAL"), ListenerClient(broker, "EXTERNAL")
        assert await internal_client.brokers() == {1: ("127.0.0.1", broker.ports_of("INTERNAL")[0])}
        assert await external_client.brokers() == {1: ("kafka.example", 9094)}
        body = {
            "resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": ["advertised.listeners"]}]
        }
        [described] = (await internal_client("DescribeConfigs", 1, body))["results"]
        for client in (internal_client, external_client):
            await client.hang_up()
    [config] = described["configs"]
    assert config["value"].endswith(",EXTERNAL://kafka.example:9094")
    assert config["value"].startswith("INTERNAL://127.0.0.1:")


async def test_single_listener_is_named_after_its_security_protocol(certificate: Path) -> None:
    options: list[tuple[str, Mapping[str, Any]]] = [
        ("PLAINTEXT", {}),
        ("SSL", {"tls_certificate": certificate}),
        ("SASL_PLAINTEXT", {"sasl": ["PLAIN"]}),
        ("SASL_SSL", {"tls_certificate": certificate, "sasl": ["PLAIN"]}),
    ]
    for name, listener_options in options:
        async with Broker(advertised=[("kafka.example", 9094)], **listener_options) as broker:
            assert broker.listeners == (name,)
            assert broker.cluster.nodes[1].addresses == {name: ("kafka.example", 9094)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"listeners": ["SSL"]}, "listener SSL uses TLS but has no certificate"),
        ({"listeners": ["SASL_PLAINTEXT"]}, "listener SASL_PLAINTEXT uses SASL but has no mechanism"),
        ({"listeners": ["PLAINTEXT"], "sasl": ["PLAIN"]}, "a SASL mechanism is set but no listener uses it"),
        (
            {"listeners": ["PLAINTEXT"], "tls_certificate": Path("c")},
            "a certificate is set but no listener uses TLS",
        ),
        ({"listeners": ["INSIDE"]}, "listener INSIDE has no security protocol: name it PLAINTEXT"),
        ({"listeners": ["SSL", "SSL"]}, "two listeners are called SSL"),
        (
            {"listeners": ["A"], "configs": {"listener.security.protocol.map": "A:TLS"}},
            "listener.security.protocol.map: 'A:TLS' has no valid security protocol",
        ),
        ({"ports": [0, 0]}, "ports: 2 for listener PLAINTEXT of 1 brokers"),
        ({"advertised": {"SSL": [("a", 1)]}}, "advertised: unknown listener SSL; listeners: PLAINTEXT"),
    ],
)
async def test_rejects_inconsistent_listener_options(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        async with Broker(**options):
            pass
