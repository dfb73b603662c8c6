"""Advertised brokers with TLS: one port for each broker, or one port for all, told apart by server name."""

from __future__ import annotations

from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.advertised_listeners import Advertise, check_listeners
from kproxy.proxy.broker_names import BrokerNames
from kproxy.proxy.events import BrokerListening, Event
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.tls.contexts import TlsPolicy
from tests.kproxy.proxy.peers import Broker, Peer
from tests.kproxy.proxy.test_advertise import learn_brokers, metadata_request, own_port
from tests.kproxy.proxy.tls_peer import TlsPeer, client_context, server_context
from tests.kproxy.proxy.tls_relay import (
    Certificates,
    connected_peers,
    originating_context,
    running_relay,
    terminating_context,
)


async def test_advertised_broker_listeners_use_tls(certificates: Certificates) -> None:
    policy = TlsPolicy(terminating_context(certificates.proxy), originating_context(certificates.ca.path))
    client_tls, server_tls = client_context(certificates.ca.path), server_context(certificates.broker)
    rewriting = Rewriting(Advertise(host="localhost"))
    with Broker() as first, Broker() as second:
        async with running_relay(first.address, policy, rewriting=rewriting) as relay:
            async with connected_peers(relay, first, client_tls, server_tls) as (client, server):
                addresses = await learn_brokers(
                    client, server, (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port)
                )
            assert addresses[1] == ("localhost", own_port(relay))
            with await Peer.connect(f"127.0.0.1:{addresses[2][1]}") as peer:
                other = await TlsPeer(peer, client_tls, "localhost").shake_hands()
                with await second.accept() as accepted:
                    reached = await TlsPeer(accepted, server_tls, server=True).shake_hands()
                    await other.send(metadata_request())
                    assert await reached.receive(len(metadata_request())) == metadata_request()


async def test_one_port_serves_all_brokers_by_server_name(certificates: Certificates) -> None:
    events: list[Event] = []
    policy = TlsPolicy(terminating_context(certificates.proxy))
    client_tls = client_context(certificates.ca.path)
    rewriting = Rewriting(Advertise(names=BrokerNames("b$id.kafka.test")))
    with Broker() as first, Broker() as second:
        async with running_relay(first.address, policy, events, rewriting=rewriting) as relay:
            port = own_port(relay)
            # The name of a broker not known yet and a name of no broker both lead to the bootstrap upstream.
            for name in ("b2.kafka.test", "localhost"):
                async with connected_peers(relay, first, client_tls, None, name):
                    pass
            brokers = (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port)
            async with connected_peers(relay, first, client_tls, None) as (client, server):
                addresses = await learn_brokers(client, server, *brokers)
            assert addresses == {1: ("b1.kafka.test", port), 2: ("b2.kafka.test", port)}
            assert events == [BrokerListening(2, second.address, f"b2.kafka.test:{port}")]
            async with connected_peers(relay, first, client_tls, None, "b1.kafka.test") as (client, server):
                await client.send(b"to 1")
                assert await server.receive(4) == b"to 1"
            async with connected_peers(relay, second, client_tls, None, "B2.kafka.test") as (client, server):
                assert await learn_brokers(client, server, *brokers) == addresses
            assert len(relay.addresses) == 1


def test_broker_names_map_to_node_ids() -> None:
    names = BrokerNames("broker-$id.kafka.example.com", 9092)
    assert names.advertised_address(12, 1) == ("broker-12.kafka.example.com", 9092)
    assert BrokerNames("b$id.x").advertised_address(0, 19092) == ("b0.x", 19092)
    assert names.node_id("broker-12.kafka.example.com") == 12
    assert names.node_id("Broker-0.kafka.example.com.") == 0
    for other in ("broker-.kafka.example.com", "broker-01.kafka.example.com", "broker-1xkafka.example.com", "kafka"):
        assert names.node_id(other) is None


def test_broker_names_require_tls(certificates: Certificates) -> None:
    options = Advertise(names=BrokerNames("b$id.x"))
    listen = parse_listen("9092")
    assert "pass --tls-cert" in (check_listeners([Listener(listen, listen)], options) or "")
    assert (
        check_listeners([Listener(listen, listen, TlsPolicy(terminating_context(certificates.proxy)))], options) is None
    )


async def test_reload_gives_broker_listeners_the_new_certificate(certificates: Certificates) -> None:
    rewriting = Rewriting(Advertise(host="localhost"))
    with Broker() as first, Broker() as second:
        async with running_relay(
            first.address, TlsPolicy(terminating_context(certificates.proxy)), rewriting=rewriting
        ) as relay:
            async with connected_peers(relay, first, client_context(certificates.ca.path), None) as (client, server):
                addresses = await learn_brokers(
                    client, server, (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port)
                )
            newer = TlsPolicy(terminating_context(certificates.other_ca.issue("localhost")))
            listener = Listener(parse_listen("127.0.0.1:0"), parse_upstream(first.address), newer)
            assert await relay.reconfigure([listener]) == []
            with await Peer.connect(f"127.0.0.1:{addresses[2][1]}") as peer:
                await TlsPeer(peer, client_context(certificates.other_ca.path), "localhost").shake_hands()
