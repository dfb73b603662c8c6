"""The server, before a client that can send what it likes."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import FilterError
from kproxy.trace.lines import FRAME_LINES, Detail, RequestLine
from kproxy.web import answers, views
from kproxy.web.access import AccessControl
from kproxy.web.pictures import Pictures
from kproxy.web.server import WebServer
from tests.kproxy.browse.sessions import LinesSource, finding, request, response, session_of
from tests.kproxy.capture_results import lines_of
from tests.kproxy.html.test_page import exchange

CAPTURES = Path(__file__).parents[3] / "captures"
EVIL = "<img src=x>"


class Client:
    """A client of a running server, on whose address it stands."""

    def __init__(self, source: LinesSource, door: AccessControl, port: int, http: aiohttp.ClientSession) -> None:
        self.source = source
        self.door = door
        self.host = f"127.0.0.1:{port}"
        self._http = http

    async def get(self, path: str, *, key: bool = True, **headers: str) -> tuple[int, str, aiohttp.ClientResponse]:
        """Status, text, and all of it."""
        status, body, response = await self.read(path, key=key, **headers)
        return status, body.decode(response.get_encoding(), errors="replace"), response

    async def read(self, path: str, *, key: bool = True, **headers: str) -> tuple[int, bytes, aiohttp.ClientResponse]:
        """Status, bytes, and all of it."""
        if key:
            headers["Cookie"] = f"{self.door.cookie}={self.door.token}"
        url = URL(f"http://{self.host}{path}", encoded=True)
        async with self._http.get(url, headers=headers, allow_redirects=False) as response:
            return response.status, await response.read(), response

    async def json(self, path: str) -> Any:
        status, text, _ = await self.get(path)
        assert status == 200, text
        return json.loads(text)

    async def until(self, path: str, fits: Any) -> Any:
        """The answer, once it fits."""
        async with asyncio.timeout(60):
            while not fits(http_response := await self.json(path)):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
        return http_response

    async def events(self, *, key: bool = True, origin: str | None = None) -> aiohttp.ClientWebSocketResponse:
        headers = {"Origin": origin or f"http://{self.host}"}
        if key:
            headers["Cookie"] = f"{self.door.cookie}={self.door.token}"
        return await self._http.ws_connect(f"http://{self.host}/api/events", headers=headers)


@pytest.fixture
def lines() -> list[Any]:
    slow = request(1, api="Fetch")
    wrong = request(2, api="Metadata", api_key=3, at=1, client_id=EVIL, findings=[finding(code="L005")])
    return [slow, wrong, response(wrong, after_us=10), response(slow, after_us=900_000)]


@pytest.fixture
async def client(lines: list[Any]) -> AsyncIterator[Client]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    door = AccessControl(None, port)
    source = LinesSource(lines, phase=SourcePhase.LIVE)
    server, stop = WebServer(BrowseSession(source), door, "api=Fetch"), asyncio.Event()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http, asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve_on([listening], stop))
        yield Client(source, door, port, http)
        stop.set()
        await serving
    source.close()


PATHS = (
    "/", "/app/main.js", "/app/page.css", "/api/info", "/api/state", "/api/rows", "/api/rows.jsonl", "/api/rows.csv",
    "/api/rows.pcapng", "/api/position", "/api/exchanges/0", "/api/causes", "/api/tables/apis", "/api/records",
    "/api/events", "/api/over-time", "/api/topics-over-time", "/api/timelines/groups", "/nowhere",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_token_there_is_nothing(client: Client, path: str) -> None:
    for given in (path, f"{path}?token=x", f"{path}?token=", f"{path}?token=%ff"):
        assert (await client.get(given, key=False))[0] == 403
    other = {"Cookie": f"{client.door.cookie}=x; kproxy-1={client.door.token}; token={client.door.token}"}
    assert (await client.get(path, key=False, **other))[0] == 403
    if path != "/":
        assert (await client.get(f"{path}?token={client.door.token}", key=False))[0] == 403
    for name in ("evil.example", f"evil.example:{client.host.rpartition(':')[2]}"):
        assert (await client.get(path, Host=name))[0] == 403
    for origin in ("http://evil.example", f"https://{client.host}", "null"):
        assert (await client.get(path, Origin=origin))[0] == 403


async def test_the_token_gives_the_page_and_a_cookie_that_gives_the_rest(client: Client) -> None:
    status, page, response = await client.get(f"/?token={client.door.token}", key=False)
    assert status == 200
    cookie = response.cookies[client.door.cookie]
    assert (cookie.value, cookie["httponly"], cookie["samesite"], cookie["path"]) == (
        client.door.token, True, "Strict", "/",
    )  # fmt: skip
    assert client.door.token not in page
    preloaded = set(re.findall(r'rel="modulepreload" href="(app/[^"]+)"', page))
    wanted: list[str] = re.findall(r'src="(app/[^"]+)"', page)
    seen: set[str] = set()
    wanted.append("app/page.css")
    while wanted:
        if (path := wanted.pop()) in seen:
            continue
        seen.add(path)
        status, text, response = await client.get(f"/{path}")
        assert (status, response.content_type) == (200, "text/css" if path.endswith("css") else "text/javascript")
        wanted += [f"app/{name}" for name in re.findall(r'^import .* from "\./(\w+\.js)";$', text, re.MULTILINE)]
    assert {"app/main.js", "app/pane.js", "app/filter_match.js"} <= seen
    assert preloaded == seen - {"app/served.js", "app/page.css"}  # each is asked for at once, and nothing else
    for path in ("/app/__init__.py", "/app/../assemble.py", "/app/%2e%2e/assemble.py", "/app/", "/app/x.js", "/static"):
        assert (await client.get(path))[0] in (403, 404), path


async def test_the_page_may_ask_nobody_else(client: Client) -> None:
    for path in ("/", "/app/main.js", "/api/rows", "/nowhere"):
        headers = (await client.get(path))[2].headers
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy.pop("img-src") == "data:"
        assert set(policy.values()) == {"'none'", "'self'"}
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"


async def test_rows_are_filtered_sorted_and_paged_by_the_server(client: Client) -> None:
    found = await client.until("/api/rows", lambda answer: answer["count"] == 2)
    assert [row[4] for row in found["rows"]] == ["Fetch", "Metadata"]
    for query, apis in (
        ("filter=latency%3E1ms", ["Fetch"]), ("only=1", ["Metadata"]), ("sort=api", ["Fetch", "Metadata"]),
        ("sort=-latency", ["Metadata", "Fetch"]), ("sort=latency", ["Fetch", "Metadata"]), ("offset=1", ["Metadata"]),
        ("limit=1", ["Fetch"]), ("offset=9", []), ("offset=x&limit=-1&sort=nosuch", ["Fetch", "Metadata"]),
        ("filter=metadata", ["Metadata"]), ("filter=%22img%20SRC%22", ["Metadata"]), ("filter=nowhere", []),
    ):  # fmt: skip
        assert [row[4] for row in (await client.json(f"/api/rows?{query}"))["rows"]] == apis, query
    assert (await client.json("/api/position?row=1&sort=-latency"))["position"] == 0
    assert (await client.json("/api/position?row=1&filter=api%3DFetch"))["position"] == -1
    status, text, _ = await client.get("/api/rows?filter=api%3DFech")
    assert (status, text) == (400, "unknown api 'Fech' at column 5: did you mean 'Fetch'?\n")


async def test_an_exchange_a_cause_and_a_table(client: Client) -> None:
    await client.until("/api/rows", lambda answer: answer["count"] == 2)
    found = await client.json("/api/exchanges/1")
    assert found["row"][3] == EVIL
    assert [line["kind"] for line in found["lines"]] == ["request", "response"]
    assert (await client.get("/api/exchanges/2"))[0] == (await client.get("/api/exchanges/999999999999999"))[0] == 404
    [cause] = await client.json("/api/causes")
    assert (cause["code"], cause["row"], cause["filter"]) == ("L005", 1, "finding=L005")
    assert await client.json("/api/causes?filter=api%3DFetch") == []
    table = await client.json("/api/tables/apis?filter=api%3DFetch")
    assert [row["key"] for row in table["rows"]] == ["Fetch"]
    for name in ("connections", "topics", "groups", "transactions", "share-groups", "clients", "brokers"):
        assert (await client.json(f"/api/tables/{name}"))["columns"]
    assert (await client.get("/api/tables/nosuch"))[0] == 404
    assert (await client.json("/api/info"))["filter"] == "api=Fetch"


@pytest.mark.parametrize("lines", [exchange("orders")])
async def test_records_and_downloads(client: Client) -> None:
    await client.until("/api/rows", lambda answer: answer["count"] == 1)
    found = await client.json("/api/records")
    [[row, [part]]] = found["exchanges"]
    assert (row[4], part["topic"], part["partition"], found["next"]) == ("Produce", "orders", 0, None)
    assert [part["rows"][0][at][1] for at in (2, 3)] == ["orders", '{\n  "a": 1\n}']
    assert (await client.json("/api/records?filter=api%3DFetch"))["exchanges"] == []
    _, text, answer = await client.get("/api/rows.jsonl")
    assert [json.loads(line)["kind"] for line in text.splitlines()] == ["request", "response"]
    assert answer.headers["Content-Disposition"] == 'attachment; filename="kproxy-rows.jsonl"'
    _, text, _ = await client.get("/api/rows.csv?filter=orders")
    titles, row_text = text.splitlines()
    assert titles.startswith("time,connection,client,API,")
    assert ",Produce,v7,orders[0]," in row_text


@pytest.mark.parametrize("lines", [[request(1, client_id='=HYPERLINK("x")')]])
async def test_a_text_is_no_formula_in_a_spreadsheet(client: Client) -> None:
    await client.until("/api/rows", lambda answer: answer["count"] == 1)
    _, text, _ = await client.get("/api/rows.csv")
    assert ',"\'=HYPERLINK(""x"")",' in text


async def test_windows_get_the_state_when_it_changes(client: Client) -> None:
    async with await client.events() as one, await client.events() as other:
        async with asyncio.timeout(60):
            for window in (one, other):
                while json.loads((await window.receive()).data)["rows"] != 2:
                    pass
            client.source.add(request(3, at=2))
            for window in (one, other):
                while (state := json.loads((await window.receive()).data))["rows"] != 3:
                    pass
    assert (state["live"], state["exchanges"], state["waiting"]) == (True, 3, 1)


@pytest.mark.parametrize(("key", "origin"), [(False, None), (True, "http://evil.example"), (True, "null")])
async def test_events_need_the_cookie_and_the_page(client: Client, key: bool, origin: str | None) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        await client.events(key=key, origin=origin)
    assert raised.value.status == 403
    status, _, _ = await client.get("/api/events", Upgrade="websocket", Connection="Upgrade")  # no browser
    assert status == 403


def test_views_are_dropped_when_there_are_many(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    session = session_of(lines)
    found = views.Views(session)
    assert found.view(views.RowQuery()) is session.view
    first, second = (found.view(views.RowQuery(text)) for text in ("size>1", "size>2"))
    assert found.view(views.RowQuery("size>1")) is first
    third = found.view(views.RowQuery("size>2", only_findings=True))
    assert session.views == [first, third]  # the second was not used for longest
    assert second not in session.views
    assert found.view(views.RowQuery("size>2")) is not second
    with pytest.raises(FilterError):
        found.view(views.RowQuery("size>"))
    assert len(session.views) == 2


def test_views_of_a_live_source_that_nobody_uses_are_dropped(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "KEEP_S", -1.0)
    for phase, count in ((SourcePhase.ENDED, 2), (SourcePhase.LIVE, 1)):
        session = session_of(lines, phase=phase)
        found = views.Views(session)
        for text in ("size>1", "size>2"):
            last = found.view(views.RowQuery(text))
        assert len(session.views) == count
        assert session.views[-1] is last


async def test_an_answer_has_a_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.until("/api/rows", lambda answer: answer["count"] == 2)
    monkeypatch.setattr(answers, "MAX_ROWS", 1)
    assert len((await client.json("/api/rows?limit=9"))["rows"]) == 1


async def test_the_token_is_in_no_log(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.get(f"/?token={client.door.token}", key=False)
    async with await client.events() as window:
        await window.send_str("no json")
    await client.get("/")
    out, err = capfd.readouterr()
    assert client.door.token not in caplog.text + out + err


async def test_a_picture_of_the_rows_of_a_filter(client: Client) -> None:
    made = await client.until("/api/over-time?parts=2", lambda found: len(found["apis"]) == 2)
    assert made["apis"] == [["Fetch", 1], ["Metadata", 1]]
    assert made["percentiles"] == [[900_000] * 3, [10] * 3]
    only = await client.until("/api/over-time?filter=api%3DFetch&parts=1", lambda found: not found["busy"])
    assert only["apis"] == [["Fetch", 1]]
    assert (await client.json("/api/over-time?api=Metadata&parts=1"))["percentiles"] == [[10, 10, 10]]
    assert (await client.json("/api/over-time?parts=999999"))["parts"] == 200
    assert (await client.get("/api/over-time?filter=api%3D"))[0] == 400
    topics = await client.until("/api/topics-over-time?filter=api%3DFetch&parts=2", lambda found: not found["busy"])
    assert (topics["from"], topics["parts"]) == (only["from"], 2)
    assert topics["lag"] == {"names": [], "values": [], "others": 0}


async def test_a_picture_is_made_again_after_changes_only() -> None:
    session = session_of([request(1)])
    pictures, made = Pictures(), []

    def steps() -> Generator[None, None, int]:
        made.append(0)
        yield
        return len(made)

    assert [await pictures.picture("a", session.view, steps) for _ in range(3)] == [1, 1, 1]
    both = asyncio.gather(pictures.picture("b", session.view, steps), pictures.picture("b", session.view, steps))
    assert list(await both) == [2, 2]
    session.source.add(request(2))  # type: ignore[attr-defined]
    while session.work(1):
        pass
    while await pictures.picture("a", session.view, steps) == 1:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0)  # at most a small part of the time goes into it
    assert len(made) == 3
    for number in range(40):
        await pictures.picture(number, session.view, steps)
    assert len(pictures._pictures) <= 16


async def test_rows_and_one_exchange_as_a_capture_without_secrets(client: Client, tmp_path: Path) -> None:
    lines = list(lines_of(CAPTURES / "sasl-plain-in-the-clear.pcap.gz", detail=Detail.RAW))
    logins = [line for line in lines if isinstance(line, RequestLine) and line.api == "SaslAuthenticate"]
    captured = gzip.decompress((CAPTURES / "sasl-plain-in-the-clear.pcap.gz").read_bytes())
    secret = b"\0alice\0open"
    assert logins
    assert secret in captured
    client.source.add(*lines)
    await client.until("/api/rows", lambda answer: answer["count"] > 2)

    async def saved(query: str) -> list[tuple[str, str | None]]:
        status, data, response = await client.read(f"/api/rows.pcapng{query}")
        assert (status, response.content_type) == (200, "application/x-pcapng")
        assert response.headers["Content-Disposition"] == 'attachment; filename="kproxy-rows.pcapng"'
        assert secret not in data
        (tmp_path / "saved.pcapng").write_bytes(data)
        read = lines_of(tmp_path / "saved.pcapng", detail=Detail.RAW)
        return sorted((line.ts, line.frame) for line in read if isinstance(line, FRAME_LINES))

    assert await saved("") == sorted((line.ts, line.frame) for line in lines if isinstance(line, FRAME_LINES))
    rows = (await client.json("/api/rows?filter=api=SaslAuthenticate"))["rows"]
    assert len(await saved("?filter=api=SaslAuthenticate")) == 2 * len(rows)
    [asked, _] = await saved(f"?row={rows[0][0]}")
    assert asked == (logins[0].ts, logins[0].frame)
    for query in ("?row=0", "?row=999999", "?filter=nowhere"):
        status, text, _ = await client.get(f"/api/rows.pcapng{query}")
        assert (status, text) == (404, "no bytes here: record with --detail raw\n"), query
    assert (await client.get("/api/rows.pcapng?filter=api="))[0] == 400
