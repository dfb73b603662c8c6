"""--advertise with real sockets: listeners for brokers, and their addresses in responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dissectors.messages.message import read_response
from kproxy.proxy import advertised_listeners
from kproxy.proxy.address import TcpAddress, parse_listen, parse_upstream
from kproxy.proxy.advertised_listeners import GONE_AFTER_S, Advertise, check_listeners
from kproxy.proxy.events import (
    BrokerListenerClosed,
    BrokerListening,
    BrokerMoved,
    BrokerNotListening,
    Event,
    NewerVersion,
)
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay, serve
from tests.kproxy.frames import request, response
from tests.kproxy.proxy.peers import HANG_S, OWN_HOST, Broker, Peer, connected, relaying

METADATA, FIND_COORDINATOR = 3, 10


def metadata_request(number: int = 1) -> bytes:
    return request("Metadata", 9, {"topics": None}, correlation_id=number)


def metadata_response(*brokers: tuple[int, str, int], number: int = 1) -> bytes:
    rows = [{"node_id": node_id, "host": host, "port": port} for node_id, host, port in brokers]
    return response("Metadata", 9, {"brokers": rows, "cluster_id": "c"}, correlation_id=number)


async def read_frame(peer: Peer) -> bytes:
    head = await peer.receive(4)
    return head + await peer.receive(int.from_bytes(head, "big"))


async def learn_brokers(client: Peer, server: Peer, *brokers: tuple[int, str, int]) -> dict[int, tuple[str, int]]:
    """Return the addresses that the client receives, by node id, when the server lists these brokers."""
    await client.send(metadata_request())
    assert await read_frame(server) == metadata_request()
    await server.send(metadata_response(*brokers))
    body = read_response(await read_frame(client), METADATA, 9).body
    return {broker["node_id"]: (broker["host"], broker["port"]) for broker in body["brokers"]}


@asynccontextmanager
async def advertising_relay(
    broker: Broker, *, listen: str = f"{OWN_HOST}:0", events: list[Event] | None = None, **options: Any
) -> AsyncIterator[Relay]:
    rewriting = Rewriting(Advertise(**options))
    async with relaying(broker.address, listen=listen, events=events, rewriting=rewriting) as relay:
        yield relay


def own_port(relay: Relay) -> int:
    return int(relay.addresses[0].rpartition(":")[2])


async def test_opens_a_listener_for_every_broker_and_advertises_it() -> None:
    with Broker() as first, Broker() as second:
        events: list[Event] = []
        async with (
            advertising_relay(first, events=events, base=0) as relay,
            connected(relay, first) as (client, server),
        ):
            addresses = await learn_brokers(client, server, (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port))
            assert addresses[1] == (OWN_HOST, own_port(relay))
            host, port = addresses[2]
            assert (host, port) != ("127.0.0.1", second.port)
            with await Peer.connect(f"{host}:{port}") as other, await second.accept() as reached:
                await other.send(metadata_request())
                assert await read_frame(reached) == metadata_request()
            assert events == [BrokerListening(2, f"127.0.0.1:{second.port}", f"{host}:{port}")]


async def test_rewrites_responses_on_connections_to_a_discovered_broker() -> None:
    with Broker() as first, Broker() as second:
        async with advertising_relay(first) as relay, connected(relay, first) as (client, server):
            brokers = (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port)
            addresses = await learn_brokers(client, server, *brokers)
            with await Peer.connect("{}:{}".format(*addresses[2])) as other, await second.accept() as reached:
                assert await learn_brokers(other, reached, *brokers) == addresses


async def test_port_is_the_base_plus_the_node_id() -> None:
    with Broker() as broker, Broker() as other:
        async with advertising_relay(broker) as relay, connected(relay, broker) as (client, server):
            addresses = await learn_brokers(client, server, (7, "127.0.0.1", other.port))
            assert addresses[7][1] in range(own_port(relay) + 8, 65536, 1000)


async def test_configured_port_takes_precedence() -> None:
    with Broker() as broker, Broker() as other, Broker(address=(OWN_HOST, 0), down=True) as free:
        port = free.port
        free.__exit__()
        async with advertising_relay(broker, ports={7: port}) as relay, connected(relay, broker) as (client, server):
            assert await learn_brokers(client, server, (7, "127.0.0.1", other.port)) == {7: (OWN_HOST, port)}


async def test_occupied_configured_port_is_reported_and_the_address_is_unchanged() -> None:
    with Broker() as broker, Broker() as other, Broker(address=(OWN_HOST, 0)) as taken:
        events: list[Event] = []
        async with (
            advertising_relay(broker, events=events, ports={7: taken.port}) as relay,
            connected(relay, broker) as (client, server),
        ):
            for _ in range(2):
                addresses = await learn_brokers(client, server, (7, "127.0.0.1", other.port))
                assert addresses == {7: ("127.0.0.1", other.port)}
        (event,) = events
        assert isinstance(event, BrokerNotListening)
        assert f"{taken.port} is already in use" in str(event)


async def test_advertises_the_configured_host() -> None:
    with Broker() as broker, Broker() as other:
        async with (
            advertising_relay(broker, host="proxy.example.com") as relay,
            connected(relay, broker) as (client, server),
        ):
            addresses = await learn_brokers(client, server, (1, "127.0.0.1", broker.port), (2, "127.0.0.1", other.port))
            assert {host for host, _ in addresses.values()} == {"proxy.example.com"}


async def test_wildcard_listener_advertises_the_address_the_client_connected_to() -> None:
    with Broker() as broker, Broker() as other:
        async with advertising_relay(broker, listen="0.0.0.0:0") as relay:
            with await Peer.connect(f"127.0.0.1:{own_port(relay)}") as client, await broker.accept() as server:
                addresses = await learn_brokers(client, server, (2, "127.0.0.1", other.port))
                assert addresses[2][0] == "127.0.0.1"


async def test_relay_addresses_are_not_rewritten() -> None:
    with Broker() as broker:
        events: list[Event] = []
        async with advertising_relay(broker, events=events) as relay, connected(relay, broker) as (client, server):
            relay_port = own_port(relay)
            assert await learn_brokers(client, server, (1, "localhost", relay_port)) == {1: ("localhost", relay_port)}
            assert events == []


async def test_broker_that_moves_keeps_its_port() -> None:
    with Broker() as broker, Broker() as old_broker, Broker() as new_broker:
        events: list[Event] = []
        async with advertising_relay(broker, events=events) as relay, connected(relay, broker) as (client, server):
            addresses = await learn_brokers(client, server, (2, "127.0.0.1", old_broker.port))
            assert await learn_brokers(client, server, (2, "127.0.0.1", new_broker.port)) == addresses
            with await Peer.connect("{}:{}".format(*addresses[2])), await new_broker.accept():
                pass
            assert events[1:] == [BrokerMoved(2, f"127.0.0.1:{old_broker.port}", f"127.0.0.1:{new_broker.port}")]


class Clock:
    """The clock that `advertised_listeners` reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(advertised_listeners, "time", SimpleNamespace(monotonic=lambda: self.now))


async def test_listener_of_a_broker_closes_when_it_leaves_and_reopens_when_it_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    with Broker() as broker, Broker() as other:
        events: list[Event] = []
        async with advertising_relay(broker, events=events) as relay, connected(relay, broker) as (client, server):
            first_broker = 1, "127.0.0.1", broker.port
            addresses = await learn_brokers(client, server, first_broker, (2, "127.0.0.1", other.port))
            clock.now += GONE_AFTER_S
            await learn_brokers(client, server, first_broker)
            assert events[1:] == [BrokerListenerClosed(2, f"127.0.0.1:{other.port}", "the broker has left the cluster")]
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect("{}:{}".format(*addresses[2]))
            assert (await learn_brokers(client, server, first_broker, (2, "127.0.0.1", other.port)))[2] == addresses[2]


async def test_find_coordinator_response_closes_no_broker_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with Broker() as broker, Broker() as other:
        async with advertising_relay(broker) as relay, connected(relay, broker) as (client, server):
            addresses = await learn_brokers(client, server, (1, "127.0.0.1", broker.port), (2, "127.0.0.1", other.port))
            clock.now += GONE_AFTER_S
            await client.send(request("FindCoordinator", 2, {"key": "g"}, correlation_id=5))
            await read_frame(server)
            body = {"node_id": 1, "host": "127.0.0.1", "port": broker.port}
            await server.send(response("FindCoordinator", 2, body, correlation_id=5))
            coordinator = read_response(await read_frame(client), FIND_COORDINATOR, 2).body
            assert (coordinator["node_id"], coordinator["port"]) == (1, own_port(relay))
            with await Peer.connect("{}:{}".format(*addresses[2])):
                pass


async def test_bootstrap_servers_of_one_cluster_share_the_listeners() -> None:
    with Broker() as first, Broker() as second, Broker() as third:
        listeners = [
            Listener(parse_listen(f"{OWN_HOST}:0"), parse_upstream(broker_.address)) for broker_ in (first, second)
        ]
        brokers = [(number, "127.0.0.1", broker_.port) for number, broker_ in enumerate((first, second, third))]
        async with asyncio.timeout(HANG_S), serve(listeners, rewriting=Rewriting(Advertise())) as relay:
            learned_addresses = []
            for address, broker in zip(relay.addresses, (first, second), strict=True):
                with await Peer.connect(address) as client, await broker.accept() as server:
                    learned_addresses.append(await learn_brokers(client, server, *brokers))
            assert learned_addresses[0] == learned_addresses[1]
            ports = [int(address.rpartition(":")[2]) for address in relay.addresses]
            assert [learned_addresses[0][0][1], learned_addresses[0][1][1]] == ports[:2]
            assert ports[2:] == [learned_addresses[0][2][1]]


async def test_two_listeners_of_the_same_brokers_get_separate_broker_listeners() -> None:
    """As with PLAINTEXT and SSL: the same node ids at different ports."""
    with Broker() as plain, Broker() as secure, Broker() as other_plain, Broker() as other_secure:
        listeners = [
            Listener(parse_listen(f"{OWN_HOST}:0"), parse_upstream(broker_.address)) for broker_ in (plain, secure)
        ]
        async with asyncio.timeout(HANG_S), serve(listeners, rewriting=Rewriting(Advertise())) as relay:
            addresses = relay.addresses
            for address, broker, other in (
                (addresses[0], plain, other_plain),
                (addresses[1], secure, other_secure),
            ):
                with await Peer.connect(address) as client, await broker.accept() as server:
                    learned_addresses = await learn_brokers(client, server, (2, "127.0.0.1", other.port))
                    with await Peer.connect("{}:{}".format(*learned_addresses[2])), await other.accept():
                        pass


async def test_limits_the_number_of_broker_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advertised_listeners, "MAX_BROKERS", 3)
    with Broker() as broker:
        events: list[Event] = []
        async with advertising_relay(broker, events=events) as relay, connected(relay, broker) as (client, server):
            addresses = await learn_brokers(
                client, server, *((number, "127.0.0.1", 40_000 + number) for number in range(10))
            )
            assert [node_id for node_id, (_, port) in addresses.items() if port != 40_000 + node_id] == [0, 1, 2]
            assert str(events[-1]).startswith("no listener for broker 3 (127.0.0.1:40003): 3 brokers have listeners")
            assert len(events) == 4


async def test_reports_an_unknown_version_once() -> None:
    with Broker() as broker:
        events: list[Event] = []
        async with advertising_relay(broker, events=events) as relay, connected(relay, broker) as (client, server):
            for number in (1, 2):
                known_frame = request("Metadata", 9, {}, correlation_id=number)
                unknown_frame = known_frame[:7] + b"\x63" + known_frame[8:]
                await client.send(unknown_frame)
                assert await read_frame(server) == unknown_frame
                await server.send(metadata_response((1, "x", 1), number=number))
                assert await read_frame(client) == metadata_response((1, "x", 1), number=number)
            assert events == [NewerVersion(METADATA, 99)]


async def test_caps_the_advertised_versions() -> None:
    with Broker() as broker:
        async with (
            relaying(broker.address, rewriting=Rewriting(cap_versions=True)) as relay,
            connected(relay, broker) as (client, server),
        ):
            await client.send(request("ApiVersions", 3, {}))
            await read_frame(server)
            ranges = [
                {"api_key": METADATA, "min_version": 0, "max_version": 99},
                {"api_key": METADATA + 1000, "min_version": 0, "max_version": 99},
                {"api_key": FIND_COORDINATOR, "min_version": 0, "max_version": 1},
            ]
            await server.send(response("ApiVersions", 3, {"api_keys": ranges}))
            body = read_response(await read_frame(client), 18, 3).body
            assert [key["max_version"] for key in body["api_keys"]] == [13, 99, 1]


def test_unix_socket_cannot_be_advertised() -> None:
    listener = Listener(parse_listen("unix:/tmp/x"), TcpAddress("b", 9092))
    assert (
        check_listeners([listener], Advertise()) == "--advertise needs TCP: clients cannot be directed to unix:/tmp/x"
    )


async def test_broker_listeners_close_with_their_bootstrap_listener() -> None:
    with Broker() as first, Broker() as second, Broker() as kept:
        events: list[Event] = []
        async with advertising_relay(first, events=events) as relay, connected(relay, first) as (client, server):
            addresses = await learn_brokers(client, server, (2, "127.0.0.1", second.port))
            remaining = Listener(parse_listen("127.0.0.2:0"), parse_upstream(kept.address))
            assert await relay.reconfigure([remaining]) == []
            assert [upstream for _, upstream in relay.pairs] == [kept.address]
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect("{}:{}".format(*addresses[2]))
            assert events[1:] == [
                BrokerListenerClosed(2, f"127.0.0.1:{second.port}", "its bootstrap listener was removed")
            ]
            # The open connection continues; its responses keep the addresses of the brokers.
            assert await learn_brokers(client, server, (2, "127.0.0.1", second.port)) == {2: ("127.0.0.1", second.port)}
            assert [upstream for _, upstream in relay.pairs] == [kept.address]


async def test_second_bootstrap_listener_of_the_cluster_keeps_the_broker_listeners() -> None:
    with Broker() as first, Broker() as second, Broker() as third, Broker(address=(OWN_HOST, 0), down=True) as free:
        second_address = free.address
        free.__exit__()
        remaining = Listener(parse_listen(second_address), parse_upstream(second.address))
        listeners = [Listener(parse_listen(f"{OWN_HOST}:0"), parse_upstream(first.address)), remaining]
        brokers = [(number, "127.0.0.1", broker.port) for number, broker in enumerate((first, second, third))]
        events: list[Event] = []
        async with (
            asyncio.timeout(HANG_S),
            serve(listeners, rewriting=Rewriting(Advertise()), report=events.append) as relay,
        ):
            removed_address, kept_address = relay.addresses
            with (
                await Peer.connect(removed_address) as client,
                await first.accept() as server,
                await Peer.connect(kept_address) as other_client,
                await second.accept() as other_server,
            ):
                addresses = await learn_brokers(client, server, *brokers)
                # The second bootstrap listener knows that the cluster is the same, but not all of its brokers.
                assert await learn_brokers(other_client, other_server, *brokers[:2]) == {
                    0: addresses[0],
                    1: addresses[1],
                }
                assert await relay.reconfigure([remaining]) == []
                assert [upstream for _, upstream in relay.pairs] == [second.address, third.address]
                with await Peer.connect("{}:{}".format(*addresses[2])), await third.accept():
                    pass
                # The closed listener was that of the first broker, which now gets a listener of its own.
                for ends in (client, server), (other_client, other_server):
                    current_addresses = await learn_brokers(*ends, *brokers)
                    assert current_addresses == {**addresses, 0: current_addresses[0]}
                    assert current_addresses[0] != addresses[0]
                    with await Peer.connect("{}:{}".format(*current_addresses[0])), await first.accept():
                        pass
        assert [type(event) for event in events] == [BrokerListening, BrokerListening]
