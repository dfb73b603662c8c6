"""One end of a TLS connection in the test's own event loop, with Python's ssl and no code of kproxy."""

from __future__ import annotations

import contextlib
import ssl
from typing import Any

from tests.kproxy.proxy.certificates import Files
from tests.kproxy.proxy.peers import Peer

_CHUNK = 1 << 16


class TlsPeer:
    """TLS over a peer; `ended` tells how its stream ended: ``close_notify`` or ``eof``."""

    def __init__(self, peer: Peer, context: ssl.SSLContext, name: str | None = None, *, server: bool = False) -> None:
        self.peer = peer
        self.ended = ""
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server, name)
        self._plain = b""

    async def shake_hands(self) -> TlsPeer:
        """Complete the handshake, or raise the error of Python's ssl."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._receive()
                if not data:
                    raise EOFError from None
                self.incoming.write(data)
            except ssl.SSLError:
                await self._flush()
                raise
            else:
                await self._flush()
                return self

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            self.tls.write(data[start : start + _CHUNK])
            await self._flush()

    async def receive(self, size: int) -> bytes:
        while len(self._plain) < size and not self.ended:
            await self._read()
        data, self._plain = self._plain[:size], self._plain[size:]
        return data

    async def rest(self) -> bytes:
        chunks = [self._plain]
        while not self.ended:
            self._plain = b""
            await self._read()
            chunks.append(self._plain)
        self._plain = b""
        return b"".join(chunks)

    async def finish(self) -> None:
        """Send close_notify; the other direction stays open."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self._flush()

    async def _read(self) -> None:
        try:
            plaintext = self.tls.read(_CHUNK)
        except ssl.SSLWantReadError:
            data = await self._receive()
            if data:
                self.incoming.write(data)
            else:
                self.ended = "eof"
        except ssl.SSLZeroReturnError:
            self.ended = "close_notify"
        else:
            self._plain += plaintext
            if not plaintext:
                self.ended = "close_notify"

    async def _receive(self) -> bytes:
        return await self.peer._loop.sock_recv(self.peer.socket, _CHUNK)

    async def _flush(self) -> None:
        if data := self.outgoing.read():
            await self.peer.send(data)


def client_context(ca: Any, files: Files | None = None, **settings: Any) -> ssl.SSLContext:
    """Return a client's context; `settings` are attributes of the context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    return _configure(context, files, settings)


def server_context(files: Files, client_ca: Any = None, **settings: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return _configure(context, files, settings)


def _configure(context: ssl.SSLContext, files: Files | None, settings: dict[str, Any]) -> ssl.SSLContext:
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    for name, value in settings.items():
        setattr(context, name, value)
    return context
