"""The server, before a client that can send what it likes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from kproxy.web import messages
from kproxy.web import server as module
from kproxy.web.access import AccessControl
from kproxy.web.server import MOST_SESSIONS, WebServer

#: An application as textual-serve knows them: greets, gives back what is typed, fails or ends when it is told to.
ECHO = """
import os, sys
read, write = sys.stdin.buffer, sys.stdout.buffer
write.write(b"__GANGLION__\\nD\\0\\0\\0\\5hello")
write.flush()
while kind := read.read(1):
    size = read.read(4)
    data = read.read(int.from_bytes(size, "big"))
    if data == b"size":
        data = os.environ["COLUMNS"].encode() + b"x" + os.environ["ROWS"].encode()
        size = len(data).to_bytes(4, "big")
    if data == b"fail":
        sys.exit("it has failed")
    if kind == b"D":
        write.write(kind + size + data)
        write.flush()
    elif b'"quit"' in data:
        break
"""
COMMAND = "exec " + shlex.join([sys.executable, "-S", "-c", ECHO])


class Client:
    """A client of a running server, on whose address it stands."""

    def __init__(self, server: WebServer, door: AccessControl, port: int, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.door = door
        self.host = f"127.0.0.1:{port}"
        self._http = http

    async def get(self, path: str, *, key: bool = True, **headers: str) -> tuple[int, str, aiohttp.ClientResponse]:
        """Status, text, and all of it."""
        if key:
            headers["Cookie"] = f"{self.door.cookie}={self.door.token}"
        url = URL(f"http://{self.host}{path}", encoded=True)
        async with self._http.get(url, headers=headers, allow_redirects=False) as response:
            return response.status, await response.text(errors="replace"), response

    async def open(
        self, *, key: bool = True, name: str | None = None, size: str = "width=80&height=24", **headers: str
    ) -> aiohttp.ClientWebSocketResponse:
        """A window, of a session of its own unless it names one."""
        name = name or secrets.token_hex(16)
        headers = {"Origin": f"http://{self.host}", **headers}
        if key:
            headers["Cookie"] = f"{self.door.cookie}={self.door.token}"
        return await self._http.ws_connect(f"http://{self.host}/ws/{name}?{size}", headers=headers)

    async def refused(self, *, key: bool = True, **headers: str) -> int:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await self.open(key=key, **headers)
        return raised.value.status


NAME = "0123456789abcdef" * 2


async def begun(client: Client, name: str | None = None) -> aiohttp.ClientWebSocketResponse:
    """A session, when there is room for it."""
    async with asyncio.timeout(20):
        while await (session := await client.open(name=name)).receive_bytes() != b"hello":
            assert (await session.receive()).type == aiohttp.WSMsgType.CLOSE
    return session


async def said(session: aiohttp.ClientWebSocketResponse, text: str) -> bytes:
    """Type something; what the application gives back."""
    await session.send_str(json.dumps(["stdin", text]))
    return await session.receive_bytes(timeout=20)


async def last_words(session: aiohttp.ClientWebSocketResponse) -> bytes:
    """What a session says until it ends."""
    async with asyncio.timeout(20):
        return b"".join([message.data async for message in session])


@pytest.fixture
async def stop() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def command() -> str:
    return COMMAND


@pytest.fixture
async def client(command: str, stop: asyncio.Event) -> AsyncIterator[Client]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    door = AccessControl(None, port)
    server = WebServer(command, "kproxy <b>.pcap", door)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http, asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve_on([listening], stop))
        yield Client(server, door, port, http)
        stop.set()


PATHS = ("/", "/static/js/textual.js", "/static/", "/ws", f"/ws/{'a' * 32}", "/download/x", "/nowhere")


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_token_there_is_nothing(client: Client, path: str) -> None:
    for given in (path, f"{path}?token=x", f"{path}?token=", f"{path}?token=%ff"):
        assert (await client.get(given, key=False))[0] == 403
    other = {"Cookie": f"{client.door.cookie}=x; kproxy-1={client.door.token}; token={client.door.token}"}
    assert (await client.get(path, key=False, **other))[0] == 403
    if path != "/":
        assert (await client.get(f"{path}?token={client.door.token}", key=False))[0] == 403


async def test_the_token_gives_the_page_and_a_cookie_that_gives_the_rest(client: Client) -> None:
    status, page, response = await client.get(f"/?token={client.door.token}", key=False)
    assert status == 200
    cookie = response.cookies[client.door.cookie]
    assert (cookie.value, cookie["httponly"], cookie["samesite"], cookie["path"]) == (
        client.door.token,
        True,
        "Strict",
        "/",
    )
    assert cookie["max-age"] == cookie["expires"] == ""
    assert client.door.token not in page
    for path in ("/", *re.findall(r'(?:src|href)="(/[^"]+)"', page), *re.findall(r'url\("([^"]+)"\)', page)):
        assert (await client.get(path))[0] == 200, path


async def test_the_page_asks_for_nothing_from_elsewhere_and_may_not(client: Client) -> None:
    _, page, response = await client.get("/")
    assert set(re.findall(r"\w+://[^\s\"')]+", page)) == {f"ws://{client.host}/ws"}
    policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))
    nonce = re.search(r'nonce="([^"]+)"', page)
    assert nonce
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'self' 'nonce-{nonce[1]}'"
    assert policy["connect-src"] == f"'self' ws://{client.host}/ws/"
    assert policy["frame-ancestors"] == "'none'"
    assert nonce[1] not in (await client.get("/"))[1]
    for path in ("/", "/static/js/textual.js", "/nowhere"):
        headers = (await client.get(path))[2].headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"


async def test_what_comes_from_outside_is_not_in_the_page(client: Client) -> None:
    _, page, _ = await client.get("/?fontsize=%22%3E%3Cscript%3Ex&delay=1")
    assert "kproxy &lt;b&gt;.pcap" in page
    assert not re.search("<b>|<script>x", page)


async def test_only_what_belongs_to_the_page_is_served(client: Client) -> None:
    for path in (
        "/static/",
        "/static/..",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/download/x",
        "/nowhere",
    ):
        assert (await client.get(path))[0] in (403, 404), path


async def test_a_name_that_is_not_its_own_is_refused_with_the_right_token_too(client: Client) -> None:
    for name in ("evil.example", f"evil.example:{client.host.rpartition(':')[2]}"):
        assert (await client.get("/", Host=name))[0] == 403
        assert await client.refused(Host=name, Origin=f"http://{name}") == 403
    status, page, _ = await client.get("/", Host="localhost:9000")  # ssh -L 9000:localhost:8092
    assert status == 200
    assert "ws://localhost:9000/ws" in page


async def test_a_session_needs_the_cookie_and_begins_on_the_page(client: Client) -> None:
    assert await client.refused(key=False) == 403
    assert await client.refused(Origin="http://evil.example") == 403
    assert await client.refused(Origin=f"https://{client.host}") == 403
    assert await client.refused(Origin="null") == 403
    status, _, _ = await client.get(f"/ws/{'a' * 32}", Upgrade="websocket", Connection="Upgrade")  # no browser
    assert status == 403
    async with await begun(client) as session:
        assert await said(session, "j\x1b[A; é") == "j\x1b[A; é".encode()


async def test_there_are_so_many_sessions_and_no_more(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    assert MOST_SESSIONS == 8
    one, two = await begun(client), await begun(client)
    assert await last_words(await client.open()) == b"2 windows are open, which is the maximum: close one.\r\n"
    assert await said(two, "x") == b"x"
    await one.close()
    three = await begun(client)
    assert await said(three, "y") == b"y"
    await two.close()
    await three.close()


async def test_a_reload_comes_back_to_its_session(client: Client) -> None:
    window = await begun(client, NAME)
    assert await said(window, "\x1b[?25l\x1b[?1003h") == b"\x1b[?25l\x1b[?1003h"
    assert await said(window, "\x1b[?1003l") == b"\x1b[?1003l"
    await window.close()
    again = await client.open(name=NAME)
    assert await again.receive_bytes(timeout=20) == b"\x1b[?25l\x1b[?1003l"  # the modes of its terminal
    assert await again.receive_bytes(timeout=20) == b"\x0c"  # it is asked to draw its screen, and was not begun anew
    other = await begun(client)  # its name is its own
    assert await said(again, "x") == b"x"
    assert await said(other, "y") == b"y"


async def test_a_window_that_takes_a_session_over_leaves_the_other_one_without(client: Client) -> None:
    window = await begun(client, NAME)
    again = await client.open(name=NAME)
    assert (await window.receive(timeout=20)).type == aiohttp.WSMsgType.CLOSE
    assert await again.receive_bytes(timeout=20) == b"\x0c"
    assert await said(again, "x") == b"x"


async def test_a_session_whose_window_does_not_come_back_ends(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_S", 0.05)
    await (await begun(client, NAME)).close()
    async with asyncio.timeout(20):
        while client.server._sessions:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    await begun(client, NAME)  # with another process


async def test_a_session_without_a_window_makes_room(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 1)
    await (await begun(client, NAME)).close()
    other = await begun(client)
    assert await said(other, "x") == b"x"
    assert NAME not in client.server._sessions


async def test_a_session_that_has_ended_begins_anew(client: Client) -> None:
    window = await begun(client, NAME)
    await window.send_str('["stdin", "fail"]')
    await last_words(window)
    await begun(client, NAME)


@pytest.mark.parametrize("command", ["printf 'kproxy: a.pcap: No such file\nor directory\n' >&2; exit 2"])
async def test_a_process_that_cannot_begin_says_why_in_its_window(client: Client) -> None:
    assert await last_words(await client.open()) == b"\x1bckproxy: a.pcap: No such file\r\nor directory\r\n"


async def test_a_process_that_fails_says_why_in_its_window(client: Client) -> None:
    session = await begun(client)
    await session.send_str('["stdin", "fail"]')
    assert await last_words(session) == b"\x1bcit has failed\r\n"


async def test_sessions_end_with_the_server(client: Client, stop: asyncio.Event) -> None:
    session = await begun(client)
    assert await said(session, "x") == b"x"
    stop.set()
    message = await session.receive(timeout=20)
    assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_the_token_is_in_no_log(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.get(f"/?token={client.door.token}", key=False)
    async with await begun(client) as session:
        await said(session, "x")
        await session.send_str("no json")
    await client.get("/")
    out, err = capfd.readouterr()
    assert client.door.token not in caplog.text + out + err


def test_the_page_is_part_of_the_package() -> None:
    assert (Path(module.__file__).parent / "page.html").is_file()


@pytest.mark.parametrize(
    "text",
    ["null", "[" * 100_000, "{", "[]", '["stdin"]', '["stdin", 1]', '["resize", null]', '["resize", {"width": "x"}]',
     '["resize", {"width": [], "height": {}}]', '"', '["ping", [[]]]', '["stdin", "\\ud800"]', "1e999"],
)  # fmt: skip
async def test_malformed_messages_are_ignored(
    client: Client, text: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    session = await begun(client)
    await session.send_str(text)
    await session.send_str(json.dumps(["ping", 7]))
    answer = await session.receive(timeout=20)
    while answer.type is not aiohttp.WSMsgType.TEXT:
        answer = await session.receive(timeout=20)
    assert json.loads(answer.data) == ["pong", 7]
    assert (caplog.text, capfd.readouterr().err) == ("", "")


async def test_a_huge_window_is_limited(client: Client) -> None:
    session = await client.open(size="width=100000&height=100000")
    assert await session.receive_bytes(timeout=20) == b"hello"
    assert await said(session, "size") == b"500x200"


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (("100000", "100000"), (500, 200)),
        ((10**9, -1), (500, 1)),
        ((None, "x"), (80, 24)),
        (("9" * 5000, 24), (80, 24)),
        (([], 1.5), (80, 24)),
        (("120", "40"), (120, 40)),
    ],
)
def test_sizes_of_windows_are_limited(given: tuple[object, object], size: tuple[int, int]) -> None:
    assert messages.window_size(*given) == size
