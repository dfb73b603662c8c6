"""Clients with which the relay cannot establish TLS, and the reasons."""

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
from tests.kproxy.proxy.test_tapped_relay import tap_and_inspector
from tests.kproxy.proxy.tls_peer import TlsPeer, client_context
from tests.kproxy.proxy.tls_relay import (
    V1_2,
    V1_3,
    Certificates,
    connected_peers,
    failures_in,
    originating_context,
    running_relay,
    terminating_context,
)


async def test_client_without_a_handshake_times_out_and_delays_no_other_client(certificates: Certificates) -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        policy = TlsPolicy(terminating_context(certificates.proxy))
        async with running_relay(broker.address, policy, tap=tap, handshake_timeout=0.5) as relay:
            with await Peer.connect(relay.addresses[0]) as slow:
                await slow.send(b"\x16")
                async with connected_peers(relay, broker, client_context(certificates.ca.path), None) as (
                    client,
                    server,
                ):
                    await client.send(b"meanwhile")
                    assert await server.receive(9) == b"meanwhile"
                assert await slow.rest() == b""
        failures = failures_in(await reading)
    assert failures == [("client", "proxy", TlsReason.TIMEOUT, None)]


async def test_connection_without_data_is_not_a_tls_failure(certificates: Certificates) -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with running_relay(broker.address, TlsPolicy(terminating_context(certificates.proxy)), tap=tap) as relay:
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
    """Return the TLS failure that the tap reports for a client: who failed, and the reason."""
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with running_relay(broker.address, policy, tap=tap) as relay:
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


async def test_reports_the_reason_for_a_client_failure(certificates: Certificates) -> None:
    one_way_policy = TlsPolicy(terminating_context(certificates.proxy))
    mutual_policy = TlsPolicy(terminating_context(certificates.proxy, certificates.ca.path))
    ca = certificates.ca.path
    assert await client_failure(certificates, one_way_policy, client_context(certificates.other_ca.path)) == (
        "client",
        TlsReason.UNKNOWN_CA,
    )
    assert await client_failure(certificates, one_way_policy, client_context(ca), "other") == (
        "client",
        TlsReason.NAME_MISMATCH,
    )
    by_address_policy = TlsPolicy(terminating_context(certificates.ca.issue("elsewhere.test")))
    assert await client_failure(certificates, by_address_policy, client_context(ca), "127.0.0.1") == (
        "client",
        TlsReason.NAME_MISMATCH,
    )
    expired_policy = TlsPolicy(terminating_context(certificates.ca.issue("localhost", days=-3)))
    assert await client_failure(certificates, expired_policy, client_context(ca)) == ("client", TlsReason.EXPIRED)
    assert await client_failure(certificates, mutual_policy, client_context(ca)) == (
        "proxy",
        TlsReason.CERTIFICATE_REQUIRED,
    )
    stranger = client_context(ca, certificates.other_ca.issue("mallory"))
    assert await client_failure(certificates, mutual_policy, stranger) == ("proxy", TlsReason.UNKNOWN_CA)
    expired_client = client_context(ca, certificates.ca.issue("bob", days=-3))
    assert await client_failure(certificates, mutual_policy, expired_client) == ("proxy", TlsReason.EXPIRED)
    not_yet_valid_client = client_context(ca, certificates.ca.issue("carol", days=3))
    assert await client_failure(certificates, mutual_policy, not_yet_valid_client) == ("proxy", TlsReason.NOT_YET_VALID)


async def test_reports_no_common_version_or_cipher(certificates: Certificates) -> None:
    ca = certificates.ca.path
    tls_1_3_context = terminating_context(certificates.proxy)
    tls_1_3_context.minimum_version = V1_3
    old_client = client_context(ca, maximum_version=V1_2)
    assert await client_failure(certificates, TlsPolicy(tls_1_3_context), old_client) == (
        "proxy",
        TlsReason.PROTOCOL_VERSION,
    )
    old_client.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")  # the certificate has an ECDSA key
    assert await client_failure(certificates, TlsPolicy(terminating_context(certificates.proxy)), old_client) == (
        "proxy",
        TlsReason.NO_SHARED_CIPHER,
    )


@pytest.mark.parametrize("data", [b"\0\0\0\x10\0\x12\0\0", b"GET / HTTP/1.1\r\n\r\n"])
async def test_reports_a_plaintext_client(certificates: Certificates, data: bytes) -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with running_relay(broker.address, TlsPolicy(terminating_context(certificates.proxy)), tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await client.send(data)
                await client.rest()
        messages = await reading
    assert failures_in(messages) == [("client", "proxy", TlsReason.PLAINTEXT, None)]


@pytest.mark.parametrize("how", ["fin", "reset"])
async def test_reports_a_client_that_leaves_during_the_handshake(certificates: Certificates, how: str) -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with running_relay(broker.address, TlsPolicy(terminating_context(certificates.proxy)), tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await client.send(b"\x16\3\1")
                await asyncio.sleep(0.05)
                client.reset() if how == "reset" else client.finish()
                await until(lambda: relay.totals.connections == 1)
                await asyncio.sleep(0.05)
        messages = await reading
    assert failures_in(messages) == [("client", "client", TlsReason.CLOSED, None)]


async def test_unwritable_key_log_fails_only_one_connection(certificates: Certificates) -> None:
    context = terminating_context(certificates.proxy)
    context.keylog_filename = "/dev/full"
    policy = TlsPolicy(context)
    assert await client_failure(certificates, policy, client_context(certificates.ca.path)) == (
        "proxy",
        TlsReason.OTHER,
    )
    with Broker() as broker:
        async with (
            running_relay(broker.address, policy) as relay,
            connected_peers(relay, broker, client_context(certificates.ca.path), None),
        ):
            assert context.keylog_filename is None


def test_minimum_tls_version_is_1_2(certificates: Certificates) -> None:
    for context in (terminating_context(certificates.proxy), originating_context(certificates.ca.path)):
        assert context.minimum_version is V1_2
