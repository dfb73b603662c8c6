"""Upstreams with which the relay cannot establish TLS, and the server names it sends."""

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
from tests.kproxy.proxy.test_tapped_relay import tap_and_inspector
from tests.kproxy.proxy.tls_peer import TlsPeer, server_context
from tests.kproxy.proxy.tls_relay import (
    V1_2,
    V1_3,
    Certificates,
    connected_peers,
    failures_in,
    originating_context,
    running_relay,
)


async def upstream_failure(
    certificates: Certificates, policy: TlsPolicy, context: ssl.SSLContext | bytes | None, host: str = "127.0.0.1"
) -> Any:
    """Return the TLS failure that the tap reports for an upstream: who failed, why, and the reported sentences."""
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

    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with running_relay(f"{host}:{broker.port}", policy, events, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await serve_one(broker)
                with pytest.raises(ConnectionResetError):
                    await client.rest()
        messages = await reading
    (failure,) = failures_in(messages)
    assert failure[0] == "server"
    return *failure[1:3], *(event.reason for event in events if isinstance(event, UpstreamUnreachable))


async def test_reports_the_reason_for_an_upstream_failure(certificates: Certificates) -> None:
    ca = certificates.ca.path
    one_way_policy = TlsPolicy(None, originating_context(ca))
    for policy, context, expected in [
        (
            TlsPolicy(None, originating_context(certificates.other_ca.path)),
            server_context(certificates.broker),
            ("proxy", TlsReason.UNKNOWN_CA, "TLS failed: its certificate is signed by an unknown CA"),
        ),
        (
            one_way_policy,
            server_context(certificates.ca.issue("127.0.0.1", days=-3)),
            ("proxy", TlsReason.EXPIRED, "TLS failed: its certificate has expired"),
        ),
        (
            one_way_policy,
            server_context(certificates.proxy),
            (
                "proxy",
                TlsReason.NAME_MISMATCH,
                "TLS failed: its certificate is not for this host name "
                "(IP address mismatch, certificate is not valid for '127.0.0.1')",
            ),
        ),
        (
            TlsPolicy(None, originating_context(ca), "broker.test"),
            server_context(certificates.broker),
            (
                "proxy",
                TlsReason.NAME_MISMATCH,
                "TLS failed: its certificate is not for this host name "
                "(Hostname mismatch, certificate is not valid for 'broker.test')",
            ),
        ),
        (
            one_way_policy,
            server_context(certificates.broker, ca, maximum_version=V1_2),
            (
                "server",
                TlsReason.NO_SHARED_CIPHER,
                "TLS failed: it found no common cipher suite, or a certificate is missing",
            ),
        ),
        (one_way_policy, b"\0\0\0\x04hello", ("proxy", TlsReason.PLAINTEXT, "TLS failed: it speaks plaintext")),
        (
            one_way_policy,
            None,
            ("server", TlsReason.CLOSED, "TLS failed: it closed the connection during the handshake"),
        ),
    ]:
        assert await upstream_failure(certificates, policy, context) == expected


async def test_reports_no_common_version(certificates: Certificates) -> None:
    tls_1_3_context = originating_context(certificates.ca.path)
    tls_1_3_context.minimum_version = V1_3
    failure = await upstream_failure(
        certificates, TlsPolicy(None, tls_1_3_context), server_context(certificates.broker, maximum_version=V1_2)
    )
    assert failure[:2] == ("server", TlsReason.PROTOCOL_VERSION)


async def test_client_certificate_required_after_the_tls_1_3_handshake_is_reported(certificates: Certificates) -> None:
    policy = TlsPolicy(None, originating_context(certificates.ca.path))
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with running_relay(broker.address, policy, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                with await broker.accept() as server, pytest.raises(ssl.SSLError):
                    await TlsPeer(
                        server, server_context(certificates.broker, certificates.ca.path), server=True
                    ).shake_hands()
                with pytest.raises(ConnectionResetError):
                    await client.rest()
        messages = await reading
    assert failures_in(messages) == [("server", "server", TlsReason.CERTIFICATE_REQUIRED, None)]
    (closed,) = (message for message in messages if isinstance(message, tap_messages.Close))
    assert (closed.by, closed.how) == ("server", "tls")


async def test_accepts_any_certificate_without_verification(certificates: Certificates) -> None:
    policy = TlsPolicy(None, originating_context(verify=False))
    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(relay, broker, None, server_context(certificates.other_ca.issue("elsewhere"))) as (
                client,
                server,
            ),
        ):
            await client.send(b"asked")
            assert await server.receive(5) == b"asked"


async def test_sends_the_host_name_or_the_configured_server_name(certificates: Certificates) -> None:
    for name, expected in [(None, "localhost"), ("b.kafka.test", "b.kafka.test")]:
        context = server_context(certificates.proxy)
        names: list[str | None] = []
        context.sni_callback = lambda _, requested, __, names=names: names.append(requested)  # type: ignore[misc]
        policy = TlsPolicy(None, originating_context(certificates.ca.path), name)
        with Broker() as broker:
            async with (
                running_relay(f"localhost:{broker.port}", policy) as relay,
                connected_peers(relay, broker, None, context),
            ):
                assert names == [expected]


async def test_upstream_with_a_new_certificate_is_reachable_again(certificates: Certificates) -> None:
    events: list[Event] = []
    policy = TlsPolicy(None, originating_context(certificates.ca.path))
    with Broker() as broker:
        async with running_relay(broker.address, policy, events) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                with await broker.accept() as server, pytest.raises(ssl.SSLError):
                    await TlsPeer(server, server_context(certificates.proxy), server=True).shake_hands()
                with pytest.raises(ConnectionResetError):
                    await client.rest()
            async with connected_peers(relay, broker, None, server_context(certificates.broker)):
                assert [type(event) for event in events] == [UpstreamUnreachable, UpstreamReachable]


async def test_startup_check_establishes_tls(certificates: Certificates) -> None:
    for ca, expected in [
        (certificates.ca, None),
        (certificates.other_ca, "TLS failed: its certificate is signed by an unknown CA"),
    ]:
        policy = TlsPolicy(None, originating_context(ca.path))
        with Broker() as broker:
            listener = Listener(parse_listen("0"), parse_upstream(broker.address), policy)
            checking = asyncio.ensure_future(check_upstream(listener))
            with await broker.accept() as server, contextlib.suppress(ssl.SSLError):
                await TlsPeer(server, server_context(certificates.broker), server=True).shake_hands()
            error = await checking
            assert (error and reason(error)) == expected


@pytest.mark.parametrize("host", ["x" * 300, "", "a\0b"])
async def test_invalid_server_name_fails_the_handshake(certificates: Certificates, host: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TlsError, match="cannot be the name of a server"):
        await shake_hands(ours, originating_context(certificates.ca.path), host)
