"""A running proxy is watched, also after it is lost, found again or replaced by another one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from kproxy.browse.sources import proxy as module
from kproxy.browse.sources.proxy import ProxySource, _connectable
from kproxy.browse.sources.source import SourcePhase
from kproxy.control import client
from kproxy.control.protocol import ControlError
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import CloseLine, GapLine
from tests.kproxy.browse.lines import close, line
from tests.kproxy.browse.sources.source_viewer import SourceViewer, run_source
from tests.kproxy.control.test_paths import GREETING

KEEP = 1 << 30


class FakeProxy:
    """A fake proxy that sends the data queued by a test and records watch requests."""

    def __init__(self, pid: int, *, restarts: int = 0) -> None:
        self.pid = pid
        self.restarts = restarts
        self.watch_requests: list[dict[str, object]] = []
        self.to_send: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.idle = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listeners = [{"listen": f"127.0.0.1:{9092 + index}", "upstream": "broker:9092"} for index in range(3)]
        greeting = {**GREETING, "pid": self.pid, "listeners": listeners, "trace": "/srv/trace"}
        greeting["restarts"] = self.restarts
        self.idle.clear()
        with suppress(ConnectionError):
            writer.write(json.dumps(greeting).encode() + b"\n")
            self.watch_requests.append(json.loads(await reader.readline()))
            writer.write(json.dumps({"id": self.watch_requests[-1]["id"], "watching": True}).encode() + b"\n")
            while (data := await self.to_send.get()) is not None:
                writer.write(data)
            writer.close()
            await writer.wait_closed()
        self.idle.set()


@asynccontextmanager
async def serve_proxy(path: Path, proxy: FakeProxy) -> AsyncIterator[FakeProxy]:
    async with await asyncio.start_unix_server(proxy.serve, str(path)):
        try:
            yield proxy
        finally:
            proxy.to_send.put_nowait(None)
            await proxy.idle.wait()
    path.unlink(missing_ok=True)  # noqa: ASYNC240  # from Python 3.13 on, asyncio removes it


@pytest.fixture(autouse=True)
def _detect_blocking_and_retry_quickly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.02)
    with blockbuster_ctx("kproxy") as guard:
        allow_spool_io(guard)
        yield


def allow_spool_io(guard: BlockBuster) -> None:
    """Allow the spool to block, because it only writes to an unnamed file in the page cache."""
    for function_name, function in guard.functions.items():
        if function_name.startswith(("os.", "io.")):
            names = {"append", "_begin", "_directory", "read", "take", "close"}
            function.can_block_in("kproxy/browse/rows/store.py", names)


@pytest.fixture
def path(sockets: Path) -> Path:
    return sockets.parent / "proxy.sock"


async def wait_until_lost(viewer: SourceViewer) -> None:
    await viewer.until(lambda: viewer.source.phase is SourcePhase.LOST)
    assert not viewer.source.live


async def test_source_requests_frames_and_the_backlog(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serve_proxy(path, FakeProxy(7)) as proxy, run_source(source) as viewer:
        proxy.to_send.put_nowait(line(1) + line(2)[:30])
        await viewer.until_lines(1)
        proxy.to_send.put_nowait(line(2)[30:])
        assert await viewer.until_lines(2) == [line(1), line(2)]
        assert (source.phase, source.sentence, source.live) == (SourcePhase.LIVE, "", True)
        assert source.name == "127.0.0.1:9092 -> broker:9092, 127.0.0.1:9093 -> broker:9092 and 1 more"
        assert list(source.messages) == ["trace: /srv/trace"]
        [watch_request] = proxy.watch_requests
        assert {**watch_request, "id": 0} == {"id": 0, "do": "watch", "frames": True, "payloads": True, "backlog": True}


async def test_message_says_where_to_connect_while_there_are_no_clients(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    assert source.empty_message == "Reading 9092 ..."
    async with serve_proxy(path, FakeProxy(7)), run_source(source) as viewer:
        await viewer.until(lambda: source.live)
        addresses = "127.0.0.1:9092 or 127.0.0.1:9093 or 127.0.0.1:9094"
        assert source.empty_message == f"Waiting for clients: set bootstrap.servers to {addresses}."
    assert _connectable("0.0.0.0:9092") == _connectable("[::]:9092") == "localhost:9092"


async def test_lost_proxy_is_reported_and_a_new_one_is_watched(path: Path) -> None:
    may_locate, attempts = threading.Event(), 0

    def locate() -> Path:
        nonlocal attempts
        attempts += 1
        assert attempts == 1 or may_locate.wait(20)  # keep the first message until the test has seen it
        return path

    source = ProxySource("9092", locate, keep=KEEP)
    async with run_source(source) as viewer:
        async with serve_proxy(path, FakeProxy(7)) as proxy:
            proxy.to_send.put_nowait(line(1, "a-7-1") + line(1, "a-7-2") + close(2, "a-7-2"))
            await viewer.until_lines(3)
        await wait_until_lost(viewer)
        assert source.sentence == "lost the connection to the proxy (it has ended); reconnecting"
        may_locate.set()
        await viewer.until(lambda: "no running kproxy" in source.sentence)
        async with serve_proxy(path, FakeProxy(8)) as proxy:
            proxy.to_send.put_nowait(line(9, "a-8-1"))
            await viewer.until_lines(6)
            assert source.phase is SourcePhase.LIVE
            assert proxy.watch_requests[0]["backlog"] is True
        close_line, gap = (parse_line(raw) for raw in viewer.lines[3:5])
        assert isinstance(close_line, CloseLine)
        # The other connection had already closed.
        assert (close_line.connection_id, close_line.by, close_line.how) == ("a-7-1", "proxy", "lost")
        assert isinstance(gap, GapLine)
        assert gap.reason == "the proxy ended: the following rows are from a new one, process 8"
        assert close_line.ts == gap.ts
        assert viewer.lines[5] + b"\n" == line(9, "a-8-1")


async def test_reconnecting_to_the_same_proxy_repeats_no_lines_and_reports_the_gap(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serve_proxy(path, FakeProxy(7)) as proxy, run_source(source) as viewer:
        proxy.to_send.put_nowait(line(1))
        await viewer.until_lines(1)
        proxy.to_send.put_nowait(b'{"error":"the viewer read nothing for 60 s"}\n')
        proxy.to_send.put_nowait(None)
        await viewer.until(lambda: len(proxy.watch_requests) == 2)
        proxy.to_send.put_nowait(line(5))
        lines = await viewer.until_lines(3)
        assert [watch_request["backlog"] for watch_request in proxy.watch_requests] == [True, False]
        gap = parse_line(lines[1])
        assert isinstance(gap, GapLine)
        assert gap.reason.startswith("the connection to the proxy was lost: no data until ")
        assert (lines[0], lines[2]) == (line(1), line(5))


async def test_backlog_of_a_restarted_inspector_is_requested(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with run_source(source) as viewer:
        async with serve_proxy(path, FakeProxy(7)) as proxy:
            proxy.to_send.put_nowait(line(1))
            await viewer.until_lines(1)
        async with serve_proxy(path, FakeProxy(7, restarts=1)) as proxy:
            proxy.to_send.put_nowait(line(5))
            lines = await viewer.until_lines(3)
            assert proxy.watch_requests[0]["backlog"] is True
    gap = parse_line(lines[1])
    assert isinstance(gap, GapLine)
    assert gap.reason.startswith("the connection to the proxy was lost: no data until ")


async def test_reason_why_the_proxy_closed_the_connection_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 100)
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serve_proxy(path, FakeProxy(7)) as proxy, run_source(source) as viewer:
        proxy.to_send.put_nowait(b'{"error":"16 viewers are connected"}\n')
        proxy.to_send.put_nowait(None)
        await wait_until_lost(viewer)
        assert source.sentence == "lost the connection to the proxy (16 viewers are connected); reconnecting"


async def test_proxy_is_located_again_before_each_attempt(path: Path) -> None:
    paths: list[Path] = []

    def locate() -> Path:
        if not paths:
            raise ControlError("no kproxy listens on 9092")
        return paths[-1]

    async with run_source(ProxySource("9092", locate, keep=KEEP)) as viewer:
        await wait_until_lost(viewer)
        assert viewer.source.sentence == "lost the connection to the proxy (no kproxy listens on 9092); reconnecting"
        async with serve_proxy(path, FakeProxy(7)) as proxy:
            paths.append(path)
            proxy.to_send.put_nowait(line(1))
            assert await viewer.until_lines(1) == [line(1)]


async def test_source_keeps_no_more_than_the_limit(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=4000)
    async with serve_proxy(path, FakeProxy(7)) as proxy, run_source(source) as viewer:
        for second in range(100):
            proxy.to_send.put_nowait(line(second))
            await viewer.until_lines(second + 1)
        kept = [raw for raw in viewer.read_back if raw]
        assert kept == viewer.lines[-len(kept) :]
        assert 3000 < sum(map(len, kept)) <= 5000 + len(kept[0])  # a segment is a quarter of the limit


async def test_full_disk_ends_the_source_with_a_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)

    def fail(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source.store, "append", fail)
    async with serve_proxy(path, FakeProxy(7)) as proxy, run_source(source) as viewer:
        proxy.to_send.put_nowait(line(1))
        await viewer.until(lambda: source.phase is SourcePhase.ENDED)
        assert source.sentence == "out of disk space (No space left on device)"


async def test_listeners_that_the_proxy_opens_later_are_shown(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serve_proxy(path, FakeProxy(7)) as proxy, run_source(source) as viewer:
        await viewer.until(lambda: source.live)
        listeners = [{"listen": f"127.0.0.1:{port}", "upstream": "b:1"} for port in (9092, 9093)]
        proxy.to_send.put_nowait(json.dumps({"listeners": listeners}).encode() + b"\n")
        await viewer.until(lambda: source.name == "127.0.0.1:9092 -> b:1, 127.0.0.1:9093 -> b:1")
        assert source.empty_message == "Waiting for clients: set bootstrap.servers to 127.0.0.1:9092 or 127.0.0.1:9093."


async def test_unresponsive_proxy_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BEAT_S", 0.01)
    monkeypatch.setattr(client, "SILENT_AFTER_S", 0.1)
    async with (
        serve_proxy(path, FakeProxy(1)) as proxy,
        run_source(ProxySource("proxy", lambda: path, keep=KEEP)) as viewer,
    ):
        await viewer.until(lambda: viewer.source.sentence == module.NOT_RESPONDING)
        assert viewer.source.phase is SourcePhase.LIVE
        proxy.to_send.put_nowait(line(1, "a-7-1"))
        await viewer.until(lambda: not viewer.source.sentence)
