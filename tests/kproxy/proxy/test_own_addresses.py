"""An upstream that is the proxy itself is recognized, and others are not mistaken for it."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.events import Event, UpstreamIsProxy
from kproxy.proxy.listener import Listener
from kproxy.proxy.own_addresses import MAX_ROUNDS, OwnAddresses, ProxyLoopError
from kproxy.proxy.relay import Relay, serve
from tests.kproxy.proxy.peers import Broker, Peer, connected, until

OTHER_UPSTREAM = parse_upstream("192.0.2.1:9092")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


async def connect_and_be_refused(relay: Relay) -> None:
    with await Peer.connect(f"127.0.0.1:{relay.addresses[0].rpartition(':')[2]}") as client, suppress(ConnectionError):
        assert await client.rest() == b""
    await until(lambda: not relay.clients)


def own_host() -> str:
    """Return an address of this machine that is not loopback. Connecting a UDP socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has only loopback")
        return str(sock.getsockname()[0])


@pytest.mark.parametrize(
    ("listen", "upstream"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "0.0.0.0"),
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.2"),
        ("0.0.0.0", "[::ffff:127.0.0.1]"),
        ("0.0.0.0", "OWN"),
        (None, "localhost"),
    ],
)
async def test_clients_are_turned_away_and_the_loop_is_reported_once(listen: str | None, upstream: str) -> None:
    port = free_port()
    own_address = f"{upstream.replace('OWN', own_host())}:{port}"
    listener = Listener(parse_listen(str(port) if listen is None else f"{listen}:{port}"), parse_upstream(own_address))
    events: list[Event] = []
    async with serve([listener], report=events.append) as relay:
        for _ in range(3):
            await connect_and_be_refused(relay)
        assert events == [UpstreamIsProxy(str(listener.upstream), relay.addresses[0])]
        assert await relay.own_upstreams() == events
        assert (relay.totals.connections, relay.totals.turned_away) == (3, 3)
        assert relay.down == {listener.upstream: f"it is this proxy's own listener {relay.addresses[0]}"}


async def test_detects_two_listeners_that_lead_to_each_other() -> None:
    first_port, second_port = free_port(), free_port()
    pairs = [(first_port, second_port), (second_port, first_port)]
    listeners = [Listener(parse_listen(f"127.0.0.1:{a}"), parse_upstream(f"127.0.0.1:{b}")) for a, b in pairs]
    async with serve(listeners) as relay:
        await connect_and_be_refused(relay)
        assert relay.totals.connections == 1
        assert len(await relay.own_upstreams()) == 2


async def test_detects_its_own_unix_socket(tmp_path) -> None:
    path = tmp_path / "s"
    upstream = parse_upstream(f"unix:{tmp_path}/./s")
    async with serve([Listener(parse_listen(f"unix:{path}"), upstream)]) as relay:
        assert await relay.own_upstreams() == [UpstreamIsProxy(f"unix:{tmp_path}/./s", f"unix:{path}")]


async def test_other_upstreams_are_not_mistaken_for_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    async with serve([Listener(parse_listen(f"0.0.0.0:{port}"), OTHER_UPSTREAM)]) as relay:
        for upstream in (f"192.0.2.1:{port}", f"127.0.0.1:{port + 1}", f"[::1]:{port}", "unix:/tmp/none"):
            assert await relay.own.listener_at(parse_upstream(upstream)) is None
        assert await relay.own.listener_at(parse_upstream(f"no.such.host.invalid:{port}")) is None
        assert await relay.own.listener_at(parse_upstream(f"127.0.0.1:{port}")) is not None
    async with serve([Listener(parse_listen(f"127.0.0.1:{port}"), OTHER_UPSTREAM)]) as relay:
        assert await relay.own.listener_at(parse_upstream(f"127.0.0.2:{port}")) is None


async def test_reload_reports_a_loop_and_the_next_reload_ends_it() -> None:
    port = free_port()
    listen = parse_listen(f"127.0.0.1:{port}")
    with Broker() as broker:
        async with serve([Listener(listen, parse_upstream(broker.address))]) as relay:
            [sentence] = await relay.reconfigure([Listener(listen, parse_upstream(f"localhost:{port}"))])
            assert f"upstream localhost:{port} leads back to this proxy (listener 127.0.0.1:{port})" in sentence
            await connect_and_be_refused(relay)
            assert await relay.reconfigure([Listener(listen, parse_upstream(broker.address))]) == []
            async with connected(relay, broker) as (client, server):
                await client.send(b"x")
                assert await server.receive(1) == b"x"


async def test_loop_with_unrecognizable_addresses_ends_after_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a port forward: the addresses differ, so only the clients' addresses reveal the loop."""
    monkeypatch.setattr(OwnAddresses, "check", lambda *_: None)
    port = free_port()
    listener = Listener(parse_listen(f"127.0.0.1:{port}"), parse_upstream(f"127.0.0.1:{port}"))
    events: list[Event] = []
    async with serve([listener], report=events.append) as relay:
        await connect_and_be_refused(relay)
        assert UpstreamIsProxy(f"127.0.0.1:{port}", f"127.0.0.1:{port}") in events
        assert relay.totals.connections == MAX_ROUNDS + 1
        assert not relay.own._rounds


async def test_client_may_have_the_local_address_of_an_unrelated_connection() -> None:
    with Broker() as broker:
        async with serve([Listener(parse_listen("127.0.0.1:0"), parse_upstream(broker.address))]) as relay:
            with socket.socket() as sock:
                sock.bind(("127.0.0.1", 0))
                client = "127.0.0.1:1"
                with relay.own.link(client, sock):
                    relay.own.check_for_loop("{}:{}".format(*sock.getsockname()), "listener")


def test_error_names_the_listener() -> None:
    assert str(ProxyLoopError("[::1]:9092")) == "it is this proxy's own listener [::1]:9092"
