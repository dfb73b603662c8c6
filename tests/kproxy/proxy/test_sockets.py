"""Where can be listened, what is unreachable, and what is said then."""

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


def leading_to(upstream: Address) -> Listener:
    return Listener(upstream, upstream)


def why(error: OSError | None) -> str | None:
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
async def test_without_a_host_both_loopback_addresses_lead_to_the_upstream_on_one_port() -> None:
    with Broker() as broker:
        async with relaying(f"{broker.port}", listen="0") as relay:
            hosts = {address.rpartition(":")[0] for address in relay.addresses}
            ports = {address.rpartition(":")[2] for address in relay.addresses}
            assert (hosts, len(ports)) == ({"127.0.0.1", "[::1]"}, 1)
            for address in relay.addresses:
                with await Peer.connect(address) as client, await broker.accept() as server:
                    await client.send(b"x")
                    assert await server.receive(1) == b"x"


async def test_relays_between_unix_sockets_that_only_their_owner_may_use(tmp_path: Path) -> None:
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


async def test_a_unix_socket_that_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kproxy.sock"
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(path))
    async with relaying("127.0.0.1:1", listen=f"unix:{path}"):
        (await Peer.connect(f"unix:{path}")).socket.close()


async def test_a_unix_socket_that_another_proxy_took_over_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "kproxy.sock"
    async with relaying("127.0.0.1:1", listen=f"unix:{path}"):
        path.unlink()
        other = Broker(socket.AF_UNIX, str(path))
    with other:
        assert path.exists()


def test_a_unix_socket_that_is_listened_on_is_in_use(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "kproxy.sock"))
    [sock] = listen(address)
    with sock, pytest.raises(ListenError, match=r"unix:.*kproxy\.sock is already in use: stop"):
        listen(address)


def test_a_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep")
    with pytest.raises(ListenError, match="is not a socket"):
        listen(UnixAddress(str(tmp_path / "notes.txt")))
    assert (tmp_path / "notes.txt").read_text() == "keep"


def test_a_directory_that_is_not_there_is_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="no such file or directory; choose another"):
        listen(UnixAddress(str(tmp_path / "missing" / "kproxy.sock")))


def test_a_port_that_is_listened_on_is_in_use() -> None:
    [sock] = listen(parse_listen("127.0.0.1:0"))
    with sock, pytest.raises(ListenError, match=r"127\.0\.0\.1:\d+ is already in use: stop the process on it"):
        listen(TcpAddress("127.0.0.1", sock.getsockname()[1]))


def listening_on_ipv6_alone() -> tuple[socket.socket, int]:
    """A listener on ::1, and its port, which no other test has on 127.0.0.1."""
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
def test_a_port_that_is_taken_on_one_loopback_address_is_in_use_and_the_other_is_given_back() -> None:
    sock, port = listening_on_ipv6_alone()
    with sock, pytest.raises(ListenError, match=r"\[::1]:\d+ is already in use"):
        listen(parse_listen(str(port)))
    [again] = listen(TcpAddress("127.0.0.1", port))
    again.close()


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:9092 is not an address of this machine"):
        listen(parse_listen("192.0.2.1:9092"))


def test_a_name_that_is_unknown_cannot_be_listened_on() -> None:
    with pytest.raises(ListenError, match=r"'no-such-host\.invalid' does not resolve to this machine"):
        listen(parse_listen("no-such-host.invalid:9092"))


async def test_a_listener_that_fails_closes_those_before_it() -> None:
    [taken] = listen(parse_listen("127.0.0.1:0"))
    [free] = listen(parse_listen("127.0.0.1:0"))
    ports = [sock.getsockname()[1] for sock in (free, taken)]
    free.close()
    listeners = [Listener(TcpAddress("127.0.0.1", port), parse_upstream("1")) for port in ports]
    with taken, pytest.raises(ListenError):
        async with serve(listeners):
            pass
    [again] = listen(TcpAddress("127.0.0.1", ports[0]))
    again.close()


async def test_an_upstream_that_answers_has_nothing_against_it() -> None:
    with Broker() as broker:
        assert await check_upstream(leading_to(parse_upstream(broker.address))) is None


async def test_an_upstream_that_refuses_says_so() -> None:
    with Broker(down=True) as broker:
        assert why(await check_upstream(leading_to(parse_upstream(broker.address)))) == "connection refused"


@contextmanager
def _full() -> Iterator[socket.socket]:
    """A listening socket with more clients than its queue takes: who comes after them gets no answer."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        yield full


async def test_an_upstream_that_swallows_packets_is_given_up_in_time() -> None:
    with _full() as full:
        address = TcpAddress("127.0.0.1", full.getsockname()[1])
        ended: list[Any] = []

        async def note(awaited: Awaitable[Any]) -> None:
            ended.append(await awaited)

        checking = asyncio.ensure_future(note(check_upstream(leading_to(address), within=0.1)))
        await asyncio.sleep(0)  # by now its time runs
        later = asyncio.ensure_future(note(asyncio.sleep(1, "a second later")))
        await checking
        later.cancel()
        assert reason(ended[0]) == "no answer within 0.1 s"


async def test_an_address_that_swallows_packets_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two_addresses(_: Address) -> list[tuple[int, object]]:
        return [(socket.AF_INET, full.getsockname()), (socket.AF_INET, ("127.0.0.1", broker.port))]

    def timeout(seconds: float) -> asyncio.Timeout:
        given.append(seconds)
        return real_timeout(0.01 if len(given) == 2 else seconds)  # that of the first address is over soon

    given: list[float] = []
    real_timeout = asyncio.timeout
    monkeypatch.setattr("kproxy.proxy.sockets.resolve", two_addresses)
    with _full() as full, Broker() as broker:
        monkeypatch.setattr(asyncio, "timeout", timeout)
        (await connect(parse_upstream("kafka:9092"), 20)).close()
    assert given == [20, 10, 10]


async def test_an_upstream_with_an_unknown_name_says_so() -> None:
    assert why(await check_upstream(leading_to(parse_upstream("no-such-host.invalid:9092")))) == "unknown host name"


async def test_a_unix_socket_whose_queue_is_full_is_not_taken_for_connected(tmp_path: Path) -> None:
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(path)
        full.listen(0)
        first = socket.socket(socket.AF_UNIX)
        first.connect(path)
        with pytest.raises(OSError, match="not connected"):
            await connect(UnixAddress(path), 20)
        first.close()


class _WithoutDescriptors(socket.socket):
    """A listening socket while the process has no file descriptor left."""

    exhausted = True
    tried = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.tried += 1
        if self.exhausted:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


async def test_without_file_descriptors_clients_wait_and_are_served_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def listen_without(_: Address) -> list[socket.socket]:
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        return [sock]

    monkeypatch.setattr("kproxy.proxy.relay.listen", listen_without)
    events: list[Event] = []
    with Broker() as broker, _WithoutDescriptors() as sock:
        async with relaying(broker.address, events=events) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await until(lambda: sock.tried == 2)
                assert events == [OutOfResources("too many open files")]
                sock.exhausted = False
                await client.send(b"patient")
                with await broker.accept() as server:
                    assert await server.receive(7) == b"patient"
                assert sock.tried <= 4


async def test_clients_that_leave_make_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_client_that_was_refused_for_a_shortage_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_without(*_: Any) -> socket.socket:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    monkeypatch.setattr("kproxy.proxy.client_opening.connect", connect_without)
    monkeypatch.setattr("kproxy.proxy.bound_listeners._ACCEPT_RETRY_S", 1000.0)
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            with await Peer.connect(relay.addresses[0]) as client, pytest.raises(ConnectionResetError):
                await client.receive(1)
            await until(lambda: not relay.clients)
            assert relay.listeners.lacks_resources  # the next one would be refused, too


async def test_no_file_descriptor_for_the_upstream_is_not_the_upstreams_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_without(*args: Any) -> socket.socket:
        if relay.totals.turned_away < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await connect(*args)

    monkeypatch.setattr("kproxy.proxy.client_opening.connect", connect_without)
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


async def test_an_acceptor_that_is_stopped_leaves_clients_waiting() -> None:
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
    acceptor.start()  # as a relay may ask for that has room again while it ends
    accepted[0].close()


@pytest.mark.parametrize("host", ["x" * 64, "..", "\udc80", "a\0b"])
async def test_what_a_broker_calls_its_host_may_be_no_name_at_all(host: str) -> None:
    assert why(await check_upstream(leading_to(TcpAddress(host, 9092)))) == "unknown host name"
