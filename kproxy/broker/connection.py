"""A client's connection: requests in, responses out, in request order."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dissectors import schemas
from dissectors.schemas.codes import ApiKey
from dissectors.wire.errors import EncodeError
from dissectors.wire.limits import MAX_FRAME_BYTES
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.frames import RequestHead, UnreadableFrame, has_many_elements, read_body, read_head, response_frame
from kproxy.broker.quirks.engine import Quirks, apply_quirks
from kproxy.broker.quirks.quirk import Quirk
from kproxy.broker.request import ClientSession, ConnectingClient, Request
from kproxy.broker.storage_errors import may_write, with_storage_error

if TYPE_CHECKING:
    from kproxy.broker.broker import NodeListener
    from kproxy.broker.security.login import Login

T = TypeVar("T")

_MAX_LOGIN_BYTES: Final = 512 * 1024  # sasl.server.max.receive.size
#: Decoding a frame of this many bytes, or encoding this many elements, takes 10 ms or more.
_LARGE_FRAME: Final = 64 * 1024
_MANY_ELEMENTS: Final = 5000
_READ_AHEAD: Final = 1 << 20  # bytes queued behind the current frame; above this, reading pauses
_LINGER_S: Final = 1.0  # for the last response after the client has half-closed


class ClientConnection(asyncio.Protocol):
    """One connection. Like Kafka, it starts processing a request only after it has responded to the previous one.

    Args:
        server: The listener that accepted it.
        client: The client, if it connects from within this process instead of over the network.
    """

    transport: asyncio.Transport

    def __init__(self, server: NodeListener, client: ConnectingClient | None = None) -> None:
        self._server = server
        self._client = client
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0  # in _frames
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._half_closed = False
        self._response_timeout: asyncio.Timeout | None = None
        self._client_id: str | None = None
        self.session = ClientSession("")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        client = self._client
        if client is None:
            client = ConnectingClient(transport.get_extra_info("peername")[0], transport.get_extra_info("peercert"))
        self.session = self._server.session(client)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big", signed=True)
            if not 0 <= size <= (MAX_FRAME_BYTES if self.session.authenticated else _MAX_LOGIN_BYTES):
                self.close(f"length prefix says {size} bytes")
                return
            if len(self._buffer) < 4 + size:
                break
            self._frames.append(bytes(self._buffer[4 : 4 + size]))
            self._queued_bytes += size
            del self._buffer[: 4 + size]
        if self._queued_bytes > _READ_AHEAD:
            self.transport.pause_reading()
        if self._frames and self._task is None:
            self._task = self._server.tasks.create_task(self._respond_to_all())

    def eof_received(self) -> bool:
        """Handle a half-close. As in Kafka, received requests are processed: a close often follows acks=0 requests."""
        self._half_closed = True
        if self._response_timeout is not None:
            self._response_timeout.reschedule(asyncio.get_running_loop().time() + _LINGER_S)
        supports_half_close = self.transport.get_extra_info("sslcontext") is None  # TLS has no half-close
        return supports_half_close and self._task is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._writable.set()
        self.session.close()
        if exc is not None or not self._half_closed:
            self._frames.clear()
            if self._task is not None:
                self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._half_closed = False
        self.transport.abort()

    def close(self, reason: str = "") -> None:
        """Close the connection after pending writes."""
        if reason:
            self._server.report(f"{self.session.client_host}: {reason}; connection closed")
        self._frames.clear()
        self.transport.close()

    async def _respond_to_all(self) -> None:
        try:
            while self._frames:
                frame = self._frames.popleft()
                self._queued_bytes -= len(frame)
                if self._queued_bytes <= _READ_AHEAD and not self.transport.is_closing():
                    self.transport.resume_reading()
                await self._respond(frame)
                await self._writable.wait()
                if self._frames:
                    await asyncio.sleep(0)  # otherwise pipelined requests would block other clients
        except Exception as error:  # noqa: BLE001 - as in _call_handler
            self.close(f"{type(error).__name__}: {error} (a bug in kproxy's broker)")
        finally:
            self._task = None
            if self._half_closed:
                self.transport.close()

    async def _respond(self, frame: bytes) -> None:
        if (login := self.session.login) is not None and login.raw:
            self._respond_to_raw_sasl(login, frame)
            return
        try:
            head, body_offset = read_head(frame)
            head = self._fill_in_client_id(head)
            handler = self._find_handler(head)
            if handler is None:
                return
            body = await _run_maybe_in_thread(len(frame) > _LARGE_FRAME, read_body, head, frame, body_offset)
        except UnreadableFrame as frame_error:
            self.close(str(frame_error))
            return
        quirks = self._server.cluster.part(Quirks).matching_quirks(head, body)
        is_skipped = any(quirk.skips for quirk in quirks)
        response = {} if is_skipped else await self._call_handler(handler, head, body)
        if not self.transport.is_closing():
            try:
                if quirks:
                    await self._send_quirky_response(quirks, head, body, response)
                elif response is not None:
                    frame_bytes = await _run_maybe_in_thread(
                        has_many_elements(response, _MANY_ELEMENTS), response_frame, head, response
                    )
                    # With a memoryview, asyncio copies the unsent bytes only once.
                    self.transport.write(memoryview(frame_bytes))
            except EncodeError as error:
                self.close(f"{_api_and_version(head)}: the response cannot be encoded: {error}")
        if self.session.closing:
            self.close()
        elif muted_ms := self.session.muted_ms:
            self.session.muted_ms = 0
            await self._await_response(asyncio.sleep(muted_ms / 1000))

    def _respond_to_raw_sasl(self, login: Login, message: bytes) -> None:
        """Process a SASL message without a header; a failed login gets no response."""
        try:
            response = login.step(message)
        except ApiError as api_error:
            self.close(str(api_error))
        else:
            self.transport.write(len(response).to_bytes(4, "big") + response)

    async def _send_quirky_response(
        self,
        quirks: Sequence[Quirk],
        head: RequestHead,
        body: Mapping[str, Any],
        correct_body: Mapping[str, Any] | None,
    ) -> None:
        """Send the response with quirks applied to it; close the connection if a quirk requires it."""
        response = apply_quirks(quirks, head, body, correct_body or {})
        await asyncio.sleep(response.delay_ms / 1000)
        if correct_body is not None:
            self.transport.writelines(response.frames)
        if response.close:
            self.close()

    def _fill_in_client_id(self, head: RequestHead) -> RequestHead:
        """Return the head; if its client id is null, fill in the first one of the connection (KIP-1313)."""
        if head.client_id is None:
            return head._replace(client_id=self._client_id)
        if self._client_id is None:
            self._client_id = head.client_id
        return head

    async def _call_handler(self, handler: Callable[[Request], Any], head: RequestHead, body: Mapping[str, Any]) -> Any:
        server = self._server
        request = Request(head.api_key, head.version, head.client_id, body, self.session, server.node, server.cluster)
        journal = server.cluster.journal
        changes_before = journal.changes
        try:
            response = handler(request)
            if inspect.isawaitable(response):
                response = await self._await_response(response)
            if journal.changes != changes_before and may_write(request):
                try:
                    await journal.wait_until_synced()
                except ApiError:
                    return with_storage_error(request, response)
        except Exception as error:  # noqa: BLE001 - a bug in kproxy ends one connection, not the broker
            self.close(f"{_api_and_version(head)}: {type(error).__name__}: {error} (a bug in kproxy's broker)")
            return None
        return response

    async def _await_response(self, response: Awaitable[Any]) -> Any:
        """Wait for a response and return it. If the client leaves before that, close the connection and return None."""
        self._response_timeout = asyncio.timeout(_LINGER_S if self._half_closed else None)
        try:
            async with self._response_timeout:
                return await response
        except TimeoutError:
            if not self._response_timeout.expired():
                raise
            self.close()
            return None
        finally:
            self._response_timeout = None

    def _find_handler(self, head: RequestHead) -> Callable[[Request], Any] | None:
        """Return the handler of a request, or None if this method has already responded to it.

        Raises:
            UnreadableFrame: The connection must be closed.
        """
        served = self._server.cluster.served.get(head.api_key)
        if served is not None and served.lowest <= head.version <= served.highest:
            if not self.session.authenticated and not served.unauthenticated:
                raise UnreadableFrame(f"{_api_and_version(head)} before the login that this listener requires")
            if (login := self.session.login) is not None and login.expired and head.api_key != _SASL_HANDSHAKE:
                raise UnreadableFrame(f"{_api_and_version(head)} after the session expired")
            return served.handler
        if head.api_key == _API_VERSIONS:  # KIP-511: version 0, so that any client can read it
            versions = (
                [{"api_key": _API_VERSIONS, "min_version": served.lowest, "max_version": served.highest}]
                if served and served.highest >= 3
                else []  # before Kafka 2.4
            )
            body = {"error_code": Error.UNSUPPORTED_VERSION, "api_keys": versions}
            self.transport.write(response_frame(head, body, version=0))
            return None
        raise UnreadableFrame(f"{_api_and_version(head)} is not served")


async def _run_maybe_in_thread(is_large: bool, function: Callable[..., T], *args: Any) -> T:
    """Call a function that has no side effects; if `is_large`, in a thread, so as not to block other connections."""
    return await asyncio.to_thread(function, *args) if is_large else function(*args)


_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_SASL_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)


def _api_and_version(head: RequestHead) -> str:
    api = schemas.api(head.api_key)
    return f"{api.name if api else head.api_key} v{head.version}"
