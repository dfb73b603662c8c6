"""The tap: it drops data when the inspector is slow, and counts every dropped byte."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.tap import Tap
from kproxy.proxy.tapped_connection import TappedConnection
from tests.kproxy.proxy.accounting import Stream, check, frame, read_all
from tests.kproxy.proxy.peers import until

KIB = 1024
REQUESTS, RESPONSES = (1, Direction.REQUEST), (1, Direction.RESPONSE)


@pytest.fixture(autouse=True)
def _send_small_messages_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.send_queue._SEND_DELAY_S", 0)


class WatchedTap:
    """A tap whose inspector reads only when the test calls `read`."""

    def __init__(self, *, limit: int, strict: bool = False, socket_buffer: int = 4 * KIB) -> None:
        ours, self.theirs = socket.socketpair()
        self.tap = Tap(ours, node="node", limit=limit, strict=strict)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, socket_buffer)
        self.theirs.setblocking(False)
        self.messages: list[tap_messages.Message] = []
        self.backpressure: list[bool] = []
        self.lost: list[OSError] = []
        self.max_queued = 0
        self._decoder = tap_protocol.TapDecoder()
        self.tap.begin([("listener", "upstream")], self.backpressure.append, self.lost.append)

    def open(self, number: int = 1) -> TappedConnection:
        return self.tap.open(number, 0, "client", "server", "listener")

    async def read(self, size: int) -> None:
        """Let the inspector read up to `size` bytes; the tap gets a turn before and after."""
        self.max_queued = max(self.max_queued, self.tap.queued)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with suppress(BlockingIOError):
            self.messages += self._decoder.receive_data(self.theirs.recv(size))
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Close the tap while the inspector reads up to the end."""
        async with asyncio.TaskGroup() as tasks:
            closing = tasks.create_task(self.tap.close(0, 0, 0, within=5))
            while not closing.done():
                await self.read(KIB * KIB)
        assert closing.result()
        while data := self.theirs.recv(KIB * KIB):
            self.messages += self._decoder.receive_data(data)
        self.theirs.close()


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[Stream, bytes, int]]:
    """Draw interleaved chunks of four streams, each with the number of bytes that the inspector reads after it."""
    streams: dict[Stream, bytes] = {}
    for connection_id in (1, 2):
        for direction in Direction:
            sizes = draw(st.lists(st.sampled_from([0, 1, 3, 30, 70, 300, 3000, 20_000]), max_size=12))
            content = b"".join(frame(size, bytes([97 + number % 26])) for number, size in enumerate(sizes))
            unfinished_size = draw(st.integers(0, 5))
            streams[connection_id, direction] = content[: max(len(content) - unfinished_size, 0)]
    chunks = []
    while any(streams.values()):
        stream = draw(st.sampled_from([key for key, content in streams.items() if content]))
        size = draw(st.sampled_from([1, 2, 5, 40, 500, 6000, 40_000]))
        chunk, streams[stream] = streams[stream][:size], streams[stream][size:]
        chunks.append((stream, chunk, draw(st.sampled_from([0, 0, 0, 100, 4000, 100_000]))))
    return chunks


async def play_traffic(chunks: list[tuple[Stream, bytes, int]], *, limit: int, strict: bool) -> WatchedTap:
    watched = WatchedTap(limit=limit, strict=strict)
    connections = {1: watched.open(1), 2: watched.open(2)}
    for at, ((connection_id, direction), chunk, read_size) in enumerate(chunks):
        connections[connection_id].streams[direction].receive_data(chunk, at)
        await watched.read(read_size)
    for connection in connections.values():
        connection.close("client", "fin", 0, 0, 0)
    await watched.close()
    return watched


def relayed_bytes(chunks: list[tuple[Stream, bytes, int]]) -> dict[Stream, bytes]:
    relayed = {(number, direction): b"" for number in (1, 2) for direction in Direction}
    for stream, chunk, _ in chunks:
        relayed[stream] += chunk
    return relayed


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@given(traffic(), st.sampled_from([2000, 6000, 30_000]))
def test_every_byte_is_sent_or_counted_and_whole_frames_are_dropped(
    chunks: list[tuple[Stream, bytes, int]], limit: int
) -> None:
    watched = asyncio.run(play_traffic(chunks, limit=limit, strict=False))
    counts = check(watched.messages, relayed_bytes(chunks))
    bye = watched.messages[-1]
    assert isinstance(bye, tap_messages.Bye)
    assert (bye.dropped_bytes, bye.dropped_frames) == (counts["dropped_bytes"], counts["dropped_frames"])
    assert (counts["Open"], counts["Close"]) == (2, 2)
    assert watched.max_queued <= limit * 9 // 8 + 41 * KIB  # plus one chunk
    is_behind = False
    for message in watched.messages:
        if isinstance(message, tap_messages.Behind):
            is_behind = message.is_behind
        if isinstance(message, tap_messages.TapGap) and not is_behind:
            assert message.frames <= 1  # a frame that began before
    assert not is_behind


@pytest.mark.slow
@given(traffic(), st.sampled_from([2000, 6000]))
def test_strict_tap_drops_nothing(chunks: list[tuple[Stream, bytes, int]], limit: int) -> None:
    watched = asyncio.run(play_traffic(chunks, limit=limit, strict=True))
    assert check(watched.messages, relayed_bytes(chunks))["dropped_bytes"] == 0
    assert watched.backpressure == [True, False] * (len(watched.backpressure) // 2)


async def test_fast_inspector_gets_every_chunk_unchanged() -> None:
    watched = WatchedTap(limit=100 * KIB)
    request, response = watched.open().streams
    request.receive_data(frame(10)[:6], 1)
    request.receive_data(frame(10)[6:], 2)
    response.receive_data(frame(5000), 3)
    await watched.close()
    assert watched.messages[2:-1] == [
        tap_messages.TapData(*REQUESTS, 1, frame(10)[:6]),
        tap_messages.TapData(*REQUESTS, 2, frame(10)[6:]),
        tap_messages.TapData(*RESPONSES, 3, frame(5000)),
    ]


async def test_headers_of_dropped_frames_are_sent_while_there_is_room() -> None:
    watched = WatchedTap(limit=64 * KIB)
    [request, _] = watched.open().streams
    request.receive_data(frame(80 * KIB), 0)  # above every limit
    await asyncio.sleep(0)
    request.receive_data(frame(100), 0)
    while watched.tap.packed:
        await watched.read(KIB)
    assert watched.tap.full
    request.receive_data(frame(200), 0)
    await watched.close()
    kinds = tap_messages.TapGap, tap_messages.TapSkipped, tap_messages.Behind
    behind, gap, caught_up, skipped = (message for message in watched.messages if isinstance(message, kinds))
    assert behind == tap_messages.Behind(behind.at, True)
    assert gap == tap_messages.TapGap(*REQUESTS, gap.at, 104, 1)
    assert caught_up == tap_messages.Behind(caught_up.at, False)
    assert skipped == tap_messages.TapSkipped(*REQUESTS, 0, 200, frame(200)[: tap_protocol.HEAD_BYTES])
    assert behind.at <= gap.at <= caught_up.at


async def test_gaps_of_all_connections_are_sent_before_the_inspector_may_judge_again() -> None:
    watched = WatchedTap(limit=64 * KIB)
    first, second = watched.open(1), watched.open(2)
    first.streams[0].receive_data(frame(80 * KIB), 0)
    await asyncio.sleep(0)
    first.streams[1].receive_data(frame(100), 0)
    second.streams[1].receive_data(frame(100), 0)
    while watched.tap.packed:
        await watched.read(KIB)
    first.streams[1].receive_data(frame(100), 1)  # only this one goes on
    await watched.close()
    kinds = tap_messages.TapGap, tap_messages.TapSkipped, tap_messages.Behind
    *_, first_gap, second_gap, caught_up, skipped = (
        message for message in watched.messages if isinstance(message, kinds)
    )
    assert {first_gap.connection_id, second_gap.connection_id} == {1, 2}
    assert caught_up == tap_messages.Behind(caught_up.at, False)
    assert isinstance(skipped, tap_messages.TapSkipped)


async def test_gap_is_reported_when_there_is_room_even_on_an_idle_connection() -> None:
    watched = WatchedTap(limit=64 * KIB)
    [request, _] = watched.open().streams
    request.receive_data(frame(100 * KIB), 0)
    request.receive_data(frame(50), 0)
    request.receive_data(frame(60), 0)
    while watched.tap.queued:
        await watched.read(KIB * KIB)
    await watched.read(KIB * KIB)
    [gap] = [message for message in watched.messages if isinstance(message, tap_messages.TapGap)]
    assert (gap.size, gap.frames) == (118, 2)
    await watched.close()


async def test_sending_resumes_when_the_queue_is_half_empty() -> None:
    watched = WatchedTap(limit=64 * KIB)
    [request, _] = watched.open().streams
    for _ in range(8):
        request.receive_data(frame(10 * KIB), 0)
    assert watched.tap.full
    while watched.tap.queued > 40 * KIB:
        await watched.read(KIB)
    assert watched.tap.full
    while watched.tap.queued > 32 * KIB:
        await watched.read(KIB)
    assert not watched.tap.full
    await watched.close()


async def test_oversized_frame_is_cut_and_its_rest_is_counted() -> None:
    watched = WatchedTap(limit=64 * KIB)
    [request, _] = watched.open().streams
    stream = frame(1000 * KIB) + frame(7)
    for start in range(0, len(stream), 10 * KIB):
        request.receive_data(stream[start : start + 10 * KIB], 0)
    assert watched.tap.queued < 64 * KIB * 9 // 8 + 12 * KIB
    await watched.close()
    counts = check(watched.messages, {REQUESTS: stream})
    assert counts["TapGap"] == 2  # for the rest of the first frame, then for the second
    assert counts["dropped_frames"] == 2


async def test_unframed_stream_is_dropped_by_bytes() -> None:
    watched = WatchedTap(limit=64 * KIB)
    [request, _] = watched.open().streams
    hello = b"\x16\x03\x01\x02\x00" + 9 * KIB * b"t"
    for _ in range(20):
        request.receive_data(hello, 0)
    await watched.close()
    gaps = [message for message in watched.messages if isinstance(message, tap_messages.TapGap)]
    sent = [message for message in watched.messages if isinstance(message, tap_messages.TapData)]
    assert sum(gap.size for gap in gaps) + sum(len(data.payload) for data in sent) == 20 * len(hello)
    assert sent
    assert [gap.frames for gap in gaps] == [0]


async def test_memory_is_bounded_if_the_inspector_reads_nothing() -> None:
    watched = WatchedTap(limit=256 * KIB)
    for number in range(2000):
        connection = watched.open(number)
        for stream in connection.streams:
            stream.receive_data(frame(2000), 0)
            stream.receive_data(frame(300), 0)
            stream.end("fin", 0)
        connection.close("client", "fin", 0, 2308, 2308)
        await asyncio.sleep(0)
    assert watched.tap.queued < 256 * KIB * 9 // 8 + 8 * KIB
    assert not watched.tap.behind
    await watched.close()
    missed_messages = [message for message in watched.messages if isinstance(message, tap_messages.Missed)]
    opened_ids = {message.connection_id for message in watched.messages if isinstance(message, tap_messages.Open)}
    closed_ids = {message.connection_id for message in watched.messages if isinstance(message, tap_messages.Close)}
    assert opened_ids == closed_ids
    assert sum(message.connections for message in missed_messages) == 2000 - len(opened_ids) > 0
    assert sum(message.size for message in missed_messages) == 4616 * (2000 - len(opened_ids))


async def test_connection_opened_while_the_queue_is_full_is_reported_once_there_is_room() -> None:
    watched = WatchedTap(limit=64 * KIB)
    [request, _] = watched.open(1).streams
    request.receive_data(frame(100 * KIB), 0)
    late_connection = watched.open(2)
    late_connection.streams[0].receive_data(frame(10), 0)
    late_connection.streams[0].receive_data(frame(20)[:7], 0)
    while watched.tap.full:
        await watched.read(KIB * KIB)
    late_connection.streams[0].receive_data(frame(20)[7:] + frame(30), 0)
    late_connection.close("client", "fin", 0, 0, 0)
    await watched.close()
    messages = [message for message in watched.messages if getattr(message, "connection_id", 0) == 2]
    assert [type(message) for message in messages] == [
        tap_messages.Open,
        tap_messages.TapGap,
        tap_messages.TapGap,
        tap_messages.TapData,
        tap_messages.Close,
    ]
    check(messages, {(2, Direction.REQUEST): frame(10) + frame(20) + frame(30)})


async def test_lost_inspector_is_reported_once_and_nothing_is_queued() -> None:
    watched = WatchedTap(limit=64 * KIB, strict=True)
    [request, _] = watched.open().streams
    request.receive_data(frame(100 * KIB), 0)
    assert watched.backpressure == [True]
    watched.theirs.close()
    await until(lambda: watched.tap.lost)
    request.receive_data(frame(100), 0)
    assert watched.backpressure == [True, False]
    assert watched.tap.queued == 0
    assert watched.tap.unseen_bytes == 104
    assert len(watched.lost) == 1
    assert not await watched.tap.close(0, 0, 0, within=5)


async def test_close_gives_up_on_an_inspector_that_reads_nothing() -> None:
    watched = WatchedTap(limit=KIB * KIB)
    [request, _] = watched.open().streams
    request.receive_data(frame(100 * KIB), 0)
    assert not await watched.tap.close(0, 0, 0, within=0.05)
    watched.theirs.close()


async def test_close_waits_for_a_slow_inspector() -> None:
    ours, theirs = socket.socketpair()
    tap = Tap(ours, node="node")
    tap.begin([], lambda active: None, lambda error: pytest.fail(str(error)))
    stream = tap.open(1, 0, "client", "server", "listener").streams[0]
    content = frame(4 * KIB * KIB)
    stream.receive_data(content, 0)
    reading = asyncio.get_running_loop().run_in_executor(None, read_all, theirs)
    assert await tap.close(1, len(content), 0, within=5)
    check(await reading, {REQUESTS: content})
