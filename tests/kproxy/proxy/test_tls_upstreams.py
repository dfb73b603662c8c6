"""Upstreams with which the relay cannot establish TLS, and the names by which it calls them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any

import pytest

from dissectors.connections.tls_failures import TlsReason
from kproxy.proxy import tap_messages
from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.client_opening import check_upstream
from kproxy.proxy.events import Event, UpstreamReachable, UpstreamUnreachable
from kproxy.proxy.listener import Listener
from kproxy.proxy.sockets import reason
from kproxy.proxy.tls.contexts import TlsPolicy
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.handshake import shake_hands
from tests.kproxy.proxy.peers import Broker, Peer
from tests.kproxy.proxy.test_tapped_relay import tapped
from tests.kproxy.proxy.tls_peer import TlsPeer, server_context
from tests.kproxy.proxy.tls_relay import (
    V1_2,
    V1_3,
    Certificates,
    connected,
    failures_in,
    originating,
    relaying,
)


async def upstream_failure(
    certificates: Certificates, policy: TlsPolicy, context: ssl.SSLContext | bytes | None, host: str = "127.0.0.1"
) -> Any:
    """What the tap and the user are told of an upstream with which TLS cannot be established."""
    events: list[Event] = []

    async def serve_one(broker: Broker) -> None:
        with await broker.accept() as server:
            if isinstance(context, ssl.SSLContext):
                tls = TlsPeer(server, context, server=True)
                with contextlib.suppress(ssl.SSLError, EOFError, ConnectionError):
                    await tls.shake_hands()
                    await tls.rest()
            elif context is not None:
                await server.receive(1)
                await server.send(context)

    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(f"{host}:{broker.port}", policy, events, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await serve_one(broker)
                with pytest.raises(ConnectionResetError):
                    await client.rest()
        messages = await reading
    (failure,) = failures_in(messages)
    assert failure[0] == "server"
    return *failure[1:3], *(event.reason for event in events if isinstance(event, UpstreamUnreachable))


async def test_failures_with_upstreams(made: Certificates) -> None:
    ca = made.ca.path
    plain = TlsPolicy(None, originating(ca))
    for policy, context, expected in [
        (
            TlsPolicy(None, originating(made.other_ca.path)),
            server_context(made.broker),
            ("proxy", TlsReason.UNKNOWN_CA, "TLS failed: its certificate is signed by an unknown CA"),
        ),
        (
            plain,
            server_context(made.ca.issue("127.0.0.1", days=-3)),
            ("proxy", TlsReason.EXPIRED, "TLS failed: its certificate has expired"),
        ),
        (
            plain,
            server_context(made.proxy),
            (
                "proxy",
                TlsReason.NAME_MISMATCH,
                "TLS failed: its certificate is not for this host name "
                "(IP address mismatch, certificate is not valid for '127.0.0.1')",
            ),
        ),
        (
            TlsPolicy(None, originating(ca), "broker.test"),
            server_context(made.broker),
            (
                "proxy",
                TlsReason.NAME_MISMATCH,
                "TLS failed: its certificate is not for this host name "
                "(Hostname mismatch, certificate is not valid for 'broker.test')",
            ),
        ),
        (
            plain,
            server_context(made.broker, ca, maximum_version=V1_2),
            (
                "server",
                TlsReason.NO_SHARED_CIPHER,
                "TLS failed: it found no common cipher suite, or a certificate is missing",
            ),
        ),
        (plain, b"\0\0\0\x04hello", ("proxy", TlsReason.PLAINTEXT, "TLS failed: it speaks plaintext")),
        (plain, None, ("server", TlsReason.CLOSED, "TLS failed: it closed the connection during the handshake")),
    ]:
        assert await upstream_failure(made, policy, context) == expected


async def test_an_upstream_without_a_version_in_common(made: Certificates) -> None:
    modern = originating(made.ca.path)
    modern.minimum_version = V1_3
    failure = await upstream_failure(made, TlsPolicy(None, modern), server_context(made.broker, maximum_version=V1_2))
    assert failure[:2] == ("server", TlsReason.PROTOCOL_VERSION)


async def test_an_upstream_of_tls_1_3_refuses_a_missing_certificate_after_the_handshake(made: Certificates) -> None:
    policy = TlsPolicy(None, originating(made.ca.path))
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, policy, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                with await broker.accept() as server, pytest.raises(ssl.SSLError):
                    await TlsPeer(server, server_context(made.broker, made.ca.path), server=True).shake_hands()
                with pytest.raises(ConnectionResetError):
                    await client.rest()
        messages = await reading
    assert failures_in(messages) == [("server", "server", TlsReason.CERTIFICATE_REQUIRED, None)]
    (closed,) = (message for message in messages if isinstance(message, tap_messages.Close))
    assert (closed.by, closed.how) == ("server", "tls")


async def test_an_upstream_that_is_accepted_without_verification(made: Certificates) -> None:
    policy = TlsPolicy(None, originating(verify=False))
    with Broker() as broker:
        async with (
            relaying(broker.address, policy) as relay,
            connected(relay, broker, None, server_context(made.other_ca.issue("elsewhere"))) as (client, server),
        ):
            await client.send(b"asked")
            assert await server.receive(5) == b"asked"


async def test_the_upstream_is_called_by_its_own_name_or_the_given_one(made: Certificates) -> None:
    for name, expected in [(None, "localhost"), ("b.kafka.test", "b.kafka.test")]:
        context = server_context(made.proxy)
        names: list[str | None] = []
        context.sni_callback = lambda _, requested, __, names=names: names.append(requested)  # type: ignore[misc]
        policy = TlsPolicy(None, originating(made.ca.path), name)
        with Broker() as broker:
            async with (
                relaying(f"localhost:{broker.port}", policy) as relay,
                connected(relay, broker, None, context),
            ):
                assert names == [expected]


async def test_an_upstream_with_a_new_certificate_is_reachable_again(made: Certificates) -> None:
    events: list[Event] = []
    policy = TlsPolicy(None, originating(made.ca.path))
    with Broker() as broker:
        async with relaying(broker.address, policy, events) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                with await broker.accept() as server, pytest.raises(ssl.SSLError):
                    await TlsPeer(server, server_context(made.proxy), server=True).shake_hands()
                with pytest.raises(ConnectionResetError):
                    await client.rest()
            async with connected(relay, broker, None, server_context(made.broker)):
                assert [type(event) for event in events] == [UpstreamUnreachable, UpstreamReachable]


async def test_the_check_at_the_start_establishes_tls(made: Certificates) -> None:
    for ca, expected in [(made.ca, None), (made.other_ca, "TLS failed: its certificate is signed by an unknown CA")]:
        policy = TlsPolicy(None, originating(ca.path))
        with Broker() as broker:
            listener = Listener(parse_listen("0"), parse_upstream(broker.address), policy)
            checking = asyncio.ensure_future(check_upstream(listener))
            with await broker.accept() as server, contextlib.suppress(ssl.SSLError):
                await TlsPeer(server, server_context(made.broker), server=True).shake_hands()
            error = await checking
            assert (error and reason(error)) == expected


@pytest.mark.parametrize("host", ["x" * 300, "", "a\0b"])
async def test_a_server_name_that_cannot_be_one_is_a_failure(made: Certificates, host: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TlsError, match="cannot be the name of a server"):
        await shake_hands(ours, originating(made.ca.path), host)
