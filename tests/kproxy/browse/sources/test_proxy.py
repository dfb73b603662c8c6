"""A proxy that is watched: lost, found again, another one in its place."""

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
from kproxy.browse.sources.proxy import ProxySource, _reachable
from kproxy.browse.sources.source import SourcePhase
from kproxy.control import client
from kproxy.control.protocol import ControlError
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import CloseLine, GapLine
from tests.kproxy.browse.lines import close, line
from tests.kproxy.browse.sources.source_viewer import Following, following
from tests.kproxy.control.test_paths import GREETING

KEEP = 1 << 30


class Fake:
    """A proxy that tells what it is told to, and notes how it was asked."""

    def __init__(self, pid: int, *, restarts: int = 0) -> None:
        self.pid = pid
        self.restarts = restarts
        self.asked: list[dict[str, object]] = []
        self.tell: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.idle = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listeners = [{"listen": f"127.0.0.1:{9092 + index}", "upstream": "broker:9092"} for index in range(3)]
        greeting = {**GREETING, "pid": self.pid, "listeners": listeners, "trace": "/srv/trace"}
        greeting["restarts"] = self.restarts
        self.idle.clear()
        with suppress(ConnectionError):
            writer.write(json.dumps(greeting).encode() + b"\n")
            self.asked.append(json.loads(await reader.readline()))
            writer.write(json.dumps({"id": self.asked[-1]["id"], "watching": True}).encode() + b"\n")
            while (said := await self.tell.get()) is not None:
                writer.write(said)
            writer.close()
            await writer.wait_closed()
        self.idle.set()


@asynccontextmanager
async def serving(path: Path, proxy: Fake) -> AsyncIterator[Fake]:
    async with await asyncio.start_unix_server(proxy.serve, str(path)):
        try:
            yield proxy
        finally:
            proxy.tell.put_nowait(None)
            await proxy.idle.wait()
    path.unlink(missing_ok=True)  # noqa: ASYNC240  # from Python 3.13 on asyncio removes it


@pytest.fixture(autouse=True)
def _nothing_blocks_the_event_loop_and_retries_are_quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.02)
    with blockbuster_ctx("kproxy") as guard:
        allow_the_spool(guard)
        yield


def allow_the_spool(guard: BlockBuster) -> None:
    """It writes and reads a file without a name, which lies in the page cache."""
    for name, function in guard.functions.items():
        if name.startswith(("os.", "io.")):
            names = {"append", "_begin", "_directory", "read", "take", "close"}
            function.can_block_in("kproxy/browse/rows/store.py", names)


@pytest.fixture
def path(sockets: Path) -> Path:
    return sockets.parent / "proxy.sock"


async def until_lost(seen: Following) -> None:
    await seen.until(lambda: seen.source.phase is SourcePhase.LOST)
    assert not seen.source.live


async def test_watches_with_frames_and_what_led_up_to_now(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serving(path, Fake(7)) as proxy, following(source) as seen:
        proxy.tell.put_nowait(line(1) + line(2)[:30])
        await seen.until_lines(1)
        proxy.tell.put_nowait(line(2)[30:])
        assert await seen.until_lines(2) == [line(1), line(2)]
        assert (source.phase, source.sentence, source.live) == (SourcePhase.LIVE, "", True)
        assert source.name == "127.0.0.1:9092 -> broker:9092, 127.0.0.1:9093 -> broker:9092 and 1 more"
        assert list(source.messages) == ["trace: /srv/trace"]
        [asked] = proxy.asked
        assert {**asked, "id": 0} == {"id": 0, "do": "watch", "frames": True, "payloads": True, "backlog": True}


async def test_while_there_are_no_clients_it_says_where_they_connect(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    assert source.empty_message == "Reading 9092 ..."
    async with serving(path, Fake(7)), following(source) as seen:
        await seen.until(lambda: source.live)
        addresses = "127.0.0.1:9092 or 127.0.0.1:9093 or 127.0.0.1:9094"
        assert source.empty_message == f"Waiting for clients: set bootstrap.servers to {addresses}."
    assert _reachable("0.0.0.0:9092") == _reachable("[::]:9092") == "localhost:9092"


async def test_a_proxy_that_is_lost_is_said_to_be_and_found_again(path: Path) -> None:
    may_look, looked = threading.Event(), 0

    def locate() -> Path:
        nonlocal looked
        looked += 1
        assert looked == 1 or may_look.wait(20)  # until then what is said stays as it is
        return path

    source = ProxySource("9092", locate, keep=KEEP)
    async with following(source) as seen:
        async with serving(path, Fake(7)) as proxy:
            proxy.tell.put_nowait(line(1, "a-7-1") + line(1, "a-7-2") + close(2, "a-7-2"))
            await seen.until_lines(3)
        await until_lost(seen)
        assert source.sentence == "lost the connection to the proxy (it has ended); reconnecting"
        may_look.set()
        await seen.until(lambda: "no running kproxy" in source.sentence)
        async with serving(path, Fake(8)) as proxy:
            proxy.tell.put_nowait(line(9, "a-8-1"))
            await seen.until_lines(6)
            assert source.phase is SourcePhase.LIVE
            assert proxy.asked[0]["backlog"] is True
        ended, gap = (parse_line(raw) for raw in seen.lines[3:5])
        assert isinstance(ended, CloseLine)
        assert (ended.connection_id, ended.by, ended.how) == ("a-7-1", "proxy", "lost")  # the other was closed
        assert isinstance(gap, GapLine)
        assert gap.reason == "the proxy ended: the following rows are from a new one, process 8"
        assert ended.ts == gap.ts
        assert seen.lines[5] + b"\n" == line(9, "a-8-1")


async def test_the_same_proxy_again_tells_nothing_twice_and_what_is_missing_is_said(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serving(path, Fake(7)) as proxy, following(source) as seen:
        proxy.tell.put_nowait(line(1))
        await seen.until_lines(1)
        proxy.tell.put_nowait(b'{"error":"the viewer read nothing for 60 s"}\n')
        proxy.tell.put_nowait(None)
        await seen.until(lambda: len(proxy.asked) == 2)
        proxy.tell.put_nowait(line(5))
        found = await seen.until_lines(3)
        assert [asked["backlog"] for asked in proxy.asked] == [True, False]
        gap = parse_line(found[1])
        assert isinstance(gap, GapLine)
        assert gap.reason.startswith("the connection to the proxy was lost: no data until ")
        assert (found[0], found[2]) == (line(1), line(5))


async def test_the_backlog_of_a_restarted_inspector_is_new(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with following(source) as seen:
        async with serving(path, Fake(7)) as proxy:
            proxy.tell.put_nowait(line(1))
            await seen.until_lines(1)
        async with serving(path, Fake(7, restarts=1)) as proxy:
            proxy.tell.put_nowait(line(5))
            found = await seen.until_lines(3)
            assert proxy.asked[0]["backlog"] is True
    gap = parse_line(found[1])
    assert isinstance(gap, GapLine)
    assert gap.reason.startswith("the connection to the proxy was lost: no data until ")


async def test_why_the_proxy_ended_the_connection_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 100)
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serving(path, Fake(7)) as proxy, following(source) as seen:
        proxy.tell.put_nowait(b'{"error":"16 viewers are connected"}\n')
        proxy.tell.put_nowait(None)
        await until_lost(seen)
        assert source.sentence == "lost the connection to the proxy (16 viewers are connected); reconnecting"


async def test_it_is_looked_for_where_it_is_by_then(path: Path) -> None:
    places: list[Path] = []

    def locate() -> Path:
        if not places:
            raise ControlError("no kproxy listens on 9092")
        return places[-1]

    async with following(ProxySource("9092", locate, keep=KEEP)) as seen:
        await until_lost(seen)
        assert seen.source.sentence == "lost the connection to the proxy (no kproxy listens on 9092); reconnecting"
        async with serving(path, Fake(7)) as proxy:
            places.append(path)
            proxy.tell.put_nowait(line(1))
            assert await seen.until_lines(1) == [line(1)]


async def test_only_so_much_is_kept(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=4000)
    async with serving(path, Fake(7)) as proxy, following(source) as seen:
        for second in range(100):
            proxy.tell.put_nowait(line(second))
            await seen.until_lines(second + 1)
        kept = [each for each in seen.read_back if each]
        assert kept == seen.lines[-len(kept) :]
        assert 3000 < sum(map(len, kept)) <= 5000 + len(kept[0])  # a segment is a quarter


async def test_a_full_disk_ends_it_with_a_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)

    def refuse(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source.store, "append", refuse)
    async with serving(path, Fake(7)) as proxy, following(source) as seen:
        proxy.tell.put_nowait(line(1))
        await seen.until(lambda: source.phase is SourcePhase.ENDED)
        assert source.sentence == "out of disk space (No space left on device)"


async def test_listeners_that_the_proxy_opens_later_are_shown(path: Path) -> None:
    source = ProxySource("9092", lambda: path, keep=KEEP)
    async with serving(path, Fake(7)) as proxy, following(source) as seen:
        await seen.until(lambda: source.live)
        listeners = [{"listen": f"127.0.0.1:{port}", "upstream": "b:1"} for port in (9092, 9093)]
        proxy.tell.put_nowait(json.dumps({"listeners": listeners}).encode() + b"\n")
        await seen.until(lambda: source.name == "127.0.0.1:9092 -> b:1, 127.0.0.1:9093 -> b:1")
        assert source.empty_message == "Waiting for clients: set bootstrap.servers to 127.0.0.1:9092 or 127.0.0.1:9093."


async def test_a_proxy_that_sends_nothing_although_it_is_asked_is_said_to_be_stuck(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BEAT_S", 0.01)
    monkeypatch.setattr(client, "SILENT_AFTER_S", 0.1)
    async with serving(path, Fake(1)) as proxy, following(ProxySource("proxy", lambda: path, keep=KEEP)) as seen:
        await seen.until(lambda: seen.source.sentence == module.NOT_RESPONDING)
        assert seen.source.phase is SourcePhase.LIVE
        proxy.tell.put_nowait(line(1, "a-7-1"))
        await seen.until(lambda: not seen.source.sentence)
