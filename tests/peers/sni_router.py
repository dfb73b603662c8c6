"""A port that connects TLS clients to the server that they name (SNI), as managed services do.

``python -m tests.peers.sni_router HOST:PORT NAME=HOST:PORT...``; a client that asks for any other name is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from functools import partial


def requested_name(hello: bytes) -> tuple[bool, str | None]:
    """Return whether the ClientHello is complete, and the server name in it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names: list[str | None] = []
    context.sni_callback = lambda tls, name, _: names.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(hello)
    with contextlib.suppress(ssl.SSLError):  # the handshake needs more data, or lacks a certificate
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    return bool(names), names[0] if names else None


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def serve(servers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    hello, complete, name = b"", False, None
    while not complete and (data := await reader.read(65536)):
        hello += data
        complete, name = requested_name(hello)
    print(f"asked for {name}", flush=True)  # noqa: T201
    if name not in servers:
        writer.close()
        return
    host, _, port = servers[name].rpartition(":")
    responses, requests = await asyncio.open_connection(host, int(port))
    requests.write(hello)
    await asyncio.gather(relay(reader, requests), relay(responses, writer))


async def main(address: str, *servers: str) -> None:
    host, _, port = address.rpartition(":")
    servers_by_name = dict(server.split("=", 1) for server in servers)
    async with await asyncio.start_server(partial(serve, servers_by_name), host, int(port)) as server:
        print("routing", flush=True)  # noqa: T201
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
