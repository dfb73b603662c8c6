"""One viewer, with the proxy's end of its connection in the test's hands."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kproxy.control import viewer as module
from kproxy.control.viewer import Viewer

LIMIT = 1 << 20


class Ends:
    """Both ends of a connection, and what was heard."""

    def __init__(self) -> None:
        self.theirs, ours = socket.socketpair()
        self.theirs.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.requests: list[bytes] = []
        self.closed = 0
        self.viewer = Viewer(ours, self.selector, lambda _, line: self.requests.append(line), self._on_closed, LIMIT)

    def _on_closed(self, viewer: Viewer) -> None:
        assert viewer is self.viewer
        self.closed += 1

    def turn(self, most: int = 1000) -> None:
        """Let the loop turn until nothing is to be done."""
        while most and self.selector.get_map() and (found := self.selector.select(0)):
            most -= 1
            for key, events in found:
                key.data(events)

    def read(self) -> bytes:
        """All that has arrived."""
        data = b""
        with suppress(BlockingIOError, ConnectionResetError):
            while more := self.theirs.recv(1 << 20):
                data += more
        return data

    def drained(self) -> bytes:
        """All that is to come."""
        data = b""
        while more := (self.turn(1), self.read())[1]:
            data += more
        return data

    def drain(self) -> list[dict[str, Any]]:
        """All that is to come, as lines."""
        return [json.loads(line) for line in self.drained().splitlines()]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.viewer.close()
    ends.theirs.close()
    ends.selector.close()


def line(number: int, size: int = 1000) -> bytes:
    return b'{"kind":"request","n":%d,"fill":"%b"}\n' % (number, b"x" * size)


def test_lines_and_replies_arrive_in_order(ends: Ends) -> None:
    ends.viewer.put(line(1))
    ends.viewer.reply(id=7, text="caf\udce9")
    ends.viewer.put(line(2))
    ends.viewer.flush()
    assert [(line.get("n"), line.get("id")) for line in ends.drain()] == [(1, None), (None, 7), (2, None)]
    assert not ends.closed


def test_requests_are_cut_at_newlines_however_they_come(ends: Ends) -> None:
    for piece in (b'{"do"', b':"a"}\n{"do":"b"}\n{"d', b'o":"c"}\n'):
        ends.theirs.send(piece)
        ends.turn()
    assert ends.requests == [b'{"do":"a"}', b'{"do":"b"}', b'{"do":"c"}']


def test_who_reads_slowly_misses_whole_lines_and_is_told_how_many(ends: Ends) -> None:
    ends.viewer.watching = True
    for number in range(5000):  # five times what there is room for
        ends.viewer.put(line(number))
    assert len(ends.viewer._out) <= LIMIT
    got = ends.drain()
    kinds = [each["kind"] for each in got]
    assert kinds.count("gap") == 1
    gap = got[kinds.index("gap")]
    assert (gap["connection_id"], gap["direction"], gap["bytes"]) == ("", "both", 0)
    assert gap["reason"] == "the viewer is too slow"
    numbers = [line["n"] for line in got if line["kind"] == "request"]
    assert numbers == list(range(len(numbers)))
    assert gap["frames"] == 5000 - len(numbers) > 0
    ends.viewer.put(line(5000))
    ends.viewer.flush()
    assert [line["n"] for line in ends.drain()] == [5000]


def test_lines_come_again_when_half_of_what_waits_was_read(ends: Ends) -> None:
    for number in range(5000):
        ends.viewer.put(line(number))
    early = 0
    got = b""
    while ends.viewer._dropped:
        waiting = len(ends.viewer._out)
        ends.viewer.put(line(9999))  # it is too early
        early += 1
        got += ends.theirs.recv(1 << 16)
        ends.turn(1)
    assert early > 1
    assert waiting > LIMIT // 2 >= len(ends.viewer._out) - 1000
    ends.viewer.put(line(6000))
    ends.viewer.flush()
    numbers = [json.loads(line).get("n") for line in (got + ends.drained()).splitlines()]
    assert numbers == [*range(len(numbers) - 2), None, 6000]


def test_a_line_larger_than_all_the_room_goes_alone(ends: Ends) -> None:
    ends.viewer.put(line(1, 3 * LIMIT))
    ends.viewer.put(line(2))
    got = ends.drain()
    assert [(line["kind"], line.get("n"), line.get("frames")) for line in got] == [
        ("request", 1, None), ("gap", None, 1)
    ]  # fmt: skip


def test_a_slow_one_is_cut_off_after_a_line_that_is_whole(ends: Ends) -> None:
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.viewer.end("enough")
    got = ends.drain()
    assert got.pop() == {"error": "enough"}
    assert [line["n"] for line in got] == list(range(len(got)))
    assert ends.closed == 1


def test_who_is_behind_and_reads_nothing_for_a_minute_is_cut_off(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    ends.viewer.tick()
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.viewer.tick()
    assert not ends.viewer._ending
    monkeypatch.setattr(module, "READ_TIMEOUT_S", -1.0)
    ends.viewer.tick()
    assert ends.viewer._ending
    assert len(ends.viewer._out) < 2000  # the memory is free
    assert not ends.closed
    ends.viewer.tick()
    assert ends.closed == 1


def test_who_reads_nothing_because_there_is_nothing_stays(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_TIMEOUT_S", -1.0)
    ends.viewer.put(line(1))
    ends.viewer.tick()
    assert not ends.closed
    assert not ends.viewer._ending


def test_a_request_without_an_end_is_cut_off(ends: Ends) -> None:
    ends.theirs.send(b"x" * 65_536)
    ends.turn()
    assert not ends.closed
    ends.theirs.send(b"x")
    assert ends.drain() == [{"error": "a request is limited to 65536 bytes"}]
    assert ends.closed == 1
    assert ends.requests == []


def test_who_asks_and_does_not_read_is_cut_off(ends: Ends) -> None:
    ends.viewer.reply(text="x" * 3 * LIMIT)
    ends.viewer.flush()
    ends.theirs.send(b'{"do":"more"}\n' * 3)
    ends.turn(5)
    assert ends.requests == []
    assert ends.drained().endswith(b'\n{"error":"the viewer sends requests but does not read the answers"}\n')
    assert ends.closed == 1


def test_who_ends_what_it_sends_still_gets_replies_and_is_closed_then(ends: Ends) -> None:
    while not ends.viewer._out:
        ends.viewer.reply(text="x" * 10_000)
        ends.viewer.flush()
    ends.theirs.send(b'{"do":"a"}\n')
    ends.theirs.shutdown(socket.SHUT_WR)
    ends.turn(5)
    assert ends.requests == [b'{"do":"a"}']
    assert not ends.closed
    assert ends.drain()
    assert ends.closed == 1


def test_who_watches_stays_until_it_is_gone_although_it_says_no_more(ends: Ends) -> None:
    ends.viewer.watching = True
    ends.theirs.shutdown(socket.SHUT_WR)
    ends.turn()
    ends.viewer.tick()
    assert not ends.closed
    ends.viewer.put(line(1))
    ends.viewer.flush()
    assert ends.drain()[0]["n"] == 1
    ends.theirs.close()
    ends.viewer.tick()
    assert ends.closed == 1


@pytest.mark.parametrize("watching", [True, False])
def test_who_is_gone_is_closed_and_nothing_is_raised(ends: Ends, watching: bool) -> None:
    ends.viewer.watching = watching
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.theirs.close()
    ends.turn()
    assert ends.closed == 1
    ends.viewer.put(line(1))
    ends.viewer.flush()
    ends.viewer.close()
    assert ends.closed == 1
    assert not ends.selector.get_map()


def test_at_the_end_what_waits_is_sent_and_what_is_missing_told(ends: Ends) -> None:
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.viewer.end()
    got = ends.drain()
    assert got.pop()["kind"] == "gap"
    assert [line["n"] for line in got] == list(range(len(got)))
    assert ends.closed == 1
