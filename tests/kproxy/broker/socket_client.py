"""Requests to a built-in broker over a real socket, with the field names of the schemas."""

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


class SocketClient:
    """A client with a connection to each node of `broker`, over TLS if `tls` is given."""

    def __init__(self, broker: Broker, client_id: str | None, tls: ssl.SSLContext | None = None) -> None:
        self.broker = broker
        self.tls = tls
        self.client_id = client_id
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._correlation_id = 0

    async def __call__(self, api: str, version: int, body: Mapping[str, Any] | None = None, *, node: int = 1) -> Any:
        """Send a request to a node and return the body of the response; concurrent calls wait for each other."""
        async with self._locks.setdefault(node, asyncio.Lock()):
            await self.send(api, version, body, node=node)
            return await self.receive(api, version, node=node)

    async def send(self, api: str, version: int, body: Mapping[str, Any] | None = None, *, node: int = 1) -> None:
        """Send a request without waiting for the response."""
        self._correlation_id += 1
        frame = request(api, version, dict(body or {}), correlation_id=self._correlation_id, client_id=self.client_id)
        await self.send_bytes(frame[4:], node=node)

    async def send_bytes(self, data: bytes, *, node: int = 1) -> None:
        """Send a frame; `data` excludes the length prefix."""
        _, writer = await self.streams(node)
        writer.write(len(data).to_bytes(4, "big") + data)
        await writer.drain()

    async def receive(self, api: str, version: int, *, node: int = 1) -> Any:
        """Return the body of the next response, which must decode to its last byte.

        Raises:
            asyncio.IncompleteReadError: The broker closed the connection.
        """
        reader, _ = await self.streams(node)
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        api_info = schemas.api_by_name(api)
        assert api_info is not None
        header = decode(layout("ResponseHeader", schemas.header_versions(api_info.key, version)[1]), frame)
        body = decode(layout(f"{api}Response", version), frame, header.end)
        assert header.error is None
        assert body.error is None
        assert body.end == len(frame)
        return body.values

    async def streams(self, node: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the connection to a node; open it if there is none."""
        if node not in self._streams:
            port = self.broker.ports[node - 1]
            self._streams[node] = await asyncio.open_connection("127.0.0.1", port, ssl=self.tls)
        return self._streams[node]

    async def hang_up(self, node: int = 1) -> None:
        """Close the connection to a node; the next request opens a new one."""
        _, writer = self._streams.pop(node)
        writer.close()
        await writer.wait_closed()

    def second_client(self, client_id: str = "other") -> SocketClient:
        """Return a second client of the same broker; the caller must close its connections."""
        return SocketClient(self.broker, client_id, self.tls)


@asynccontextmanager
async def broker_client(
    client_id: str = "test", *, reports: list[str] | None = None, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[SocketClient]:
    """Yield a client of a new broker. Any report from the broker is an error unless `reports` collects it."""
    unexpected: list[str] = []
    async with Broker(report=(unexpected if reports is None else reports).append, **options) as broker:
        client = SocketClient(broker, client_id, tls)
        try:
            yield client
        finally:
            for node in list(client._streams):
                await client.hang_up(node)
    assert not unexpected, unexpected
