"""Bytes and ends of connections pass through the relay unchanged, with TLS on one side or both."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages
from kproxy.proxy.tls.contexts import TlsPolicy
from tests.kproxy.proxy.accounting import frame
from tests.kproxy.proxy.peers import Broker, Peer
from tests.kproxy.proxy.test_tapped_relay import tap_and_inspector
from tests.kproxy.proxy.tls_peer import TlsPeer, client_context, server_context
from tests.kproxy.proxy.tls_relay import (
    MIB,
    V1_2,
    V1_3,
    Certificates,
    connected_peers,
    originating_context,
    running_relay,
    terminating_context,
)


@pytest.mark.parametrize("inner", [None, V1_2, V1_3])
@pytest.mark.parametrize("outer", [None, V1_2, V1_3])
async def test_relays_with_tls_on_either_side(
    certificates: Certificates, inner: ssl.TLSVersion | None, outer: ssl.TLSVersion | None
) -> None:
    policy = TlsPolicy(
        None if inner is None else terminating_context(certificates.proxy),
        None if outer is None else originating_context(certificates.ca.path),
    )
    client_tls = inner and client_context(certificates.ca.path, maximum_version=inner, minimum_version=inner)
    server_tls = outer and server_context(certificates.broker, maximum_version=outer, minimum_version=outer)
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with (
            running_relay(broker.address, policy, tap=tap) as relay,
            connected_peers(relay, broker, client_tls, server_tls) as (client, server),
        ):
            await client.send(frame(10))
            assert await server.receive(14) == frame(10)
            await server.send(frame(20))
            assert await client.receive(24) == frame(20)
        _, opened, *messages, closed, _ = await reading
    assert isinstance(opened, tap_messages.Open)
    assert opened.tls is (inner is not None)
    assert opened.plaintext_upstream is (inner is not None and outer is None)
    data = [(message.direction, message.payload) for message in messages if isinstance(message, tap_messages.TapData)]
    assert data == [(Direction.REQUEST, frame(10)), (Direction.RESPONSE, frame(20))]
    assert isinstance(closed, tap_messages.Close)
    assert closed[4:] == (14, 24)


@pytest.mark.parametrize("tls", ["client", "server", "both"])
async def test_large_data_passes_in_both_directions_at_once(certificates: Certificates, tls: str) -> None:
    client_tls = client_context(certificates.ca.path) if tls != "server" else None
    server_tls = server_context(certificates.broker) if tls != "client" else None
    policy = TlsPolicy(
        client_tls and terminating_context(certificates.proxy), server_tls and originating_context(certificates.ca.path)
    )
    size = 20 * MIB
    requests = bytes(range(251)) * (size // 251)
    responses = requests[::-1]

    async def send(peer: Any, data: bytes) -> None:
        await peer.send(data)
        await peer.finish() if isinstance(peer, TlsPeer) else peer.finish()

    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(relay, broker, client_tls, server_tls) as ends,
        ):
            client, server = ends
            async with asyncio.TaskGroup() as group:
                group.create_task(send(client, requests))
                group.create_task(send(server, responses))
                received = group.create_task(client.rest()), group.create_task(server.rest())
            assert received[0].result() == responses
            assert received[1].result() == requests
            assert (relay.totals.request_bytes, relay.totals.response_bytes) == (len(requests), len(responses))


async def test_peer_that_does_not_read_pauses_the_other_side(certificates: Certificates) -> None:
    policy = TlsPolicy(terminating_context(certificates.proxy), originating_context(certificates.ca.path))
    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(
                relay, broker, client_context(certificates.ca.path), server_context(certificates.broker)
            ) as (client, _),
        ):
            sending = asyncio.ensure_future(client.send(bytes(64 * MIB)))
            previous = -1
            while relay.totals.request_bytes != previous:
                previous = relay.totals.request_bytes
                await asyncio.sleep(0.3)
            assert not sending.done()
            assert previous < 32 * MIB
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending


async def test_data_sent_with_the_handshake_is_relayed(certificates: Certificates) -> None:
    with Broker() as broker:
        async with running_relay(broker.address, TlsPolicy(terminating_context(certificates.proxy))) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                tls = TlsPeer(client, client_context(certificates.ca.path), "localhost")
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.tls.do_handshake()
                await tls._flush()
                while True:
                    tls.incoming.write(await tls._receive())
                    with contextlib.suppress(ssl.SSLWantReadError):
                        tls.tls.do_handshake()
                        break
                tls.tls.write(b"early")  # sent together with the end of the handshake
                await tls._flush()
                with await broker.accept() as server:
                    assert await server.receive(5) == b"early"


@pytest.mark.parametrize("version", [V1_2, V1_3])
async def test_close_notify_of_a_client_ends_only_its_direction(
    certificates: Certificates, version: ssl.TLSVersion
) -> None:
    policy = TlsPolicy(terminating_context(certificates.proxy), originating_context(certificates.ca.path))
    client_tls = client_context(certificates.ca.path, minimum_version=version, maximum_version=version)
    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(relay, broker, client_tls, server_context(certificates.broker)) as (client, server),
        ):
            await client.send(b"last request")
            await client.finish()
            assert await server.rest() == b"last request"
            assert server.ended == "close_notify"
            await server.send(b"answer")
            await server.finish()
            assert await client.rest() == b"answer"
            assert client.ended == "close_notify"


async def test_half_close_passes_between_tls_and_plaintext(certificates: Certificates) -> None:
    with Broker() as broker:
        async with (
            running_relay(broker.address, TlsPolicy(terminating_context(certificates.proxy))) as relay,
            connected_peers(relay, broker, client_context(certificates.ca.path), None) as (client, server),
        ):
            await client.send(b"asked")
            await client.finish()
            assert await server.rest() == b"asked"
            await server.send(b"answer")
            server.finish()
            assert await client.rest() == b"answer"
            assert client.ended == "close_notify"


async def test_end_without_close_notify_is_relayed_as_such(certificates: Certificates) -> None:
    policy = TlsPolicy(terminating_context(certificates.proxy), originating_context(certificates.ca.path))
    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(
                relay, broker, client_context(certificates.ca.path), server_context(certificates.broker)
            ) as (client, server),
        ):
            await server.send(b"half of an ans")
            server.peer.finish()
            assert await client.rest() == b"half of an ans"
            assert client.ended == "eof"


async def test_server_reset_also_resets_the_client(certificates: Certificates) -> None:
    with Broker() as broker:
        async with (
            running_relay(broker.address, TlsPolicy(terminating_context(certificates.proxy))) as relay,
            connected_peers(relay, broker, client_context(certificates.ca.path), None) as (client, server),
        ):
            server.reset()
            with pytest.raises(ConnectionResetError):
                await client.rest()


async def test_relays_with_mutual_tls_on_both_sides(certificates: Certificates) -> None:
    policy = TlsPolicy(
        terminating_context(certificates.proxy, certificates.ca.path),
        originating_context(certificates.ca.path, certificates.client.certificate, certificates.client.key),
    )
    client_tls = client_context(certificates.ca.path, certificates.client)
    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(relay, broker, client_tls, server_context(certificates.broker, certificates.ca.path)) as (
                client,
                server,
            ),
        ):
            await client.send(b"asked")
            assert await server.receive(5) == b"asked"
            assert server.tls.getpeercert()["subject"] == ((("commonName", "alice"),),)
