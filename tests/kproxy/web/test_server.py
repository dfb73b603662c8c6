"""The web server is tested with a client that can send any request."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import socket
from collections import defaultdict
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
from kproxy.web import answers, server, views
from kproxy.web.access import AccessControl
from kproxy.web.pictures import Pictures
from kproxy.web.server import WebServer
from tests.kproxy.browse.sessions import LinesSource, finding, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import lines_of
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.html.test_page import exchange

CAPTURES = Path(__file__).parents[3] / "captures"
EVIL = "<img src=x>"


class Client:
    """A client of a running server."""

    def __init__(self, source: LinesSource, access: AccessControl, port: int, http: aiohttp.ClientSession) -> None:
        self.source = source
        self.access = access
        self.host = f"127.0.0.1:{port}"
        self._http = http

    async def get(self, path: str, *, with_key: bool = True, **headers: str) -> tuple[int, str, aiohttp.ClientResponse]:
        """Return the status, the body as text, and the response."""
        status, body, response = await self.read(path, with_key=with_key, **headers)
        return status, body.decode(response.get_encoding(), errors="replace"), response

    async def read(
        self, path: str, *, with_key: bool = True, **headers: str
    ) -> tuple[int, bytes, aiohttp.ClientResponse]:
        """Return the status, the body as bytes, and the response."""
        if with_key:
            headers["Cookie"] = f"{self.access.cookie}={self.access.token}"
        url = URL(f"http://{self.host}{path}", encoded=True)
        async with self._http.get(url, headers=headers, allow_redirects=False) as response:
            return response.status, await response.read(), response

    async def json(self, path: str) -> Any:
        status, text, _ = await self.get(path)
        assert status == 200, text
        return json.loads(text)

    async def until(self, path: str, condition: Any) -> Any:
        """Request `path` until the body satisfies the condition; return that body."""
        async with asyncio.timeout(60):
            while not condition(body := await self.json(path)):  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.01)
        return body

    async def events(self, *, with_key: bool = True, origin: str | None = None) -> aiohttp.ClientWebSocketResponse:
        headers = {"Origin": origin or f"http://{self.host}"}
        if with_key:
            headers["Cookie"] = f"{self.access.cookie}={self.access.token}"
        return await self._http.ws_connect(f"http://{self.host}/api/events", headers=headers)


@pytest.fixture
def lines() -> list[Any]:
    slow_request = request(1, api="Fetch")
    request_with_finding = request(2, api="Metadata", api_key=3, at=1, client_id=EVIL, findings=[finding(code="L005")])
    return [
        slow_request,
        request_with_finding,
        response(request_with_finding, after_us=10),
        response(slow_request, after_us=900_000),
    ]


@pytest.fixture
async def client(lines: list[Any]) -> AsyncIterator[Client]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    access = AccessControl(None, port)
    source = LinesSource(lines, phase=SourcePhase.LIVE)
    server, stop = WebServer(BrowseSession(source), access, "api=Fetch"), asyncio.Event()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http, asyncio.TaskGroup() as tasks:
        serve_task = tasks.create_task(server.serve_on([listening], stop))
        yield Client(source, access, port, http)
        stop.set()
        await serve_task
    source.close()


PATHS = (
    "/", "/app/main.js", "/app/page.css", "/api/info", "/api/state", "/api/rows", "/api/rows.jsonl", "/api/rows.csv",
    "/api/rows.pcapng", "/api/rows.html",
    "/api/position", "/api/exchanges/0", "/api/causes", "/api/tables/apis", "/api/records",
    "/api/events", "/api/over-time", "/api/topics-over-time", "/api/timelines/groups", "/nowhere",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_requests_without_the_token_are_rejected(client: Client, path: str) -> None:
    for url in (path, f"{path}?token=x", f"{path}?token=", f"{path}?token=%ff"):
        assert (await client.get(url, with_key=False))[0] == 403
    wrong_cookies = {"Cookie": f"{client.access.cookie}=x; kproxy-1={client.access.token}; token={client.access.token}"}
    assert (await client.get(path, with_key=False, **wrong_cookies))[0] == 403
    if path != "/":
        assert (await client.get(f"{path}?token={client.access.token}", with_key=False))[0] == 403
    for name in ("evil.example", f"evil.example:{client.host.rpartition(':')[2]}"):
        assert (await client.get(path, Host=name))[0] == 403
    for origin in ("http://evil.example", f"https://{client.host}", "null"):
        assert (await client.get(path, Origin=origin))[0] == 403


async def test_token_opens_the_page_and_its_cookie_opens_everything_else(client: Client) -> None:
    status, page, response = await client.get(f"/?token={client.access.token}", with_key=False)
    assert status == 200
    cookie = response.cookies[client.access.cookie]
    assert (cookie.value, cookie["httponly"], cookie["samesite"], cookie["path"]) == (
        client.access.token, True, "Strict", "/",
    )  # fmt: skip
    assert client.access.token not in page
    preloaded = set(re.findall(r'rel="modulepreload" href="(app/[^"]+)"', page))
    pending: list[str] = re.findall(r'src="(app/[^"]+)"', page)
    loaded: set[str] = set()
    pending.append("app/page.css")
    while pending:
        if (path := pending.pop()) in loaded:
            continue
        loaded.add(path)
        status, text, response = await client.get(f"/{path}")
        assert (status, response.content_type) == (200, "text/css" if path.endswith("css") else "text/javascript")
        pending += [f"app/{name}" for name in re.findall(r'^import .* from "\./(\w+\.js)";$', text, re.MULTILINE)]
    assert {"app/main.js", "app/pane.js", "app/filter_match.js"} <= loaded
    assert preloaded == loaded - {"app/served.js", "app/page.css"}  # the preloaded modules are exactly the loaded ones
    for path in ("/app/__init__.py", "/app/../assemble.py", "/app/%2e%2e/assemble.py", "/app/", "/app/x.js", "/static"):
        assert (await client.get(path))[0] in (403, 404), path


async def test_content_security_policy_allows_only_this_server(client: Client) -> None:
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


async def test_rows_are_filtered_sorted_and_paged(client: Client) -> None:
    rows = await client.until("/api/rows", lambda body: body["count"] == 2)
    assert [row[4] for row in rows["rows"]] == ["Fetch", "Metadata"]
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


async def test_server_returns_exchanges_causes_and_tables(client: Client) -> None:
    await client.until("/api/rows", lambda body: body["count"] == 2)
    exchange = await client.json("/api/exchanges/1")
    assert exchange["row"][3] == EVIL
    assert [line["kind"] for line in exchange["lines"]] == ["request", "response"]
    assert (await client.get("/api/exchanges/2"))[0] == (await client.get("/api/exchanges/999999999999999"))[0] == 404
    [cause] = await client.json("/api/causes")
    assert (cause["code"], cause["row"], cause["filter"]) == ("L005", 1, "finding=L005")
    assert await client.json("/api/causes?filter=api%3DFetch") == []
    table = await client.json("/api/tables/apis?filter=api%3DFetch")
    assert ([row["key"] for row in table["rows"]], table["busy"]) == (["Fetch"], False)
    for name in ("connections", "topics", "groups", "transactions", "share-groups", "clients", "brokers"):
        assert (await client.json(f"/api/tables/{name}"))["columns"]
    assert (await client.get("/api/tables/nosuch"))[0] == 404
    assert (await client.json("/api/info"))["filter"] == "api=Fetch"


@pytest.mark.parametrize("lines", [exchange("orders")])
async def test_server_returns_records_and_downloads(client: Client) -> None:
    await client.until("/api/rows", lambda body: body["count"] == 1)
    records = await client.json("/api/records")
    [[row, [part]]] = records["exchanges"]
    assert (row[4], part["topic"], part["partition"], records["next"]) == ("Produce", "orders", 0, None)
    assert [part["rows"][0][column][1] for column in (2, 3)] == ["orders", '{\n  "a": 1\n}']
    assert (await client.json("/api/records?filter=api%3DFetch"))["exchanges"] == []
    _, text, http_response = await client.get("/api/rows.jsonl")
    assert [json.loads(line)["kind"] for line in text.splitlines()] == ["request", "response"]
    assert http_response.headers["Content-Disposition"] == 'attachment; filename="kproxy-rows.jsonl"'
    _, text, _ = await client.get("/api/rows.csv?filter=orders")
    titles, row_text = text.splitlines()
    assert titles.startswith("time,connection,client,API,")
    assert ",Produce,v7,orders[0]," in row_text


def test_cause_leads_to_the_frame_that_it_is_about() -> None:
    """The finding is a line of its own, found when the request after the JoinGroup is missing."""
    session = session_of_capture(CAPTURES / "join-group-never-synced.pcap.gz")
    for cause in answers.causes(session, session.view):
        found = session.exchange(cause["row"])
        assert found is not None
        assert found.frame is not None
        assert cause["what"] == f"{found.frame.api} v{found.frame.api_version} request of client app"


def test_cause_without_a_known_frame_leads_to_its_finding() -> None:
    lines = [line for line in lines_of(CAPTURES / "join-group-never-synced.pcap.gz") if line.kind != "request"]
    session = session_of([line for line in lines if line.kind != "response"])
    causes = answers.causes(session, session.view)
    assert causes
    for cause in causes:
        found = session.exchange(cause["row"])
        assert found is not None
        assert found.event is not None
        assert cause["what"] is None


@pytest.mark.slow
def test_records_of_produce_have_the_offsets_of_the_response() -> None:
    session = session_of_capture(Path(__file__).parents[2] / "data" / "pcap" / "java-4.3.1.pcap.gz")
    offsets: dict[str, dict[tuple[str, int, str], set[str]]] = defaultdict(dict)
    position: int | None = 0
    while position is not None:  # each answer takes a limited time
        answer = answers.records(session, session.view, position, 500)
        position = answer["next"]
        for row, fields in answer["exchanges"]:
            for field in fields:
                for offset, _, _, value, *_ in field["rows"]:
                    key = field["topic"], field["partition"], value[1]
                    offsets[row[4]].setdefault(key, set()).add(offset)
    common = offsets["Produce"].keys() & offsets["Fetch"].keys()
    assert len(common) > 20
    for key in common:  # a request with acks=0 has no response
        assert (
            offsets["Produce"][key] == {None} if "acks0" in key[2] else offsets["Produce"][key] & offsets["Fetch"][key]
        )


def test_offset_of_a_produce_record_is_null_without_a_response() -> None:
    session = session_of(exchange("orders")[:1])
    [[_, [field]]] = answers.records(session, session.view, 0, 500)["exchanges"]
    assert field["rows"][0][0] is None


def test_records_continue_until_all_rows_are_filtered() -> None:
    session = session_of(exchange("orders"))
    view = views.Views(session).view(views.RowQuery("key~orders or orders"))
    assert view.visible.is_behind
    assert answers.records(session, view, 0, 500) == {"exchanges": [], "next": 0}
    while session.work(1):
        pass
    found = answers.records(session, view, 0, 500)
    assert (len(found["exchanges"]), found["next"]) == (1, None)


@pytest.mark.parametrize("lines", [[request(1, client_id='=HYPERLINK("x")')]])
async def test_formulas_are_escaped_in_csv(client: Client) -> None:
    await client.until("/api/rows", lambda body: body["count"] == 1)
    _, text, _ = await client.get("/api/rows.csv")
    assert ',"\'=HYPERLINK(""x"")",' in text


async def test_changed_state_is_sent_to_all_windows(client: Client) -> None:
    async with await client.events() as first_window, await client.events() as second_window:
        async with asyncio.timeout(60):
            for window in (first_window, second_window):
                while json.loads((await window.receive()).data)["rows"] != 2:
                    pass
            client.source.add(request(3, at=2))
            for window in (first_window, second_window):
                while (state := json.loads((await window.receive()).data))["rows"] != 3:
                    pass
    assert (state["live"], state["exchanges"], state["waiting"]) == (True, 3, 1)


@pytest.mark.parametrize(("with_key", "origin"), [(False, None), (True, "http://evil.example"), (True, "null")])
async def test_events_require_the_cookie_and_the_origin(client: Client, with_key: bool, origin: str | None) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        await client.events(with_key=with_key, origin=origin)
    assert raised.value.status == 403
    status, _, _ = await client.get(
        "/api/events", Upgrade="websocket", Connection="Upgrade"
    )  # no browser sends such a request
    assert status == 403


def test_least_recently_used_view_is_dropped(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    session = session_of(lines)
    cached_views = views.Views(session)
    assert cached_views.view(views.RowQuery()) is session.view
    first, second = (cached_views.view(views.RowQuery(text)) for text in ("size>1", "size>2"))
    assert cached_views.view(views.RowQuery("size>1")) is first
    third = cached_views.view(views.RowQuery("size>2", only_findings=True))
    assert session.views == [first, third]  # the second one is the least recently used
    assert second not in session.views
    assert cached_views.view(views.RowQuery("size>2")) is not second
    with pytest.raises(FilterError):
        cached_views.view(views.RowQuery("size>"))
    assert len(session.views) == 2


def test_unused_views_of_a_live_source_are_dropped(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "KEEP_S", -1.0)
    for phase, count in ((SourcePhase.ENDED, 2), (SourcePhase.LIVE, 1)):
        session = session_of(lines, phase=phase)
        cached_views = views.Views(session)
        for text in ("size>1", "size>2"):
            last_view = cached_views.view(views.RowQuery(text))
        assert len(session.views) == count
        assert session.views[-1] is last_view


async def test_number_of_rows_in_a_response_is_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.until("/api/rows", lambda body: body["count"] == 2)
    monkeypatch.setattr(answers, "MAX_ROWS", 1)
    assert len((await client.json("/api/rows?limit=9"))["rows"]) == 1


async def test_logs_do_not_contain_the_token(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.get(f"/?token={client.access.token}", with_key=False)
    async with await client.events() as window:
        await window.send_str("no json")
    await client.get("/")
    output, error_output = capfd.readouterr()
    assert client.access.token not in caplog.text + output + error_output


async def test_server_returns_charts_of_filtered_rows(client: Client) -> None:
    chart = await client.until("/api/over-time?parts=2", lambda body: len(body["apis"]) == 2)
    assert chart["apis"] == [["Fetch", 1], ["Metadata", 1]]
    assert chart["percentiles"] == [[900_000] * 3, [10] * 3]
    filtered_chart = await client.until("/api/over-time?filter=api%3DFetch&parts=1", lambda body: not body["busy"])
    assert filtered_chart["apis"] == [["Fetch", 1]]
    assert (await client.json("/api/over-time?api=Metadata&parts=1"))["percentiles"] == [[10, 10, 10]]
    assert (await client.json("/api/over-time?parts=999999"))["parts"] == 200
    assert (await client.get("/api/over-time?filter=api%3D"))[0] == 400
    topics = await client.until("/api/topics-over-time?filter=api%3DFetch&parts=2", lambda body: not body["busy"])
    assert (topics["from"], topics["parts"]) == (filtered_chart["from"], 2)
    assert topics["lag"] == {"names": [], "values": [], "others": 0}


async def test_picture_is_recomputed_only_after_changes() -> None:
    session = session_of([request(1)])
    pictures, runs = Pictures(), []

    def steps() -> Generator[None, None, int]:
        runs.append(0)
        yield
        return len(runs)

    assert [await pictures.picture("a", session.view, steps) for _ in range(3)] == [1, 1, 1]
    concurrent = asyncio.gather(pictures.picture("b", session.view, steps), pictures.picture("b", session.view, steps))
    assert list(await concurrent) == [2, 2]
    session.source.add(request(2))  # type: ignore[attr-defined]
    while session.work(1):
        pass
    while await pictures.picture("a", session.view, steps) == 1:  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0)  # computing pictures takes only a small share of the time
    assert len(runs) == 3
    for number in range(40):
        await pictures.picture(number, session.view, steps)
    assert len(pictures._pictures) <= 16


async def test_downloaded_captures_contain_no_secrets(client: Client, tmp_path: Path) -> None:
    lines = list(lines_of(CAPTURES / "sasl-plain-in-the-clear.pcap.gz", detail=Detail.RAW))
    logins = [line for line in lines if isinstance(line, RequestLine) and line.api == "SaslAuthenticate"]
    captured = gzip.decompress((CAPTURES / "sasl-plain-in-the-clear.pcap.gz").read_bytes())
    secret = b"\0alice\0open"
    assert logins
    assert secret in captured
    client.source.add(*lines)
    await client.until("/api/rows", lambda body: body["count"] > 2)

    async def download(query: str) -> list[tuple[str, str | None]]:
        status, data, response = await client.read(f"/api/rows.pcapng{query}")
        assert (status, response.content_type) == (200, "application/x-pcapng")
        assert response.headers["Content-Disposition"] == 'attachment; filename="kproxy-rows.pcapng"'
        assert secret not in data
        (tmp_path / "saved.pcapng").write_bytes(data)
        saved_lines = lines_of(tmp_path / "saved.pcapng", detail=Detail.RAW)
        return sorted((line.ts, line.frame) for line in saved_lines if isinstance(line, FRAME_LINES))

    assert await download("") == sorted((line.ts, line.frame) for line in lines if isinstance(line, FRAME_LINES))
    rows = (await client.json("/api/rows?filter=api=SaslAuthenticate"))["rows"]
    assert len(await download("?filter=api=SaslAuthenticate")) == 2 * len(rows)
    [request_row, _] = await download(f"?row={rows[0][0]}")
    assert request_row == (logins[0].ts, logins[0].frame)
    for query in ("?row=0", "?row=999999", "?filter=nowhere"):
        status, text, _ = await client.get(f"/api/rows.pcapng{query}")
        assert (status, text) == (404, "no bytes here: record with --detail raw\n"), query
    assert (await client.get("/api/rows.pcapng?filter=api="))[0] == 400


async def test_downloaded_page_has_the_rows_of_the_filter_or_one_exchange(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.source.add(*lines_of(CAPTURES / "sasl-plain-in-the-clear.pcap.gz", detail=Detail.RAW))
    rows = (await client.until("/api/rows?filter=api=SaslAuthenticate", lambda body: body["count"] > 0))["rows"]
    for query, count in (("?filter=api=SaslAuthenticate", len(rows)), (f"?row={rows[0][0]}", 1)):
        status, text, response = await client.get(f"/api/rows.html{query}")
        assert (status, response.content_type) == (200, "text/html")
        assert response.headers["Content-Disposition"] == 'attachment; filename="kproxy-rows.html"'
        page_lines = ParsedPage(text).lines
        assert [line["api"] for line in page_lines] == ["SaslAuthenticate"] * 2 * count
    monkeypatch.setattr(server, "_MAX_PAGE_ROWS", 1)
    status, text, _ = await client.get("/api/rows.html")
    assert status == 413
    assert text.endswith("rows are too many for a page: filter them to 1 or fewer\n")
