"""A relay with TLS on one side or both, between peers that use Python's ssl."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kproxy.proxy import tap_messages
from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.events import Event
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.tls import contexts
from kproxy.proxy.tls.contexts import TlsPolicy
from tests.kproxy.proxy.certificates import Authority, Files
from tests.kproxy.proxy.peers import Broker, Peer
from tests.kproxy.proxy.tls_peer import TlsPeer

V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
MIB = 1 << 20
T = TypeVar("T")


class Certificates(NamedTuple):
    ca: Authority
    proxy: Files  # for localhost and one name per broker
    broker: Files  # for 127.0.0.1
    client: Files
    other_ca: Authority


def issue_certificates(directory: Path) -> Certificates:
    ca = Authority(directory)
    other_ca = Authority(directory, "other")
    return Certificates(
        ca, ca.issue("localhost", "*.kafka.test"), ca.issue("127.0.0.1"), ca.issue("alice"), other_ca
    )  # fmt: skip


def terminating_context(files: Files, client_ca: Path | None = None) -> ssl.SSLContext:
    return in_thread(contexts.server_context, files.certificate, files.key, client_ca)


def originating_context(*arguments: Any, **settings: Any) -> ssl.SSLContext:
    return in_thread(contexts.client_context, *arguments, **settings)


def in_thread(function: Callable[..., T], *arguments: Any, **settings: Any) -> T:
    """Call a file-reading function in a thread, because tests must not block their event loop."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(function, *arguments, **settings).result()


@asynccontextmanager
async def running_relay(
    upstream: str, policy: TlsPolicy, events: list[Event] | None = None, **options: Any
) -> AsyncIterator[Relay]:
    report = (lambda event: None) if events is None else events.append
    listener = Listener(parse_listen("127.0.0.1:0"), parse_upstream(upstream), policy)
    async with asyncio.timeout(6), serve([listener], report=report, **options) as relay:
        yield relay


@asynccontextmanager
async def connected_peers(
    relay: Relay,
    broker: Broker,
    client_tls: ssl.SSLContext | None,
    server_tls: ssl.SSLContext | None,
    name: str = "localhost",
) -> AsyncIterator[tuple[Any, Any]]:
    """Connect both ends through the relay and yield them, with TLS where a context is given."""
    with await Peer.connect(relay.addresses[0]) as client:
        # kproxy connects to the upstream once the client's handshake is complete.
        client_end = client if client_tls is None else await TlsPeer(client, client_tls, name).shake_hands()
        with await broker.accept() as server:
            server_end = server if server_tls is None else await TlsPeer(server, server_tls, server=True).shake_hands()
            yield client_end, server_end


def failures_in(messages: list[tap_messages.Message]) -> list[tuple[str, str, str, str | None]]:
    return [message[2:6] for message in messages if isinstance(message, tap_messages.TapTlsFailed)]
