"""The server of `kproxy web`: the application, its JSON, and events; requests without a token are rejected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from socket import socket
from typing import Any, Final

from aiohttp import WSCloseCode, web

from kproxy.browse.export.capture import NO_BYTES, NoBytesError, pcapng
from kproxy.browse.pictures.over_time import over_time
from kproxy.browse.pictures.timelines import TIMELINES, timeline_json
from kproxy.browse.pictures.topics_over_time import topics_over_time
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.filters import FilterError
from kproxy.html.assemble import index_page
from kproxy.html.page import page_of_lines
from kproxy.trace.encoding import encode_json
from kproxy.web import answers
from kproxy.web.access import AccessControl, is_same_origin
from kproxy.web.csv_rows import csv_rows
from kproxy.web.pictures import Pictures
from kproxy.web.views import RowQuery, Views

_APP: Final = "kproxy.html.app"
_TYPES: Final = {"js": "text/javascript", "css": "text/css"}
_DOWNLOADS: Final = {
    "csv": "text/csv", "html": "text/html", "jsonl": "application/x-ndjson", "pcapng": "application/x-pcapng",
}  # fmt: skip
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: Seconds of work on the session between two turns of the requests, and the pauses with and without work left. The
#: first page needs some thirty requests while a trace is still being read.
_SLICE_S: Final = 0.008
_PAUSE_S: Final = 0.001
_IDLE_S: Final = 0.05
#: Seconds between two events sent to a window, and the longest time that a request waits for its filter to finish.
_EVENT_INTERVAL_S: Final = 0.25
_WAIT_S: Final = 0.3
#: Bytes of a download that are written at once.
_CHUNK: Final = 1 << 16
_MAX_WINDOWS: Final = 64
#: Default and maximum number of parts into which a picture divides the time.
_DEFAULT_PARTS: Final = 96
#: Making a page of so many rows takes a few seconds of CPU time.
_MAX_PAGE_ROWS: Final = 5_000
_MAX_PARTS: Final = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """Serves one session to all windows. A slow window only delays itself: it gets the latest state, never a backlog.

    Args:
        session: The session to show; the server reads its source.
        access: The access control.
        initial_filter: The filter with which a page begins.
    """

    def __init__(self, session: BrowseSession, access: AccessControl, initial_filter: str = "") -> None:
        self._session, self._access, self._initial_filter = session, access, initial_filter
        self._views = Views(session)
        self._pictures = Pictures()
        self._websockets: set[web.WebSocketResponse] = set()
        self._state: tuple[object, bytes] = (None, b"")

    async def serve_on(self, sockets: Sequence[socket], stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        runner = web.AppRunner(self._make_application(), access_log=None, shutdown_timeout=1)
        await runner.setup()
        async with asyncio.TaskGroup() as tasks:
            reader_tasks = [tasks.create_task(self._session.source.run()), tasks.create_task(self._read())]
            try:
                for sock in sockets:
                    await web.SockSite(runner, sock).start()
                await stop.wait()
            finally:
                for task in reader_tasks:
                    task.cancel()
                for websocket in tuple(self._websockets):
                    await websocket.close(code=WSCloseCode.GOING_AWAY)
                await runner.cleanup()

    async def _read(self) -> None:
        """Read the source in slices, between which requests are answered."""
        while True:
            has_more = self._session.work(_SLICE_S)
            await asyncio.sleep(_PAUSE_S if has_more else _IDLE_S)

    def _make_application(self) -> web.Application:
        app = web.Application(middlewares=[self._check_access])
        app.add_routes([
            web.get("/", self._get_index),
            web.get("/app/{name:[a-z_]+}.{kind:js|css}", self._get_module),
            web.get("/api/info", self._get_info),
            web.get("/api/state", self._get_state),
            web.get("/api/events", self._get_events),
            web.get("/api/rows", self._get_rows),
            web.get("/api/rows.jsonl", partial(self._download_rows, lines=answers.raw_lines, name="kproxy-rows.jsonl")),
            web.get("/api/rows.csv", partial(self._download_rows, lines=csv_rows, name="kproxy-rows.csv")),
            web.get("/api/rows.pcapng", self._download_capture),
            web.get("/api/rows.html", self._download_page),
            web.get("/api/position", self._get_position),
            web.get("/api/exchanges/{row:[0-9]{1,15}}", self._get_exchange),
            web.get("/api/causes", self._get_causes),
            web.get("/api/tables/{name:[a-z-]+}", self._get_table),
            web.get("/api/records", self._get_records),
            web.get("/api/over-time", self._get_over_time),
            web.get("/api/topics-over-time", self._get_topics_over_time),
            web.get("/api/timelines/{name:[a-z-]+}", self._get_timeline),
        ])  # fmt: skip
        app.on_response_prepare.append(_add_headers)
        return app

    @web.middleware
    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests without access, and requests from pages of other servers."""
        if not self._access.is_own_host(request.host):
            raise web.HTTPForbidden(text="Unknown host name for this server.\n")
        if not self._access.has_token(request.query if request.path == "/" else {}, request.cookies):
            raise web.HTTPForbidden(
                text="Open the address that kproxy web printed, including its token, which is new on every start.\n"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not is_same_origin(origin, request.host):
            raise web.HTTPForbidden(text="Only pages of this server may ask it.\n")
        try:
            return await handler(request)
        except FilterError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    async def _get_index(self, request: web.Request) -> web.Response:
        """Serve the page. A token in the URL is stored in a cookie, and the page removes it from the URL.

        A redirect would not work: a browser that follows a link from another site does not send a `SameSite=Strict`
        cookie with the redirected request.
        """
        response = web.Response(text=index_page(), content_type="text/html")
        response.set_cookie(self._access.cookie, self._access.token, httponly=True, samesite="Strict", path="/")
        return response

    async def _get_module(self, request: web.Request) -> web.Response:
        name, kind = request.match_info["name"], request.match_info["kind"]
        file = files(_APP) / f"{name}.{kind}"
        if not file.is_file():
            raise web.HTTPNotFound
        return web.Response(text=file.read_text(encoding="utf-8"), content_type=_TYPES[kind])

    async def _get_info(self, _: web.Request) -> web.Response:
        return _json_response(answers.info(self._initial_filter) | {"names": [self._session.source.name]})

    async def _get_state(self, _: web.Request) -> web.Response:
        return web.Response(body=self._encoded_state(), content_type="application/json")

    def _encoded_state(self) -> bytes:
        source = self._session.source
        key = self._views.version, source.phase, source.sentence, source.percent(), len(source.messages)
        if key != self._state[0]:
            self._state = key, encode_json(answers.state(self._session))
        return self._state[1]

    async def _get_events(self, request: web.Request) -> web.WebSocketResponse:
        """Send the state after each change, at most every `_EVENT_INTERVAL_S`.

        This is a websocket, because browsers limit other streams from a server to six across all windows.
        """
        if not is_same_origin(request.headers.get("Origin"), request.host):
            raise web.HTTPForbidden(text="Only pages of this server may ask it.\n")
        if len(self._websockets) >= _MAX_WINDOWS:
            raise web.HTTPServiceUnavailable(text=f"{_MAX_WINDOWS} windows are open, which is the maximum.\n")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=1024)
        await websocket.prepare(request)
        self._websockets.add(websocket)
        try:
            async with asyncio.TaskGroup() as tasks:
                sender = tasks.create_task(self._send_changes(websocket))
                async for _ in websocket:
                    pass  # windows only receive
                sender.cancel()
        finally:
            self._websockets.discard(websocket)
        return websocket

    async def _send_changes(self, websocket: web.WebSocketResponse) -> None:
        last_state = b""
        with suppress(ConnectionError):
            while not websocket.closed:
                if (state := self._encoded_state()) is not last_state:
                    await websocket.send_str(state.decode())
                    last_state = state
                await asyncio.sleep(_EVENT_INTERVAL_S)

    async def _requested_view(self, request: web.Request, *, counts: bool = False) -> SessionView:
        """Return the view that a request asks for, after filtering and sorting it for up to `_WAIT_S`."""
        query = request.query
        view = self._views.view(RowQuery(query.get("filter", ""), bool(query.get("only")), query.get("sort", "time")))
        deadline = time.perf_counter() + _WAIT_S
        if counts:
            _ = view.matching
        while time.perf_counter() < deadline:
            _, has_more = view.work(time.perf_counter() + _SLICE_S)
            if not has_more:
                break
            await asyncio.sleep(0)
        return view

    async def _get_rows(self, request: web.Request) -> web.Response:
        view = await self._requested_view(request)
        offset, limit = _query_number(request, "offset"), _query_number(request, "limit", answers.MAX_ROWS)
        return _json_response(answers.rows(self._session, view, offset, limit))

    async def _get_position(self, request: web.Request) -> web.Response:
        return _json_response(
            {"position": answers.position(await self._requested_view(request), _query_number(request, "row"))}
        )

    async def _get_exchange(self, request: web.Request) -> web.Response:
        result = answers.exchange(self._session, int(request.match_info["row"]))
        if result is None:
            raise web.HTTPNotFound(text="This frame does not exist, or is no longer kept (--keep).\n")
        return _json_response(result)

    async def _get_causes(self, request: web.Request) -> web.Response:
        return _json_response(answers.causes(self._session, await self._requested_view(request, counts=True)))

    async def _get_table(self, request: web.Request) -> web.Response:
        view = await self._requested_view(request, counts=True)
        if (result := answers.table(self._session, view, request.match_info["name"])) is None:
            raise web.HTTPNotFound(text="Unknown table.\n")
        return _json_response(result)

    async def _get_records(self, request: web.Request) -> web.Response:
        view = await self._requested_view(request)
        max_records = _query_number(request, "most", answers.MAX_ROWS)
        return _json_response(answers.records(self._session, view, _query_number(request, "from"), max_records))

    async def _get_timeline(self, request: web.Request) -> web.Response:
        view = await self._requested_view(request, counts=True)
        if (build_timelines := TIMELINES.get(request.match_info["name"])) is None:
            raise web.HTTPNotFound(text="Unknown timeline.\n")
        return _json_response(timeline_json(build_timelines(self._session, view), self._session))

    async def _get_over_time(self, request: web.Request) -> web.Response:
        view = await self._requested_view(request)
        api, parts = request.query.get("api", ""), _part_count(request)
        key = "all", *_rows_key(request), api, parts
        return _json_response(
            await self._pictures.picture(key, view, partial(over_time, self._session, view, api, parts))
        )

    async def _get_topics_over_time(self, request: web.Request) -> web.Response:
        view, parts = await self._requested_view(request), _part_count(request)
        key = "topics", *_rows_key(request), parts
        return _json_response(
            await self._pictures.picture(key, view, partial(topics_over_time, self._session, view, parts))
        )

    async def _complete_view(self, request: web.Request) -> SessionView:
        """Return the view that a request asks for, once it is completely filtered and sorted."""
        view = await self._requested_view(request)
        while view.visible.is_behind:
            view.work(time.perf_counter() + _SLICE_S)
            await asyncio.sleep(_PAUSE_S)
        return view

    async def _download_rows(
        self, request: web.Request, lines: Callable[[BrowseSession, Iterable[int]], Iterator[bytes]], name: str
    ) -> web.StreamResponse:
        return await _send_file(request, lines(self._session, await self._requested_rows(request)), name)

    async def _download_capture(self, request: web.Request) -> web.StreamResponse:
        """Send the rows of a view as a capture, or only the exchange of a row."""
        try:
            return await _send_file(
                request, pcapng(self._session, await self._requested_rows(request)), "kproxy-rows.pcapng"
            )
        except NoBytesError:
            raise web.HTTPNotFound(text=f"{NO_BYTES}\n") from None

    async def _download_page(self, request: web.Request) -> web.StreamResponse:
        """Send the rows of a view, or one exchange, as a page that needs no server."""
        rows = await self._requested_rows(request)
        if len(rows) > _MAX_PAGE_ROWS:
            limit_text = f"{len(rows):,} rows are too many for a page: filter them to {_MAX_PAGE_ROWS:,} or fewer"
            raise web.HTTPRequestEntityTooLarge(_MAX_PAGE_ROWS, len(rows), text=f"{limit_text}\n")
        lines = [line async for line in _in_turns(answers.raw_lines(self._session, rows))]
        page = await asyncio.to_thread(page_of_lines, self._session.source.name, lines)
        return await _send_file(request, iter((page,)), "kproxy-rows.html")

    async def _requested_rows(self, request: web.Request) -> Sequence[int]:
        """Return the rows of a view, or only the row that a request names."""
        if "row" in request.query:
            return (_query_number(request, "row"),)
        visible = (await self._complete_view(request)).visible
        return [visible[position] for position in range(len(visible))]


async def _in_turns(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield chunks while they are generated, in turn with other requests."""
    deadline = time.perf_counter() + _SLICE_S
    for chunk in chunks:
        yield chunk
        if time.perf_counter() > deadline:
            await asyncio.sleep(0)
            deadline = time.perf_counter() + _SLICE_S


async def _send_file(request: web.Request, chunks: Iterator[bytes], name: str) -> web.StreamResponse:
    """Send a file while it is generated, in turn with other requests. Errors before its first byte are raised."""
    response = web.StreamResponse(headers={"Content-Disposition": f'attachment; filename="{name}"'})
    response.content_type = _DOWNLOADS[name.rpartition(".")[2]]
    buffer = bytearray()
    async for chunk in _in_turns(chunks):
        buffer += chunk
        if len(buffer) >= _CHUNK:
            if not response.prepared:
                await response.prepare(request)
            await response.write(bytes(buffer))
            buffer.clear()
    if not response.prepared:
        await response.prepare(request)
    await response.write(bytes(buffer))
    return response


def _rows_key(request: web.Request) -> tuple[str, str]:
    return request.query.get("filter", ""), request.query.get("only", "")


def _part_count(request: web.Request) -> int:
    return min(max(_query_number(request, "parts", _DEFAULT_PARTS), 1), _MAX_PARTS)


def _query_number(request: web.Request, name: str, default: int = 0) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else default


def _json_response(value: Any) -> web.Response:
    return web.Response(body=encode_json(value), content_type="application/json")


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
