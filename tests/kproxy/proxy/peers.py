"""Clients and brokers that exchange plain bytes through a relay, in the test's own event loop."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.events import Event
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay, serve

#: A test that takes longer is considered hung; on a loaded machine, any test can take long.
HANG_S = 60.0
#: A loopback address that only this process uses: no port is taken, not even by a client of another process.
OWN_HOST = f"127.{64 + (os.getpid() >> 16 & 63)}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"


class Peer:
    """One end of a connection; closed when its `with` block ends."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, address: str) -> Self:
        target: Any
        host, _, port = address.rpartition(":")
        if host == "unix":
            peer, target = cls(socket.socket(socket.AF_UNIX)), port
        else:
            family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
            peer, target = cls(socket.socket(family)), (host.strip("[]"), int(port))
        try:
            await peer._loop.sock_connect(peer.socket, target)
        except OSError:
            peer.socket.close()
            raise
        return peer

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := await self._loop.sock_recv(self.socket, size - len(data))):
            data += more
        return data

    async def rest(self) -> bytes:
        """Read up to the end of the stream."""
        data = bytearray()
        while more := await self._loop.sock_recv(self.socket, 1 << 18):
            data += more
        return bytes(data)

    def finish(self) -> None:
        """Close the sending direction."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Broker:
    """A listening socket that accepts when the test calls `accept`. If `down`, it refuses, but keeps its port."""

    def __init__(self, family: int = socket.AF_INET, address: Any = ("127.0.0.1", 0), *, down: bool = False) -> None:
        self._socket = socket.socket(family)
        self._socket.setblocking(False)
        self._socket.bind(address)
        if not down:
            self.start()
        name = self._socket.getsockname()
        self.port = 0 if family == socket.AF_UNIX else name[1]
        self.address = (
            f"unix:{name}"
            if family == socket.AF_UNIX
            else f"[{name[0]}]:{name[1]}"
            if family == socket.AF_INET6
            else f"{name[0]}:{name[1]}"
        )

    def start(self) -> None:
        """Start listening."""
        self._socket.listen(1000)

    def stop(self) -> None:
        """Stop listening."""
        self._socket.close()

    async def accept(self) -> Peer:
        accepted, _ = await asyncio.get_running_loop().sock_accept(self._socket)
        return Peer(accepted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@asynccontextmanager
async def relaying(
    upstream: str, *, listen: str = "127.0.0.1:0", events: list[Event] | None = None, **options: Any
) -> AsyncIterator[Relay]:
    """Run a relay with one listener; the test fails if it hangs."""
    report = (lambda event: None) if events is None else events.append
    listener = Listener(parse_listen(listen), parse_upstream(upstream))
    async with asyncio.timeout(HANG_S), serve([listener], report=report, **options) as relay:
        yield relay


@asynccontextmanager
async def connected(relay: Relay, broker: Broker) -> AsyncIterator[tuple[Peer, Peer]]:
    """Connect a client through the relay; yield it and the broker's end of the connection."""
    with await Peer.connect(relay.addresses[0]) as client, await broker.accept() as server:
        yield client, server


async def until(condition: Callable[[], Any]) -> None:
    """Run the event loop until `condition()` is true."""
    async with asyncio.timeout(HANG_S):
        while not condition():  # noqa: ASYNC110 - the condition has no event to wait for
            await asyncio.sleep(0.001)


async def wait_until_settled(state: Callable[[], Any]) -> Any:
    """Run the event loop until the state no longer changes; return the state."""
    async with asyncio.timeout(HANG_S):
        while True:
            previous = state()
            for _ in range(20):
                await asyncio.sleep(0)
            if state() == previous:
                return previous


async def send_forever(peer: Peer, data: bytes) -> None:
    """Send `data` repeatedly until a send fails, and raise its error."""
    while True:
        await peer.send(data)
        await asyncio.sleep(0.001)
