"""The tap when inspectors die and are replaced: bytes that no inspector has read are counted exactly."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.events import Event, InspectionBehind, InspectorResumed
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.tap import Tap
from kproxy.proxy.tapped_connection import TappedConnection
from tests.kproxy.proxy.accounting import Stream, boundaries, frame

KIB = 1024


@pytest.fixture(autouse=True)
def _send_small_messages_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.proxy.send_queue._SEND_DELAY_S", 0)


class Inspector:
    """Reads the tap as the inspector's process does, and checks the messages against the relayed bytes."""

    def __init__(self, sock: socket.socket, table: InspectedTable, relayed: dict[Stream, bytes]) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.closed: list[int] = []
        self.missed = [0, 0]  # connections and bytes
        self.gaps: list[tap_messages.TapGap] = []
        self.hello: tap_messages.Hello | None = None
        self.listeners: list[list[tuple[str, str]]] = []  # as announced
        self._table = table
        self._relayed = relayed
        self._decoder = tap_protocol.TapDecoder()
        self._positions: dict[Stream, int] = {}
        self._slots: dict[int, int] = {}
        self._unstored: list[int] = []
        self._unstored_missed = [0, 0, 0]

    def read(self, size: int) -> None:
        with suppress(BlockingIOError):
            for message in self._decoder.receive_data(self.socket.recv(size)):
                self._handle(message)

    def _handle(self, message: Any) -> None:
        if isinstance(message, tap_messages.Hello):
            self.hello = message
        elif isinstance(message, tap_messages.ListenersChanged):
            self.listeners.append(message.listeners)
        elif isinstance(message, tap_messages.Missed):
            self.missed[0] += message.connections
            self.missed[1] += message.size
            self._unstored_missed = [old + new for old, new in zip(self._unstored_missed, message[1:4], strict=True)]
        elif isinstance(message, tap_messages.Open):
            assert message.slot is not None
            self._slots[message.connection_id] = message.slot
            for direction in Direction:
                start = message.resumed[direction][0] if message.resumed else 0
                assert start == self._table.inspected(message.slot, direction)[0]
                self._positions[message.connection_id, direction] = start
        elif isinstance(message, tap_messages.Close):
            for direction in Direction:
                stream = message.connection_id, direction
                assert self._positions.pop(stream) == len(self._relayed[stream])
            self.closed.append(message.connection_id)
            self._unstored.append(self._slots.pop(message.connection_id))
        elif isinstance(message, tap_messages.TapData | tap_messages.TapSkipped | tap_messages.TapGap):
            stream = message.connection_id, message.direction
            position, content = self._positions[stream], self._relayed[stream]
            if isinstance(message, tap_messages.TapData):
                end = position + len(message.payload)
                assert content[position:end] == message.payload
            elif isinstance(message, tap_messages.TapSkipped):
                end = position + 4 + message.size
                assert {position, end} <= boundaries(content)
            else:
                end = position + message.size
                self.gaps.append(message)
                assert end in boundaries(content) or end == len(content)
                if message.restarted:
                    offsets = boundaries(content)
                    assert message.frames == len([offset for offset in offsets if position < offset <= end])
            self._positions[stream] = end

    def store(self) -> None:
        """Store everything received so far in the trace."""
        for (connection_id, direction), position in self._positions.items():
            offsets = [offset for offset in boundaries(self._relayed[connection_id, direction]) if offset <= position]
            self._table.store(self._slots[connection_id], direction, max(offsets), len(offsets) - 1)
        for slot in self._unstored:
            self._table.store_closed(slot)
        self._unstored.clear()
        self._table.add_missed(*self._unstored_missed)
        self._unstored_missed = [0, 0, 0]


class TapRun:
    """A tap whose inspectors the test starts and kills."""

    def __init__(self, limit: int = 64 * KIB * KIB) -> None:
        self.table = InspectedTable(100)
        self.relayed: dict[Stream, bytes] = {}
        self.events: list[Event] = []
        self.inspectors: list[Inspector] = []
        self.open: dict[int, TappedConnection] = {}
        self.tap = Tap(self._start_inspector(), node="node", limit=limit, table=self.table)
        self.tap.begin([], lambda active: None, lambda error: pytest.fail(str(error)), self.events.append)

    @property
    def inspector(self) -> Inspector:
        return self.inspectors[-1]

    def _start_inspector(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * KIB)
        self.inspectors.append(Inspector(theirs, self.table, self.relayed))
        return ours

    def connect(self, number: int) -> None:
        self.relayed |= {(number, direction): b"" for direction in Direction}
        self.open[number] = self.tap.open(number, 0, "client", "server", "listener")

    def receive_data(self, number: int, direction: Direction, chunk: bytes) -> None:
        self.relayed[number, direction] += chunk
        self.open[number].streams[direction].receive_data(chunk, 0)

    def close(self, number: int) -> None:
        sizes = [len(self.relayed[number, direction]) for direction in Direction]
        self.open.pop(number).close("client", "fin", 0, *sizes)

    def die(self) -> None:
        self.inspector.socket.close()
        self.tap.mark_lost()

    def resume(self) -> None:
        self.tap.resume(self._start_inspector())

    async def turn(self, size: int = KIB * KIB) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.inspector.read(size)

    async def end(self) -> None:
        for number in list(self.open):
            self.close(number)
        closing = asyncio.ensure_future(self.tap.close(0, 0, 0, within=5))
        while not closing.done():
            await self.turn()
        assert closing.result()
        self.inspector.read(KIB * KIB)
        self.inspector.socket.close()


STEPS = st.one_of(
    st.tuples(st.just("connect")),
    st.tuples(
        st.just("data"), st.integers(0, 5), st.sampled_from(Direction), st.integers(1, 300),
    ),
    st.tuples(st.just("close"), st.integers(0, 5)),
    st.tuples(st.just("turn"), st.sampled_from([10, 500, 100_000])),
    st.tuples(st.just("store")),
    st.tuples(st.just("die")),
    st.tuples(st.just("resume")),
)  # fmt: skip


async def play_steps(steps: list[tuple[Any, ...]], limit: int) -> None:
    run, connection_count = TapRun(limit), 0
    remaining: dict[Stream, bytes] = {}
    content = b"".join(frame(size) for size in (0, 5, 60, 300, 1, 2, 3)) * 50
    for step, *arguments in steps:
        if step == "connect":
            connection_count += 1
            run.connect(connection_count)
            remaining |= {(connection_count, direction): content for direction in Direction}
        elif step == "data" and run.open:
            index, direction, size = arguments
            number = list(run.open)[index % len(run.open)]
            chunk, remaining[number, direction] = (
                remaining[number, direction][:size],
                remaining[number, direction][size:],
            )
            if chunk:
                run.receive_data(number, direction, chunk)
        elif step == "close" and run.open:
            run.close(list(run.open)[arguments[0] % len(run.open)])
        elif step == "turn" and not run.tap.lost:
            await run.turn(arguments[0])
        elif step == "store" and not run.tap.lost:
            run.inspector.store()
        elif step == "die" and not run.tap.lost:
            run.die()
        elif step == "resume" and run.tap.lost:
            run.resume()
    if run.tap.lost:
        run.resume()
    await run.end()
    reported_numbers = {number for inspector in run.inspectors for number in inspector.closed}
    missed_count = sum(inspector.missed[0] for inspector in run.inspectors)
    assert (
        connection_count - len(reported_numbers) <= missed_count
    )  # messages that an inspector has not stored are sent again


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples)
@given(st.lists(STEPS, max_size=60), st.sampled_from([2000, 64 * KIB * KIB]))
def test_every_inspector_continues_where_the_previous_trace_ends(steps: list[tuple[Any, ...]], limit: int) -> None:
    asyncio.run(play_steps([("connect",), *steps], limit))


async def test_next_inspector_gets_a_gap_up_to_the_next_frame() -> None:
    run = TapRun()
    run.connect(1)
    run.receive_data(1, Direction.REQUEST, frame(10) + frame(20)[:7])
    await run.turn()
    run.inspector.store()
    run.die()
    run.receive_data(1, Direction.REQUEST, frame(20)[7:] + frame(30) + frame(40)[:9])
    run.resume()
    await run.turn()
    assert run.inspector.hello is not None
    assert run.inspector.hello.restarts == 1
    assert [gap[3:] for gap in run.inspector.gaps] == [(24 + 34, 2, True)]
    run.receive_data(1, Direction.REQUEST, frame(40)[9:] + frame(50))
    await run.end()
    assert [gap[3:] for gap in run.inspector.gaps] == [(24 + 34, 2, True), (44, 1, True)]
    assert [type(event) for event in run.events] == [InspectorResumed]
    [resumed] = run.events
    assert isinstance(resumed, InspectorResumed)
    assert (resumed.bytes, resumed.frames, resumed.connections) == (24 + 34 + 9, 2, 1)


async def test_long_frame_reported_from_its_header_is_not_a_gap() -> None:
    run = TapRun()
    run.connect(1)
    run.receive_data(1, Direction.REQUEST, frame(10) + frame(2000)[:700])
    await run.turn()
    slot = run.open[1].slot
    assert slot is not None
    run.table.store(slot, Direction.REQUEST, 14 + 2004, 2)  # as for a frame that is too long to be decoded
    run.die()
    run.receive_data(1, Direction.REQUEST, frame(2000)[700:1500])
    run.resume()
    run.receive_data(1, Direction.REQUEST, frame(2000)[1500:] + frame(5))
    await run.turn()
    assert run.inspector.gaps == []
    await run.end()


async def test_connections_during_the_outage_are_reported_as_a_total() -> None:
    run = TapRun()
    await run.turn()
    run.die()
    for number in (1, 2):
        run.connect(number)
        run.receive_data(number, Direction.RESPONSE, frame(6))
        run.close(number)
    run.resume()
    await run.end()
    assert run.inspector.missed == [2, 20]
    assert run.inspector.closed == []


async def test_memory_is_bounded_during_an_outage() -> None:
    run = TapRun(limit=16 * KIB)
    for number in range(1, 41):
        run.connect(number)
    await run.turn()
    run.die()
    for number in range(1, 41):
        run.receive_data(number, Direction.REQUEST, frame(6))
        run.close(number)
    assert run.tap.queued <= 20 * KIB
    run.resume()
    await run.end()
    assert len(run.inspector.closed) + run.inspector.missed[0] == 40
    assert 10 <= len(run.inspector.closed) <= 30


async def test_slots_are_reused_once_the_inspector_has_stored_the_close() -> None:
    run = TapRun()
    for number in range(1, 400):
        run.connect(number)
        run.receive_data(number, Direction.REQUEST, frame(6))
        run.close(number)
        await run.turn()
        run.inspector.store()
    assert run.tap.queued < 3 * KIB
    await run.end()


async def test_keeps_nothing_after_giving_up_on_the_inspector() -> None:
    run = TapRun()
    run.connect(1)
    run.receive_data(1, Direction.REQUEST, frame(6))
    run.tap.give_up()
    run.inspector.socket.close()
    run.connect(2)
    run.receive_data(2, Direction.REQUEST, frame(6))
    for number in (1, 2):
        run.close(number)
    assert (run.tap.queued, run.tap.unseen_bytes) == (0, 10)


async def test_falling_behind_is_reported_once_a_minute() -> None:
    run = TapRun(limit=8 * KIB)
    run.connect(1)
    for _ in range(100):
        run.receive_data(1, Direction.REQUEST, frame(1000))
    assert [type(event) for event in run.events] == [InspectionBehind]
    assert "--sample 10%" in str(run.events[0])
    assert "--detail summary" in str(run.events[0])
    await run.end()


async def test_announces_changed_listeners_to_this_and_the_next_inspector() -> None:
    run = TapRun()
    await run.turn()
    for _ in range(2):
        run.tap.announce_listeners([("l", "u")])
        await run.turn()
    assert run.inspector.listeners == [[("l", "u")]]
    run.die()
    run.tap.announce_listeners([("l", "u"), ("m", "v")])
    run.resume()
    await run.turn()
    assert run.inspector.hello is not None
    assert run.inspector.hello.listeners == [("l", "u"), ("m", "v")]
    await run.end()
