"""Requests to a built-in broker over a real socket, in the schemas' own names."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dissectors import schemas
from dissectors.wire.decode import decode
from dissectors.wire.layout import layout
from kproxy.broker import Broker
from tests.kproxy.frames import request


class Asking:
    """A client with a connection to each node; `broker` is who it asks, over TLS with `tls`."""

    def __init__(self, broker: Broker, client_id: str | None, tls: ssl.SSLContext | None = None) -> None:
        self.broker = broker
        self.tls = tls
        self.client_id = client_id
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._correlation_id = 0

    async def __call__(self, api: str, version: int, body: Mapping[str, Any] | None = None, *, node: int = 1) -> Any:
        """Ask a node, and give the body of its answer; those who ask at the same time wait for each other."""
        async with self._turns.setdefault(node, asyncio.Lock()):
            await self.send(api, version, body, node=node)
            return await self.receive(api, version, node=node)

    async def send(self, api: str, version: int, body: Mapping[str, Any] | None = None, *, node: int = 1) -> None:
        """Ask without waiting for the answer."""
        self._correlation_id += 1
        frame = request(api, version, dict(body or {}), correlation_id=self._correlation_id, client_id=self.client_id)
        await self.send_bytes(frame[4:], node=node)

    async def send_bytes(self, data: bytes, *, node: int = 1) -> None:
        """Send a frame, which is given without its length prefix."""
        _, writer = await self.streams(node)
        writer.write(len(data).to_bytes(4, "big") + data)
        await writer.drain()

    async def receive(self, api: str, version: int, *, node: int = 1) -> Any:
        """The body of the next answer, which must read to its last byte.

        Raises:
            asyncio.IncompleteReadError: The broker closed the connection.
        """
        reader, _ = await self.streams(node)
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        known = schemas.api_by_name(api)
        assert known is not None
        head = decode(layout("ResponseHeader", schemas.header_versions(known.key, version)[1]), frame)
        body = decode(layout(f"{api}Response", version), frame, head.end)
        assert head.error is None
        assert body.error is None
        assert body.end == len(frame)
        return body.values

    async def streams(self, node: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection to a node."""
        if node not in self._streams:
            port = self.broker.ports[node - 1]
            self._streams[node] = await asyncio.open_connection("127.0.0.1", port, ssl=self.tls)
        return self._streams[node]

    async def hang_up(self, node: int = 1) -> None:
        """Close the connection to a node; the next question opens another."""
        _, writer = self._streams.pop(node)
        writer.close()
        await writer.wait_closed()

    def another(self, client_id: str = "other") -> Asking:
        """Another client of the same broker; whoever makes it hangs up its connections."""
        return Asking(self.broker, client_id, self.tls)


@asynccontextmanager
async def asked(
    client_id: str = "test", *, said: list[str] | None = None, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[Asking]:
    """A broker of its own for a test, and who asks it. What it has to report is an error unless `said` takes it."""
    wrong: list[str] = []
    async with Broker(report=(wrong if said is None else said).append, **options) as broker:
        asking = Asking(broker, client_id, tls)
        try:
            yield asking
        finally:
            for node in list(asking._streams):
                await asking.hang_up(node)
    assert not wrong, wrong
