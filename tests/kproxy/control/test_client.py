"""The client of the control socket is tested with a fake proxy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from kproxy.control import client as client_module
from kproxy.control.client import ControlClient, connect
from kproxy.control.protocol import ControlError, LateResponse
from tests.kproxy.control.test_paths import GREETING

HELLO = json.dumps(GREETING).encode() + b"\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _detect_blocking() -> Iterator[None]:
    with blockbuster_ctx("kproxy"):
        yield


@pytest.fixture
def path(sockets: Path) -> Iterator[Path]:
    yield (socket_path := sockets.parent / "fake.sock")
    socket_path.unlink(missing_ok=True)


@asynccontextmanager
async def fake_proxy(path: Path, serve: Serve) -> AsyncIterator[None]:
    """Run a fake proxy at `path`; the test fails after ten seconds."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        with suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    handlers: list[asyncio.Task[None] | None] = []
    async with asyncio.timeout(10):
        server = await asyncio.start_unix_server(handle, str(path))
        async with server:
            yield
        await asyncio.gather(
            *(handler for handler in handlers if handler)
        )  # a client may disconnect before it receives its reply


def send_pieces(*pieces: bytes, keep_open: bool = False) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if keep_open:
            await reader.read()

    return serve


def line(number: int, size: int = 0) -> bytes:
    return b'{"kind":"request","n":%d,"fill":"%b"}\n' % (number, b"x" * size)


async def test_reads_the_greeting_and_unchanged_lines(path: Path) -> None:
    data = HELLO + line(1) + line(2, 300_000) + line(3)
    pieces = [data[start : start + 1000] for start in range(0, len(data), 1000)]
    async with fake_proxy(path, send_pieces(*pieces)), connect(path) as client:
        assert (client.greeting.pid, client.greeting.kproxy) == (4711, "9.9")
        assert [line async for line in client] == [line(1), line(2, 300_000), line(3)]
        assert [line async for line in client] == []  # it stays exhausted


async def test_replies_between_lines_reach_their_callers(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        requests = [json.loads(await reader.readline()) for _ in range(2)]
        assert [(request["do"], request.get("frames")) for request in requests] == [
            ("watch", True),
            ("connections", None),
        ]
        writer.write(line(1) + b'{"id":"somebody else\'s"}\n{"id":[1]}\n')
        writer.write(json.dumps({"id": requests[1]["id"], "connections": []}).encode() + b"\n" + line(2))
        writer.write(json.dumps({"id": requests[0]["id"], "watching": True}).encode() + b"\n" + line(3))
        await reader.read()

    async with fake_proxy(path, serve), connect(path) as client:
        watch_reply, connections_reply = await asyncio.gather(
            client.request("watch", frames=True), client.request("connections")
        )
        assert (watch_reply["watching"], connections_reply["connections"]) == (True, [])
        assert [await anext(client) for _ in range(3)] == [line(1), line(2), line(3)]


async def test_error_in_a_reply_is_raised_by_the_call(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        while raw_request := await reader.readline():
            writer.write(
                json.dumps({"id": json.loads(raw_request)["id"], "error": "no command 'dance'"}).encode() + b"\n"
            )

    async with fake_proxy(path, serve), connect(path) as client:
        for _ in range(2):
            with pytest.raises(ControlError, match=r"^no command 'dance'$"):
                await client.request("dance")


@pytest.mark.parametrize(
    ("data", "message"),
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
async def test_reports_a_server_that_does_not_speak_this_protocol(path: Path, data: bytes, message: str | None) -> None:
    async with fake_proxy(path, send_pieces(data)):
        if message is None:  # lines before the greeting are harmless
            async with connect(path) as client:
                assert await anext(client) == line(1)
            return
        with pytest.raises(ControlError, match=message) as raised:
            async with connect(path):
                pass
        assert str(raised.value).startswith(f"{path}: ")


async def test_reports_a_socket_without_a_proxy(path: Path) -> None:
    for missing, message in (
        (path, "no running kproxy has its control socket there"),
        (path / ("x" * 200), "too long"),
    ):
        with pytest.raises(ControlError, match=message):
            async with connect(missing):
                pass


async def test_times_out_on_a_silent_proxy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_proxy(path, send_pieces(HELLO, keep_open=True)), connect(path) as client:
        monkeypatch.setattr(client_module, "_TIMEOUT_S", 0.02)  # only now, since the greeting may take longer
        with pytest.raises(ControlError, match=r"the proxy did not answer within 0.02 s"):
            await client.request("connections")
    async with fake_proxy(path, send_pieces(keep_open=True)):
        with pytest.raises(ControlError, match="the proxy does not respond"):
            async with connect(path):
                pass


async def test_reason_of_the_disconnect_follows_the_lines(path: Path) -> None:
    async with (
        fake_proxy(path, send_pieces(HELLO, line(1), b'{"error":"the viewer read nothing for 60 s"}\n')),
        connect(path) as client,
    ):
        assert await anext(client) == line(1)
        for _ in range(2):
            with pytest.raises(ControlError, match="the viewer read nothing for 60 s"):
                await anext(client)
        with pytest.raises(ControlError, match="the viewer read nothing for 60 s"):
            await client.request("connections")


@pytest.mark.parametrize("data", [b"rubbish\n", b"[1]\n", b'{"id":1,\n', b"x" * 3000])
async def test_invalid_line_raises_an_error(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MAX_LINE_BYTES", 2000)
    async with fake_proxy(path, send_pieces(HELLO, data, keep_open=True)), connect(path) as client:
        with pytest.raises(ControlError):
            await anext(client)


async def test_pending_and_later_calls_fail_when_the_proxy_ends(path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await reader.readline()

    async with fake_proxy(path, serve), connect(path) as client:
        with pytest.raises(ControlError, match="the proxy has ended"):
            await client.request("connections")
        with pytest.raises(ControlError, match="the proxy has ended"):
            await client.request("connections")


async def test_unread_lines_pause_the_proxy_but_do_not_delay_replies(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_BUFFER_BYTES", 100_000)
    count = 1000
    last_number = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal last_number
        writer.write(HELLO)
        for last_number in range(count):
            writer.write(line(last_number, 10_000))
            await writer.drain()
        request_id = json.loads(await reader.readline())["id"]
        writer.write(json.dumps({"id": request_id, "connections": []}).encode() + b"\n")
        await reader.read()

    async def wait_until_held(client: ControlClient) -> None:
        previous_number = -1
        while last_number != previous_number or not client._buffered:
            previous_number = last_number
            await asyncio.sleep(0.02)

    async with fake_proxy(path, serve), connect(path) as client:
        await wait_until_held(client)
        assert client._buffered < 500_000
        assert last_number < count - 1
        assert (await client.request("connections"))["connections"] == []
        assert [await anext(client) for _ in range(count)] == [line(number, 10_000) for number in range(count)]
        assert client._buffered == 0


async def test_does_not_wrap_errors_from_the_with_block(path: Path) -> None:
    async with fake_proxy(path, send_pieces(HELLO, keep_open=True)):
        with pytest.raises(FileNotFoundError):
            async with connect(path):
                raise FileNotFoundError


async def test_late_responses_are_not_returned_as_lines(path: Path) -> None:
    fields = {
        "connection_id": "n-1",
        "correlation_id": 5,
        "ts": "t",
        "at": "u",
        "others": 1,
        "wait": "rebalance",
        "why": "w",
    }
    announcement = json.dumps({"late": fields | {"later": 1}}).encode() + b"\n"
    async with fake_proxy(path, send_pieces(HELLO, line(1), announcement, line(2))), connect(path) as client:
        responses: list[LateResponse] = []
        client.on_late = responses.append
        assert [line async for line in client] == [line(1), line(2)]
        assert responses == [LateResponse(**fields)]  # type: ignore[arg-type]


async def test_greeting_is_updated_when_the_listeners_change(path: Path) -> None:
    listeners_changed = b'{"listeners":[{"listen":"127.0.0.1:9093","upstream":"b:9092"}],"later":1}\n'
    async with fake_proxy(path, send_pieces(HELLO, line(1), listeners_changed, line(2))), connect(path) as client:
        notifications: list[list[str]] = []
        client.on_listeners = lambda: notifications.append(client.greeting.pairs)
        assert [line async for line in client] == [line(1), line(2)]
        assert notifications == [["127.0.0.1:9093 -> b:9092"]]
