"""Clients with which the relay cannot establish TLS, and why."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

import pytest

from dissectors.connections.tls_failures import TlsReason
from kproxy.proxy import tap_messages
from kproxy.proxy.tls.contexts import TlsPolicy
from tests.kproxy.proxy.peers import Broker, Peer, until
from tests.kproxy.proxy.test_tapped_relay import tapped
from tests.kproxy.proxy.tls_peer import TlsPeer, client_context
from tests.kproxy.proxy.tls_relay import (
    V1_2,
    V1_3,
    Certificates,
    connected,
    failures_in,
    originating,
    relaying,
    terminating,
)


async def test_a_peer_that_does_not_shake_hands_holds_up_nobody_and_is_dropped(made: Certificates) -> None:
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        policy = TlsPolicy(terminating(made.proxy))
        async with relaying(broker.address, policy, tap=tap, handshake_timeout=0.5) as relay:
            with await Peer.connect(relay.addresses[0]) as slow:
                await slow.send(b"\x16")
                async with connected(relay, broker, client_context(made.ca.path), None) as (client, server):
                    await client.send(b"meanwhile")
                    assert await server.receive(9) == b"meanwhile"
                assert await slow.rest() == b""
        failures = failures_in(await reading)
    assert failures == [("client", "proxy", TlsReason.TIMEOUT, None)]


async def test_who_only_connects_is_no_failure(made: Certificates) -> None:
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, TlsPolicy(terminating(made.proxy)), tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                client.finish()
                assert await client.rest() == b""
        messages = await reading
    assert failures_in(messages) == []
    (closed,) = (message for message in messages if isinstance(message, tap_messages.Close))
    assert (closed.by, closed.how) == ("client", "tls")


async def client_failure(
    certificates: Certificates, policy: TlsPolicy, context: ssl.SSLContext, name: str = "localhost"
) -> Any:
    """What the tap is told of a client that cannot, or does not want to, establish TLS."""
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, policy, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                tls = TlsPeer(client, context, name)
                with contextlib.suppress(ssl.SSLError, EOFError, ConnectionError):
                    await tls.shake_hands()
                    await tls.rest()
                with contextlib.suppress(OSError):
                    client.finish()
                    await client.rest()
        messages = await reading
    (failure,) = failures_in(messages)
    (opened,) = (message for message in messages if isinstance(message, tap_messages.Open))
    assert opened.tls
    assert failure[0] == "client"
    return failure[1:3]


async def test_failures_with_clients(made: Certificates) -> None:
    plain = TlsPolicy(terminating(made.proxy))
    mutual = TlsPolicy(terminating(made.proxy, made.ca.path))
    ca = made.ca.path
    assert await client_failure(made, plain, client_context(made.other_ca.path)) == ("client", TlsReason.UNKNOWN_CA)
    assert await client_failure(made, plain, client_context(ca), "other") == ("client", TlsReason.NAME_MISMATCH)
    by_address = TlsPolicy(terminating(made.ca.issue("elsewhere.test")))
    assert await client_failure(made, by_address, client_context(ca), "127.0.0.1") == (
        "client",
        TlsReason.NAME_MISMATCH,
    )
    expired = TlsPolicy(terminating(made.ca.issue("localhost", days=-3)))
    assert await client_failure(made, expired, client_context(ca)) == ("client", TlsReason.EXPIRED)
    assert await client_failure(made, mutual, client_context(ca)) == ("proxy", TlsReason.CERTIFICATE_REQUIRED)
    stranger = client_context(ca, made.other_ca.issue("mallory"))
    assert await client_failure(made, mutual, stranger) == ("proxy", TlsReason.UNKNOWN_CA)
    late = client_context(ca, made.ca.issue("bob", days=-3))
    assert await client_failure(made, mutual, late) == ("proxy", TlsReason.EXPIRED)
    early = client_context(ca, made.ca.issue("carol", days=3))
    assert await client_failure(made, mutual, early) == ("proxy", TlsReason.NOT_YET_VALID)


async def test_a_client_without_a_version_or_cipher_in_common(made: Certificates) -> None:
    ca = made.ca.path
    only_1_3 = terminating(made.proxy)
    only_1_3.minimum_version = V1_3
    old = client_context(ca, maximum_version=V1_2)
    assert await client_failure(made, TlsPolicy(only_1_3), old) == ("proxy", TlsReason.PROTOCOL_VERSION)
    old.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")  # the certificate has an ECDSA key
    assert await client_failure(made, TlsPolicy(terminating(made.proxy)), old) == ("proxy", TlsReason.NO_SHARED_CIPHER)


@pytest.mark.parametrize("says", [b"\0\0\0\x10\0\x12\0\0", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_client_that_speaks_plaintext(made: Certificates, says: bytes) -> None:
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, TlsPolicy(terminating(made.proxy)), tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await client.send(says)
                await client.rest()
        messages = await reading
    assert failures_in(messages) == [("client", "proxy", TlsReason.PLAINTEXT, None)]


@pytest.mark.parametrize("how", ["fin", "reset"])
async def test_a_client_that_leaves_during_the_handshake(made: Certificates, how: str) -> None:
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, TlsPolicy(terminating(made.proxy)), tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await client.send(b"\x16\3\1")
                await asyncio.sleep(0.05)
                client.reset() if how == "reset" else client.finish()
                await until(lambda: relay.totals.connections == 1)
                await asyncio.sleep(0.05)
        messages = await reading
    assert failures_in(messages) == [("client", "client", TlsReason.CLOSED, None)]


async def test_a_key_log_that_cannot_be_written_costs_one_connection(made: Certificates) -> None:
    context = terminating(made.proxy)
    context.keylog_filename = "/dev/full"
    policy = TlsPolicy(context)
    assert await client_failure(made, policy, client_context(made.ca.path)) == ("proxy", TlsReason.OTHER)
    with Broker() as broker:
        async with (
            relaying(broker.address, policy) as relay,
            connected(relay, broker, client_context(made.ca.path), None),
        ):
            assert context.keylog_filename is None


def test_versions_before_1_2_are_refused_whatever_python_allows(made: Certificates) -> None:
    for context in (terminating(made.proxy), originating(made.ca.path)):
        assert context.minimum_version is V1_2
