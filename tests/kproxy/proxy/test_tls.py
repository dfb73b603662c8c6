"""The relay with TLS at one side or both, between peers that use Python's ssl."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dissectors.connections.events import Direction
from dissectors.connections.tls_failures import TlsReason
from kproxy.proxy import tap_messages
from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.advertised_listeners import Advertise, check_listeners
from kproxy.proxy.broker_names import BrokerNames
from kproxy.proxy.events import BrokerListening, Event, UpstreamReachable, UpstreamUnreachable
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.opening import check_upstream
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.tls import contexts
from kproxy.proxy.tls.contexts import TlsPolicy
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.handshake import shake_hands
from tests.kproxy.proxy.accounting import frame
from tests.kproxy.proxy.certificates import Authority, Files
from tests.kproxy.proxy.peers import Broker, Peer, until
from tests.kproxy.proxy.test_advertise import asked, learned, own_port
from tests.kproxy.proxy.test_tapped_relay import tapped
from tests.kproxy.proxy.tls_peer import TlsPeer, client_context, server_context

V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
MIB = 1 << 20


class Certificates(NamedTuple):
    ca: Authority
    proxy: Files  # for localhost and one name per broker
    broker: Files  # for 127.0.0.1
    client: Files
    other_ca: Authority


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    ca = Authority(tmp_path_factory.mktemp("ca"))
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    return Certificates(
        ca, ca.issue("localhost", "*.kafka.test"), ca.issue("127.0.0.1"), ca.issue("alice"), other
    )  # fmt: skip


def terminating(files: Files, client_ca: Path | None = None) -> ssl.SSLContext:
    return in_thread(contexts.server_context, files.certificate, files.key, client_ca)


def originating(*arguments: Any, **settings: Any) -> ssl.SSLContext:
    return in_thread(contexts.client_context, *arguments, **settings)


def in_thread(make: Callable[..., ssl.SSLContext], *arguments: Any, **settings: Any) -> ssl.SSLContext:
    """Files are read before there is an event loop; the tests may not block theirs either."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(make, *arguments, **settings).result()


@asynccontextmanager
async def relaying(
    upstream: str, policy: TlsPolicy, events: list[Event] | None = None, **options: Any
) -> AsyncIterator[Relay]:
    report = (lambda event: None) if events is None else events.append
    listener = Listener(parse_listen("127.0.0.1:0"), parse_upstream(upstream), policy)
    async with asyncio.timeout(6), serve([listener], report=report, **options) as relay:
        yield relay


@asynccontextmanager
async def connected(
    relay: Relay,
    broker: Broker,
    at_client: ssl.SSLContext | None,
    at_server: ssl.SSLContext | None,
    name: str = "localhost",
) -> AsyncIterator[tuple[Any, Any]]:
    """Both ends, with TLS where there is a context for it."""
    with await Peer.connect(relay.addresses[0]) as client:
        # kproxy connects to the upstream once the client's handshake is complete.
        inner = client if at_client is None else await TlsPeer(client, at_client, name).shake_hands()
        with await broker.accept() as server:
            outer = server if at_server is None else await TlsPeer(server, at_server, server=True).shake_hands()
            yield inner, outer


@pytest.mark.parametrize("inner", [None, V1_2, V1_3])
@pytest.mark.parametrize("outer", [None, V1_2, V1_3])
async def test_relays_with_tls_on_either_side(
    made: Certificates, inner: ssl.TLSVersion | None, outer: ssl.TLSVersion | None
) -> None:
    policy = TlsPolicy(
        None if inner is None else terminating(made.proxy),
        None if outer is None else originating(made.ca.path),
    )
    at_client = inner and client_context(made.ca.path, maximum_version=inner, minimum_version=inner)
    at_server = outer and server_context(made.broker, maximum_version=outer, minimum_version=outer)
    with Broker() as broker, tapped() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with (
            relaying(broker.address, policy, tap=tap) as relay,
            connected(relay, broker, at_client, at_server) as (client, server),
        ):
            await client.send(frame(10))
            assert await server.receive(14) == frame(10)
            await server.send(frame(20))
            assert await client.receive(24) == frame(20)
        _, opened, *messages, closed, _ = await reading
    assert isinstance(opened, tap_messages.Open)
    assert opened.tls is (inner is not None)
    data = [(each.direction, each.payload) for each in messages if isinstance(each, tap_messages.TapData)]
    assert data == [(Direction.REQUEST, frame(10)), (Direction.RESPONSE, frame(20))]
    assert isinstance(closed, tap_messages.Close)
    assert closed[4:] == (14, 24)


@pytest.mark.parametrize("tls", ["client", "server", "both"])
async def test_much_data_passes_both_ways_at_once_in_bounded_memory(made: Certificates, tls: str) -> None:
    at_client = client_context(made.ca.path) if tls != "server" else None
    at_server = server_context(made.broker) if tls != "client" else None
    policy = TlsPolicy(at_client and terminating(made.proxy), at_server and originating(made.ca.path))
    size = 20 * MIB
    requests = bytes(range(251)) * (size // 251)
    responses = requests[::-1]

    async def send(peer: Any, data: bytes) -> None:
        await peer.send(data)
        await peer.finish() if isinstance(peer, TlsPeer) else peer.finish()

    with Broker() as broker:
        async with relaying(broker.address, policy) as relay, connected(relay, broker, at_client, at_server) as ends:
            client, server = ends
            async with asyncio.TaskGroup() as group:
                group.create_task(send(client, requests))
                group.create_task(send(server, responses))
                got = group.create_task(client.rest()), group.create_task(server.rest())
            assert got[0].result() == responses
            assert got[1].result() == requests
            assert (relay.totals.request_bytes, relay.totals.response_bytes) == (len(requests), len(responses))


async def test_a_peer_that_does_not_read_holds_the_other_side_back(made: Certificates) -> None:
    policy = TlsPolicy(terminating(made.proxy), originating(made.ca.path))
    with Broker() as broker:
        async with (
            relaying(broker.address, policy) as relay,
            connected(relay, broker, client_context(made.ca.path), server_context(made.broker)) as (client, _),
        ):
            sending = asyncio.ensure_future(client.send(bytes(64 * MIB)))
            before = -1
            while relay.totals.request_bytes != before:
                before = relay.totals.request_bytes
                await asyncio.sleep(0.3)
            assert not sending.done()
            assert before < 32 * MIB
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending


async def test_what_comes_with_the_handshake_is_relayed(made: Certificates) -> None:
    with Broker() as broker:
        async with relaying(broker.address, TlsPolicy(terminating(made.proxy))) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                tls = TlsPeer(client, client_context(made.ca.path), "localhost")
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.tls.do_handshake()
                await tls._flush()
                while True:
                    tls.incoming.write(await tls._receive())
                    with contextlib.suppress(ssl.SSLWantReadError):
                        tls.tls.do_handshake()
                        break
                tls.tls.write(b"early")  # leaves together with the end of the handshake
                await tls._flush()
                with await broker.accept() as server:
                    assert await server.receive(5) == b"early"


@pytest.mark.parametrize("version", [V1_2, V1_3])
async def test_close_notify_of_a_client_ends_its_direction_alone(made: Certificates, version: ssl.TLSVersion) -> None:
    policy = TlsPolicy(terminating(made.proxy), originating(made.ca.path))
    at_client = client_context(made.ca.path, minimum_version=version, maximum_version=version)
    with Broker() as broker:
        async with (
            relaying(broker.address, policy) as relay,
            connected(relay, broker, at_client, server_context(made.broker)) as (client, server),
        ):
            await client.send(b"last request")
            await client.finish()
            assert await server.rest() == b"last request"
            assert server.ended == "close_notify"
            await server.send(b"answer")
            await server.finish()
            assert await client.rest() == b"answer"
            assert client.ended == "close_notify"


async def test_half_close_passes_between_tls_and_plaintext(made: Certificates) -> None:
    with Broker() as broker:
        async with (
            relaying(broker.address, TlsPolicy(terminating(made.proxy))) as relay,
            connected(relay, broker, client_context(made.ca.path), None) as (client, server),
        ):
            await client.send(b"asked")
            await client.finish()
            assert await server.rest() == b"asked"
            await server.send(b"answer")
            server.finish()
            assert await client.rest() == b"answer"
            assert client.ended == "close_notify"


async def test_an_end_without_close_notify_stays_one(made: Certificates) -> None:
    policy = TlsPolicy(terminating(made.proxy), originating(made.ca.path))
    with Broker() as broker:
        async with (
            relaying(broker.address, policy) as relay,
            connected(relay, broker, client_context(made.ca.path), server_context(made.broker)) as (client, server),
        ):
            await server.send(b"half of an ans")
            server.peer.finish()
            assert await client.rest() == b"half of an ans"
            assert client.ended == "eof"


async def test_a_reset_of_one_side_resets_the_other(made: Certificates) -> None:
    with Broker() as broker:
        async with (
            relaying(broker.address, TlsPolicy(terminating(made.proxy))) as relay,
            connected(relay, broker, client_context(made.ca.path), None) as (client, server),
        ):
            server.reset()
            with pytest.raises(ConnectionResetError):
                await client.rest()


async def test_mutual_tls_on_both_sides(made: Certificates) -> None:
    policy = TlsPolicy(
        terminating(made.proxy, made.ca.path),
        originating(made.ca.path, made.client.certificate, made.client.key),
    )
    at_client = client_context(made.ca.path, made.client)
    with Broker() as broker:
        async with (
            relaying(broker.address, policy) as relay,
            connected(relay, broker, at_client, server_context(made.broker, made.ca.path)) as (client, server),
        ):
            await client.send(b"asked")
            assert await server.receive(5) == b"asked"
            assert server.tls.getpeercert()["subject"] == ((("commonName", "alice"),),)


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
    (closed,) = (each for each in messages if isinstance(each, tap_messages.Close))
    assert (closed.by, closed.how) == ("client", "tls")


def failures_in(messages: list[tap_messages.Message]) -> list[tuple[str, str, str, str | None]]:
    return [each[2:6] for each in messages if isinstance(each, tap_messages.TapTlsFailed)]


async def client_failure(
    made: Certificates, policy: TlsPolicy, context: ssl.SSLContext, name: str = "localhost"
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
    (opened,) = (each for each in messages if isinstance(each, tap_messages.Open))
    assert opened.tls
    assert failure[0] == "client"
    return failure[1:3]


async def test_failures_with_clients(made: Certificates) -> None:
    plain = TlsPolicy(terminating(made.proxy))
    mutual = TlsPolicy(terminating(made.proxy, made.ca.path))
    ca = made.ca.path
    assert await client_failure(made, plain, client_context(made.other_ca.path)) == ("client", TlsReason.UNKNOWN_CA)
    assert await client_failure(made, plain, client_context(ca), "other") == ("client", TlsReason.BAD_CERTIFICATE)
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


async def upstream_failure(
    made: Certificates, policy: TlsPolicy, context: ssl.SSLContext | bytes | None, host: str = "127.0.0.1"
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
            assert await checking == expected


async def test_brokers_that_are_advertised_have_tls_too(made: Certificates) -> None:
    policy = TlsPolicy(terminating(made.proxy), originating(made.ca.path))
    at_client, at_server = client_context(made.ca.path), server_context(made.broker)
    rewriting = Rewriting(Advertise(host="localhost"))
    with Broker() as first, Broker() as second:
        async with relaying(first.address, policy, rewriting=rewriting) as relay:
            async with connected(relay, first, at_client, at_server) as (client, server):
                told = await learned(client, server, (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port))
            assert told[1] == ("localhost", own_port(relay))
            with await Peer.connect(f"127.0.0.1:{told[2][1]}") as peer:
                other = await TlsPeer(peer, at_client, "localhost").shake_hands()
                with await second.accept() as accepted:
                    reached = await TlsPeer(accepted, at_server, server=True).shake_hands()
                    await other.send(asked())
                    assert await reached.receive(len(asked())) == asked()


async def test_one_port_leads_to_all_brokers_by_their_names(made: Certificates) -> None:
    events: list[Event] = []
    policy = TlsPolicy(terminating(made.proxy))
    at_client = client_context(made.ca.path)
    rewriting = Rewriting(Advertise(names=BrokerNames("b$id.kafka.test")))
    with Broker() as first, Broker() as second:
        async with relaying(first.address, policy, events, rewriting=rewriting) as relay:
            port = own_port(relay)
            # A broker that is not known yet, and a name of no broker, lead to the bootstrap upstream.
            for name in ("b2.kafka.test", "localhost"):
                async with connected(relay, first, at_client, None, name):
                    pass
            brokers = (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port)
            async with connected(relay, first, at_client, None) as (client, server):
                told = await learned(client, server, *brokers)
            assert told == {1: ("b1.kafka.test", port), 2: ("b2.kafka.test", port)}
            assert events == [BrokerListening(2, second.address, f"b2.kafka.test:{port}")]
            async with connected(relay, first, at_client, None, "b1.kafka.test") as (client, server):
                await client.send(b"to 1")
                assert await server.receive(4) == b"to 1"
            async with connected(relay, second, at_client, None, "B2.kafka.test") as (client, server):
                assert await learned(client, server, *brokers) == told
            assert len(relay.addresses) == 1


def test_names_of_brokers() -> None:
    names = BrokerNames("broker-$id.kafka.example.com", 9092)
    assert names.place(12, 1) == ("broker-12.kafka.example.com", 9092)
    assert BrokerNames("b$id.x").place(0, 19092) == ("b0.x", 19092)
    assert names.node_id("broker-12.kafka.example.com") == 12
    assert names.node_id("Broker-0.kafka.example.com.") == 0
    for other in ("broker-.kafka.example.com", "broker-01.kafka.example.com", "broker-1xkafka.example.com", "kafka"):
        assert names.node_id(other) is None


def test_names_of_brokers_need_tls(made: Certificates) -> None:
    options = Advertise(names=BrokerNames("b$id.x"))
    listen = parse_listen("9092")
    assert "pass --tls-cert" in (check_listeners([Listener(listen, listen)], options) or "")
    assert check_listeners([Listener(listen, listen, TlsPolicy(terminating(made.proxy)))], options) is None


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


@pytest.mark.parametrize("host", ["x" * 300, "", "a\0b"])
async def test_a_server_name_that_cannot_be_one_is_a_failure(made: Certificates, host: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TlsError, match="cannot be the name of a server"):
        await shake_hands(ours, originating(made.ca.path), host)


async def test_sighup_gives_brokers_that_are_advertised_the_new_certificate(made: Certificates) -> None:
    rewriting = Rewriting(Advertise(host="localhost"))
    with Broker() as first, Broker() as second:
        async with relaying(first.address, TlsPolicy(terminating(made.proxy)), rewriting=rewriting) as relay:
            async with connected(relay, first, client_context(made.ca.path), None) as (client, server):
                told = await learned(client, server, (1, "127.0.0.1", first.port), (2, "127.0.0.1", second.port))
            newer = TlsPolicy(terminating(made.other_ca.issue("localhost")))
            listener = Listener(parse_listen("127.0.0.1:0"), parse_upstream(first.address), newer)
            assert await relay.reconfigure([listener]) == []
            with await Peer.connect(f"127.0.0.1:{told[2][1]}") as peer:
                await TlsPeer(peer, client_context(made.other_ca.path), "localhost").shake_hands()
