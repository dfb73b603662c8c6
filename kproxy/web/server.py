"""The server of `kproxy web`: textual-serve's sessions with kproxy's page; requests without a token are rejected."""

from __future__ import annotations

import asyncio
import html
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from string import Template
from typing import Final

from aiohttp import web
from textual_serve.server import Server

from kproxy.web import messages
from kproxy.web.access import AccessControl, is_same_origin
from kproxy.web.session import GRACE_S, WindowProcess

MOST_SESSIONS: Final = 8
#: Seconds that a session is kept without a window, after a reload or a lost connection.
KEEP_S: Final = 30.0
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer(Server):
    """Each browser window has its own session, a process that runs a command; a reload keeps it.

    Args:
        command: A shell command. It contains nothing that a browser sends.
        title: The page's title.
        access: The access control.
    """

    def __init__(self, command: str, title: str, access: AccessControl) -> None:
        super().__init__(command, title=title)
        self._door = access
        self._page = Template((files("kproxy.web") / "page.html").read_text(encoding="utf-8"))
        self._open: set[web.WebSocketResponse] = set()
        self._sessions: dict[str, WindowProcess] = {}
        self._ending: set[asyncio.Future[None]] = set()

    async def serve_on(self, sockets: Sequence[socket.socket], stop: asyncio.Event) -> None:
        """Serve until `stop` is set; then sessions have three seconds to end."""
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=GRACE_S)
        await runner.setup()
        for each in sockets:
            await web.SockSite(runner, each).start()
        await stop.wait()
        await runner.cleanup()

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.add_routes([
            web.get("/", self.handle_index),
            web.get("/ws/{session:[A-Za-z0-9-]{16,64}}", self.handle_websocket),
            web.get("/download/{key}", self.handle_download),
            web.static("/static", self.statics_path),
        ])  # fmt: skip
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self.on_shutdown)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests without access."""
        if not self._door.is_own_host(request.host):
            raise web.HTTPForbidden(text="Unknown host name for this server.\n")
        if not self._door.is_open_to(request.query if request.path == "/" else {}, request.cookies):
            raise web.HTTPForbidden(
                text="Open the address that kproxy web printed, including its token, which is new on every start.\n"
            )
        return await handler(request)

    async def handle_index(self, request: web.Request) -> web.Response:
        """Serve the page. A token in the URL is stored in a cookie, and the page removes it from the URL.

        A redirect would not work: a browser that follows a link from another site does not send a `SameSite=Strict`
        cookie with the redirected request.
        """
        nonce = secrets.token_urlsafe(16)
        websocket = f"ws://{request.host}/ws"
        page = self._page.substitute(title=html.escape(self.title), nonce=nonce, websocket=html.escape(websocket))
        response = web.Response(text=page, content_type="text/html")
        response.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; font-src 'self';"
            f" img-src 'self' data:; connect-src 'self' {websocket}/; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'"
        )
        response.set_cookie(self._door.cookie, self._door.token, httponly=True, samesite="Strict", path="/")
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Attach a window to the session with the given name if it still exists, else to a new one."""
        if not is_same_origin(request.headers.get("Origin"), request.host):
            raise web.HTTPForbidden(text="Start sessions from this server's page only.\n")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=messages.MOST_BYTES)
        await websocket.prepare(request)
        width, height = messages.window_size(request.query.get("width"), request.query.get("height"))
        name = request.match_info["session"]
        session = self._sessions.get(name)
        if session is not None and not session.ended:
            await session.attach(websocket)
            await session.redraw(width, height)
        elif await self._has_capacity():
            session = self._sessions[name] = WindowProcess(self.command, self.download_manager)
            await session.attach(websocket)
            await session.start(width, height)
        else:
            await websocket.send_bytes(
                f"{MOST_SESSIONS} windows are open, which is the maximum: close one.\r\n".encode()
            )
            await websocket.close()
            return websocket
        self._open.add(websocket)
        try:
            await messages.pass_on(websocket, session)
        finally:
            self._open.discard(websocket)
            session.detach(websocket)
            if session.ended:
                await self._end(name, session)
            elif not session.is_attached:
                asyncio.get_running_loop().call_later(KEEP_S, self._expire, name, session, session.detached_at)
        return websocket

    async def _has_capacity(self) -> bool:
        """Whether another session may start; if needed, the session without a window for longest is ended."""
        if len(self._sessions) < MOST_SESSIONS:
            return True
        left = [(each.detached_at, name) for name, each in self._sessions.items() if not each.is_attached]
        if not left:
            return False
        _, name = min(left)
        await self._end(name, self._sessions[name])
        return True

    def _expire(self, name: str, session: WindowProcess, detached_at: float) -> None:
        """End a session unless a window has been attached since."""
        if not session.is_attached and session.detached_at == detached_at:
            task = asyncio.ensure_future(self._end(name, session))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, name: str, session: WindowProcess) -> None:
        if self._sessions.get(name) is session:
            del self._sessions[name]
        await session.end()

    async def on_shutdown(self, app: web.Application) -> None:
        """End all sessions."""
        for each in tuple(self._open):
            await each.close()
        await asyncio.gather(*(self._end(name, each) for name, each in tuple(self._sessions.items())), *self._ending)


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
