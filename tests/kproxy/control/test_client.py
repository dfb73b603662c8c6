"""The viewer's side, before a proxy that says whatever the test has it say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from kproxy.control import client as module
from kproxy.control.client import ControlClient, connect
from kproxy.control.protocol import ControlError, LateResponse
from tests.kproxy.control.test_paths import GREETING

HELLO = json.dumps(GREETING).encode() + b"\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _nothing_blocks_the_event_loop() -> Iterator[None]:
    with blockbuster_ctx("kproxy"):
        yield


@pytest.fixture
def path(sockets: Path) -> Iterator[Path]:
    yield (made := sockets.parent / "fake.sock")
    made.unlink(missing_ok=True)


@asynccontextmanager
async def proxy(path: Path, serve: Serve) -> AsyncIterator[None]:
    """A fake proxy at `path`; the test fails rather than wait for more than ten seconds."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        with suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    serving: list[asyncio.Task[None] | None] = []
    async with asyncio.timeout(10):
        server = await asyncio.start_unix_server(guarded, str(path))
        async with server:
            yield
        await asyncio.gather(*(each for each in serving if each))  # a client may be gone before it was answered


def saying(*pieces: bytes, stay: bool = False) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if stay:
            await reader.read()

    return serve


def line(number: int, size: int = 0) -> bytes:
    return b'{"kind":"request","n":%d,"fill":"%b"}\n' % (number, b"x" * size)


async def test_greets_and_gives_lines_as_they_are(path: Path) -> None:
    said = HELLO + line(1) + line(2, 300_000) + line(3)
    pieces = [said[start : start + 1000] for start in range(0, len(said), 1000)]
    async with proxy(path, saying(*pieces)), connect(path) as client:
        assert (client.greeting.pid, client.greeting.kproxy) == (4711, "9.9")
        assert [line async for line in client] == [line(1), line(2, 300_000), line(3)]
        assert [line async for line in client] == []  # it has ended, and stays so


async def test_replies_find_who_asked_among_lines(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        asked = [json.loads(await reader.readline()) for _ in range(2)]
        assert [(request["do"], request.get("frames")) for request in asked] == [("watch", True), ("connections", None)]
        writer.write(line(1) + b'{"id":"somebody else\'s"}\n{"id":[1]}\n')
        writer.write(json.dumps({"id": asked[1]["id"], "connections": []}).encode() + b"\n" + line(2))
        writer.write(json.dumps({"id": asked[0]["id"], "watching": True}).encode() + b"\n" + line(3))
        await reader.read()

    async with proxy(path, serve), connect(path) as client:
        watched, listed = await asyncio.gather(client.ask("watch", frames=True), client.ask("connections"))
        assert (watched["watching"], listed["connections"]) == (True, [])
        assert [await anext(client) for _ in range(3)] == [line(1), line(2), line(3)]


async def test_an_error_in_a_reply_is_raised_where_it_was_asked(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        while asked := await reader.readline():
            writer.write(json.dumps({"id": json.loads(asked)["id"], "error": "no command 'dance'"}).encode() + b"\n")

    async with proxy(path, serve), connect(path) as client:
        for _ in range(2):
            with pytest.raises(ControlError, match=r"^no command 'dance'$"):
                await client.ask("dance")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "the proxy has ended"),
        (HELLO[:20], "the proxy has ended"),
        (b"SSH-2.0-OpenSSH_9.6\n", "the process that answered is not kproxy"),
        (b"\xff\xfe\n", "the process that answered is not kproxy"),
        (line(1) + HELLO, None),
        (b'{"error":"16 viewers are connected"}\n', "16 viewers are connected"),
        (HELLO.replace(b'"protocol": 1', b'"protocol": 2'), "kproxy 9.9 with control protocol 2, not 1: use the same"),
    ],
)
async def test_who_is_no_proxy_of_this_protocol_is_said(path: Path, said: bytes, why: str | None) -> None:
    async with proxy(path, saying(said)):
        if why is None:  # lines before the greeting do no harm
            async with connect(path) as client:
                assert await anext(client) == line(1)
            return
        with pytest.raises(ControlError, match=why) as raised:
            async with connect(path):
                pass
        assert str(raised.value).startswith(f"{path}: ")


async def test_nobody_is_there(path: Path) -> None:
    for nowhere, why in ((path, "no running kproxy has its control socket there"), (path / ("x" * 200), "too long")):
        with pytest.raises(ControlError, match=why):
            async with connect(nowhere):
                pass


async def test_who_says_nothing_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy(path, saying(HELLO, stay=True)), connect(path) as client:
        monkeypatch.setattr(module, "_TIMEOUT_S", 0.02)  # the greeting was waited for as long as it took
        with pytest.raises(ControlError, match=r"the proxy did not answer within 0.02 s"):
            await client.ask("connections")
    async with proxy(path, saying(stay=True)):
        with pytest.raises(ControlError, match="the proxy does not respond"):
            async with connect(path):
                pass


async def test_why_it_was_cut_off_comes_after_the_lines(path: Path) -> None:
    async with (
        proxy(path, saying(HELLO, line(1), b'{"error":"the viewer read nothing for 60 s"}\n')),
        connect(path) as client,
    ):
        assert await anext(client) == line(1)
        for _ in range(2):
            with pytest.raises(ControlError, match="the viewer read nothing for 60 s"):
                await anext(client)
        with pytest.raises(ControlError, match="the viewer read nothing for 60 s"):
            await client.ask("connections")


@pytest.mark.parametrize("said", [b"rubbish\n", b"[1]\n", b'{"id":1,\n', b"x" * 3000])
async def test_rubbish_ends_it_with_an_error(path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_LINE_BYTES", 2000)
    async with proxy(path, saying(HELLO, said, stay=True)), connect(path) as client:
        with pytest.raises(ControlError):
            await anext(client)


async def test_a_proxy_that_ends_leaves_no_question_open(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await reader.readline()

    async with proxy(path, serve), connect(path) as client:
        with pytest.raises(ControlError, match="the proxy has ended"):
            await client.ask("connections")
        with pytest.raises(ControlError, match="the proxy has ended"):
            await client.ask("connections")


async def test_what_is_not_taken_makes_the_proxy_wait_and_a_question_does_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BUFFER_BYTES", 100_000)
    count = 1000
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HELLO)
        for sent in range(count):
            writer.write(line(sent, 10_000))
            await writer.drain()
        number = json.loads(await reader.readline())["id"]
        writer.write(json.dumps({"id": number, "connections": []}).encode() + b"\n")
        await reader.read()

    async def wait_until_held(client: ControlClient) -> None:
        before = -1
        while sent != before or not client._buffered:
            before = sent
            await asyncio.sleep(0.02)

    async with proxy(path, serve), connect(path) as client:
        await wait_until_held(client)
        assert client._buffered < 500_000
        assert sent < count - 1
        assert (await client.ask("connections"))["connections"] == []
        assert [await anext(client) for _ in range(count)] == [line(number, 10_000) for number in range(count)]
        assert client._buffered == 0


async def test_errors_of_the_block_are_its_own(path: Path) -> None:
    async with proxy(path, saying(HELLO, stay=True)):
        with pytest.raises(FileNotFoundError):
            async with connect(path):
                raise FileNotFoundError


async def test_late_responses_are_no_lines(path: Path) -> None:
    facts = {
        "connection_id": "n-1",
        "correlation_id": 5,
        "ts": "t",
        "at": "u",
        "others": 1,
        "wait": "rebalance",
        "why": "w",
    }
    late = json.dumps({"late": facts | {"later": 1}}).encode() + b"\n"
    async with proxy(path, saying(HELLO, line(1), late, line(2))), connect(path) as client:
        responses: list[LateResponse] = []
        client.on_late = responses.append
        assert [line async for line in client] == [line(1), line(2)]
        assert responses == [LateResponse(**facts)]  # type: ignore[arg-type]


async def test_the_greeting_has_the_listeners_of_now(path: Path) -> None:
    changed = b'{"listeners":[{"listen":"127.0.0.1:9093","upstream":"b:9092"}],"later":1}\n'
    async with proxy(path, saying(HELLO, line(1), changed, line(2))), connect(path) as client:
        seen: list[list[str]] = []
        client.on_listeners = lambda: seen.append(client.greeting.pairs)
        assert [line async for line in client] == [line(1), line(2)]
        assert seen == [["127.0.0.1:9093 -> b:9092"]]
