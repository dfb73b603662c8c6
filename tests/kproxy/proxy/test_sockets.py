"""Listening and connecting, and the errors when either fails."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.acceptor import Acceptor
from kproxy.proxy.address import Address, TcpAddress, UnixAddress, parse_listen, parse_upstream
from kproxy.proxy.client_opening import check_upstream
from kproxy.proxy.events import Event, OutOfResources
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import serve
from kproxy.proxy.shortage import Shortage
from kproxy.proxy.sockets import ListenError, connect, listen, reason
from tests.kproxy.proxy.peers import Broker, Peer, connected, relaying, until


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def listener_to(upstream: Address) -> Listener:
    return Listener(upstream, upstream)


def reason_or_none(error: OSError | None) -> str | None:
    return None if error is None else reason(error)


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")


@needs_ipv6
async def test_relays_from_ipv6_to_ipv6() -> None:
    with Broker(socket.AF_INET6, ("::1", 0)) as broker:
        async with relaying(broker.address, listen="[::1]:0") as relay, connected(relay, broker) as (client, server):
            assert relay.addresses[0].startswith("[::1]:")
            await client.send(b"six")
            assert await server.receive(3) == b"six"


@needs_ipv6
async def test_listener_without_host_uses_both_loopback_addresses_with_one_port() -> None:
    with Broker() as broker:
        async with relaying(f"{broker.port}", listen="0") as relay:
            hosts = {address.rpartition(":")[0] for address in relay.addresses}
            ports = {address.rpartition(":")[2] for address in relay.addresses}
            assert (hosts, len(ports)) == ({"127.0.0.1", "[::1]"}, 1)
            for address in relay.addresses:
                with await Peer.connect(address) as client, await broker.accept() as server:
                    await client.send(b"x")
                    assert await server.receive(1) == b"x"


async def test_relays_between_unix_sockets_with_owner_only_permissions(tmp_path: Path) -> None:
    path = tmp_path / "kproxy.sock"
    with Broker(socket.AF_UNIX, str(tmp_path / "kafka.sock")) as broker:
        async with relaying(broker.address, listen=f"unix:{path}") as relay:
            assert relay.addresses == [f"unix:{path}"]
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            async with connected(relay, broker) as (client, server):
                await client.send(b"question")
                client.finish()
                assert await server.rest() == b"question"
                await server.send(b"answer")
                server.finish()
                assert await client.rest() == b"answer"
    assert not path.exists()


async def test_stale_unix_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kproxy.sock"
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(path))
    async with relaying("127.0.0.1:1", listen=f"unix:{path}"):
        (await Peer.connect(f"unix:{path}")).socket.close()


async def test_unix_socket_taken_over_by_a_different_process_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "kproxy.sock"
    async with relaying("127.0.0.1:1", listen=f"unix:{path}"):
        path.unlink()
        other = Broker(socket.AF_UNIX, str(path))
    with other:
        assert path.exists()


def test_active_unix_socket_is_reported_as_in_use(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "kproxy.sock"))
    [sock] = listen(address)
    with sock, pytest.raises(ListenError, match=r"unix:.*kproxy\.sock is already in use: stop"):
        listen(address)


def test_regular_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep")
    with pytest.raises(ListenError, match="is not a socket"):
        listen(UnixAddress(str(tmp_path / "notes.txt")))
    assert (tmp_path / "notes.txt").read_text() == "keep"


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="no such file or directory; choose another"):
        listen(UnixAddress(str(tmp_path / "missing" / "kproxy.sock")))


def test_occupied_port_is_reported_as_in_use() -> None:
    [sock] = listen(parse_listen("127.0.0.1:0"))
    with sock, pytest.raises(ListenError, match=r"127\.0\.0\.1:\d+ is already in use: stop the process on it"):
        listen(TcpAddress("127.0.0.1", sock.getsockname()[1]))


def listen_on_ipv6_only() -> tuple[socket.socket, int]:
    """Listen on ::1; return the socket and its port, which is free on 127.0.0.1."""
    while True:
        [sock] = listen(parse_listen("[::1]:0"))
        port = sock.getsockname()[1]
        try:
            [other] = listen(TcpAddress("127.0.0.1", port))
        except ListenError:
            sock.close()
        else:
            other.close()
            return sock, port


@needs_ipv6
def test_port_occupied_on_one_loopback_address_releases_the_other() -> None:
    sock, port = listen_on_ipv6_only()
    with sock, pytest.raises(ListenError, match=r"\[::1]:\d+ is already in use"):
        listen(parse_listen(str(port)))
    [reopened] = listen(TcpAddress("127.0.0.1", port))
    reopened.close()


def test_rejects_listening_on_an_address_of_a_different_machine() -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:9092 is not an address of this machine"):
        listen(parse_listen("192.0.2.1:9092"))


def test_rejects_listening_on_an_unknown_host_name() -> None:
    with pytest.raises(ListenError, match=r"'no-such-host\.invalid' does not resolve to this machine"):
        listen(parse_listen("no-such-host.invalid:9092"))


async def test_failing_listener_closes_the_earlier_ones() -> None:
    [taken] = listen(parse_listen("127.0.0.1:0"))
    [free] = listen(parse_listen("127.0.0.1:0"))
    ports = [sock.getsockname()[1] for sock in (free, taken)]
    free.close()
    listeners = [Listener(TcpAddress("127.0.0.1", port), parse_upstream("1")) for port in ports]
    with taken, pytest.raises(ListenError):
        async with serve(listeners):
            pass
    [reopened] = listen(TcpAddress("127.0.0.1", ports[0]))
    reopened.close()


async def test_check_of_a_reachable_upstream_finds_no_error() -> None:
    with Broker() as broker:
        assert await check_upstream(listener_to(parse_upstream(broker.address))) is None


async def test_check_reports_a_refused_connection() -> None:
    with Broker(down=True) as broker:
        assert reason_or_none(await check_upstream(listener_to(parse_upstream(broker.address)))) == "connection refused"


@contextmanager
def full_listener() -> Iterator[socket.socket]:
    """Yield a listening socket whose queue is full, so that further clients get no response."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        yield full


async def test_check_times_out_if_the_upstream_drops_packets() -> None:
    with full_listener() as full:
        address = TcpAddress("127.0.0.1", full.getsockname()[1])
        results: list[Any] = []

        async def record(awaited: Awaitable[Any]) -> None:
            results.append(await awaited)

        checking = asyncio.ensure_future(record(check_upstream(listener_to(address), timeout_s=0.1)))
        await asyncio.sleep(0)  # its timeout has started
        timer = asyncio.ensure_future(record(asyncio.sleep(1, "a second later")))
        await checking
        timer.cancel()
        assert reason(results[0]) == "no answer within 0.1 s"


async def test_connect_divides_the_timeout_between_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve_to_two_addresses(_: Address) -> list[tuple[int, object]]:
        return [(socket.AF_INET, full.getsockname()), (socket.AF_INET, ("127.0.0.1", broker.port))]

    def timeout(seconds: float) -> asyncio.Timeout:
        timeouts.append(seconds)
        return real_timeout(0.01 if len(timeouts) == 2 else seconds)  # the timeout of the first address expires soon

    timeouts: list[float] = []
    real_timeout = asyncio.timeout
    monkeypatch.setattr("kproxy.proxy.sockets.resolve", resolve_to_two_addresses)
    with full_listener() as full, Broker() as broker:
        monkeypatch.setattr(asyncio, "timeout", timeout)
        (await connect(parse_upstream("kafka:9092"), 20)).close()
    assert timeouts == [20, 10, 10]


async def test_check_reports_an_unknown_host_name() -> None:
    assert (
        reason_or_none(await check_upstream(listener_to(parse_upstream("no-such-host.invalid:9092"))))
        == "unknown host name"
    )


async def test_connect_fails_if_the_queue_of_the_unix_socket_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(path)
        full.listen(0)
        first = socket.socket(socket.AF_UNIX)
        first.connect(path)
        with pytest.raises(OSError, match="not connected"):
            await connect(UnixAddress(path), 20)
        first.close()


class DescriptorlessSocket(socket.socket):
    """A listening socket while the process has no file descriptor left."""

    exhausted = True
    attempts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.attempts += 1
        if self.exhausted:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


async def test_clients_wait_while_file_descriptors_are_exhausted(monkeypatch: pytest.MonkeyPatch) -> None:
    def listen_without_descriptors(_: Address) -> list[socket.socket]:
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        return [sock]

    monkeypatch.setattr("kproxy.proxy.relay.listen", listen_without_descriptors)
    events: list[Event] = []
    with Broker() as broker, DescriptorlessSocket() as sock:
        async with relaying(broker.address, events=events) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await until(lambda: sock.attempts == 2)
                assert events == [OutOfResources("too many open files")]
                sock.exhausted = False
                await client.send(b"patient")
                with await broker.accept() as server:
                    assert await server.receive(7) == b"patient"
                assert sock.attempts <= 4


async def test_accepts_clients_at_once_when_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.bound_listeners._ACCEPT_RETRY_S", 1000.0)

    def check(_shortage: Shortage, _descriptor: int) -> None:
        if len(relay.clients) >= 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Shortage, "check", check)
    events: list[Event] = []
    with Broker() as broker:
        async with relaying(broker.address, events=events) as relay:
            clients = [await Peer.connect(relay.addresses[0]) for _ in range(50)]
            for client in clients:
                await client.send(b"x")
            await until(lambda: relay.listeners.lacks_resources)
            for client in clients:
                with await broker.accept() as server, client:
                    assert await server.receive(1) == b"x"
            await until(lambda: not relay.clients)
            assert relay.totals.connections == 50
            assert not relay.listeners.lacks_resources
    assert events == [OutOfResources("too many open files")]


async def test_client_refused_for_a_shortage_does_not_resume_accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_without_descriptors(*_: Any) -> socket.socket:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    monkeypatch.setattr("kproxy.proxy.client_opening.connect", connect_without_descriptors)
    monkeypatch.setattr("kproxy.proxy.bound_listeners._ACCEPT_RETRY_S", 1000.0)
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            with await Peer.connect(relay.addresses[0]) as client, pytest.raises(ConnectionResetError):
                await client.receive(1)
            await until(lambda: not relay.clients)
            assert relay.listeners.lacks_resources  # the next client would also be refused


async def test_descriptor_shortage_does_not_mark_the_upstream_as_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_without_descriptors(*args: Any) -> socket.socket:
        if relay.totals.turned_away < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await connect(*args)

    monkeypatch.setattr("kproxy.proxy.client_opening.connect", connect_without_descriptors)
    monkeypatch.setattr("kproxy.proxy.bound_listeners._ACCEPT_RETRY_S", 0.01)
    events: list[Event] = []
    with Broker() as broker:
        async with relaying(broker.address, events=events) as relay:
            for _ in range(3):
                with await Peer.connect(relay.addresses[0]) as client, pytest.raises(ConnectionResetError):
                    await client.receive(1)
            async with connected(relay, broker) as (client, server):
                await client.send(b"x")
                assert await server.receive(1) == b"x"
    assert events == [OutOfResources("too many open files")]


async def test_stopped_acceptor_leaves_clients_in_the_queue() -> None:
    accepted: list[socket.socket] = []
    [sock] = listen(parse_listen("127.0.0.1:0"))
    acceptor = Acceptor(sock, lambda client, name: accepted.append(client), lambda error: None)
    acceptor.start()
    acceptor.stop()
    with await Peer.connect(acceptor.name):
        await asyncio.sleep(0.02)
        assert not accepted
        acceptor.start()
        await until(lambda: accepted)
    acceptor.close()
    acceptor.start()  # as a relay may do when resources are free during shutdown
    accepted[0].close()


@pytest.mark.parametrize("host", ["x" * 64, "..", "\udc80", "a\0b"])
async def test_check_reports_an_invalid_host_name(host: str) -> None:
    assert reason_or_none(await check_upstream(listener_to(TcpAddress(host, 9092)))) == "unknown host name"
