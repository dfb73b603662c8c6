"""One viewer is tested with both ends of its connection in the test process."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kproxy.control import viewer as viewer_module
from kproxy.control.viewer import Viewer

LIMIT = 1 << 20


class ConnectionEnds:
    """Both ends of a connection, and the requests received at the viewer's end."""

    def __init__(self) -> None:
        self.peer, viewer_socket = socket.socketpair()
        self.peer.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.requests: list[bytes] = []
        self.closed = 0
        self.viewer = Viewer(
            viewer_socket, self.selector, lambda _, line: self.requests.append(line), self._on_closed, LIMIT
        )

    def _on_closed(self, viewer: Viewer) -> None:
        assert viewer is self.viewer
        self.closed += 1

    def turn(self, max_turns: int = 1000) -> None:
        """Run the event loop until nothing is pending, at most `max_turns` times."""
        while max_turns and self.selector.get_map() and (ready_keys := self.selector.select(0)):
            max_turns -= 1
            for key, events in ready_keys:
                key.data(events)

    def read(self) -> bytes:
        """Return all data that has arrived."""
        data = b""
        with suppress(BlockingIOError, ConnectionResetError):
            while chunk := self.peer.recv(1 << 20):
                data += chunk
        return data

    def read_to_end(self) -> bytes:
        """Return all remaining data."""
        data = b""
        while chunk := (self.turn(1), self.read())[1]:
            data += chunk
        return data

    def read_lines(self) -> list[dict[str, Any]]:
        """Return all remaining data as lines."""
        return [json.loads(line) for line in self.read_to_end().splitlines()]


@pytest.fixture
def ends() -> Iterator[ConnectionEnds]:
    ends = ConnectionEnds()
    yield ends
    ends.viewer.close()
    ends.peer.close()
    ends.selector.close()


def line(number: int, size: int = 1000) -> bytes:
    return b'{"kind":"request","n":%d,"fill":"%b"}\n' % (number, b"x" * size)


def test_lines_and_replies_arrive_in_order(ends: ConnectionEnds) -> None:
    ends.viewer.put(line(1))
    ends.viewer.reply(id=7, text="caf\udce9")
    ends.viewer.put(line(2))
    ends.viewer.flush()
    assert [(line.get("n"), line.get("id")) for line in ends.read_lines()] == [(1, None), (None, 7), (2, None)]
    assert not ends.closed


def test_requests_are_split_at_newlines(ends: ConnectionEnds) -> None:
    for piece in (b'{"do"', b':"a"}\n{"do":"b"}\n{"d', b'o":"c"}\n'):
        ends.peer.send(piece)
        ends.turn()
    assert ends.requests == [b'{"do":"a"}', b'{"do":"b"}', b'{"do":"c"}']


def test_slow_viewer_misses_whole_lines_and_gets_their_number(ends: ConnectionEnds) -> None:
    ends.viewer.is_watching = True
    for number in range(5000):  # about five times the buffer size
        ends.viewer.put(line(number))
    assert len(ends.viewer._out) <= LIMIT
    received = ends.read_lines()
    kinds = [received_line["kind"] for received_line in received]
    assert kinds.count("gap") == 1
    gap = received[kinds.index("gap")]
    assert (gap["connection_id"], gap["direction"], gap["bytes"]) == ("", "both", 0)
    assert gap["reason"] == "the viewer is too slow"
    numbers = [line["n"] for line in received if line["kind"] == "request"]
    assert numbers == list(range(len(numbers)))
    assert gap["frames"] == 5000 - len(numbers) > 0
    ends.viewer.put(line(5000))
    ends.viewer.flush()
    assert [line["n"] for line in ends.read_lines()] == [5000]


def test_lines_resume_once_half_of_the_buffer_has_been_read(ends: ConnectionEnds) -> None:
    for number in range(5000):
        ends.viewer.put(line(number))
    dropped_lines = 0
    received = b""
    while ends.viewer._dropped:
        waiting_bytes = len(ends.viewer._out)
        ends.viewer.put(line(9999))  # too early: dropped
        dropped_lines += 1
        received += ends.peer.recv(1 << 16)
        ends.turn(1)
    assert dropped_lines > 1
    assert waiting_bytes > LIMIT // 2 >= len(ends.viewer._out) - 1000
    ends.viewer.put(line(6000))
    ends.viewer.flush()
    numbers = [json.loads(line).get("n") for line in (received + ends.read_to_end()).splitlines()]
    assert numbers == [*range(len(numbers) - 2), None, 6000]


def test_line_larger_than_the_buffer_is_sent_alone(ends: ConnectionEnds) -> None:
    ends.viewer.put(line(1, 3 * LIMIT))
    ends.viewer.put(line(2))
    received = ends.read_lines()
    assert [(line["kind"], line.get("n"), line.get("frames")) for line in received] == [
        ("request", 1, None), ("gap", None, 1)
    ]  # fmt: skip


def test_slow_viewer_receives_only_whole_lines_before_it_is_disconnected(ends: ConnectionEnds) -> None:
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.viewer.end("enough")
    received = ends.read_lines()
    assert received.pop() == {"error": "enough"}
    assert [line["n"] for line in received] == list(range(len(received)))
    assert ends.closed == 1


def test_slow_viewer_that_stops_reading_is_disconnected(ends: ConnectionEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    ends.viewer.tick()
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.viewer.tick()
    assert not ends.viewer._ending
    monkeypatch.setattr(viewer_module, "READ_TIMEOUT_S", -1.0)
    ends.viewer.tick()
    assert ends.viewer._ending
    assert len(ends.viewer._out) < 2000  # the memory is freed
    assert not ends.closed
    ends.viewer.tick()
    assert ends.closed == 1


def test_viewer_without_pending_lines_is_kept(ends: ConnectionEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_module, "READ_TIMEOUT_S", -1.0)
    ends.viewer.put(line(1))
    ends.viewer.tick()
    assert not ends.closed
    assert not ends.viewer._ending


def test_viewer_is_disconnected_after_an_overlong_request(ends: ConnectionEnds) -> None:
    ends.peer.send(b"x" * 65_536)
    ends.turn()
    assert not ends.closed
    ends.peer.send(b"x")
    assert ends.read_lines() == [{"error": "a request is limited to 65536 bytes"}]
    assert ends.closed == 1
    assert ends.requests == []


def test_viewer_that_does_not_read_replies_is_disconnected(ends: ConnectionEnds) -> None:
    ends.viewer.reply(text="x" * 3 * LIMIT)
    ends.viewer.flush()
    ends.peer.send(b'{"do":"more"}\n' * 3)
    ends.turn(5)
    assert ends.requests == []
    assert ends.read_to_end().endswith(b'\n{"error":"the viewer sends requests but does not read the answers"}\n')
    assert ends.closed == 1


def test_half_closed_viewer_receives_its_replies_before_it_is_closed(ends: ConnectionEnds) -> None:
    while not ends.viewer._out:
        ends.viewer.reply(text="x" * 10_000)
        ends.viewer.flush()
    ends.peer.send(b'{"do":"a"}\n')
    ends.peer.shutdown(socket.SHUT_WR)
    ends.turn(5)
    assert ends.requests == [b'{"do":"a"}']
    assert not ends.closed
    assert ends.read_lines()
    assert ends.closed == 1


def test_half_closed_viewer_can_continue_watching(ends: ConnectionEnds) -> None:
    ends.viewer.is_watching = True
    ends.peer.shutdown(socket.SHUT_WR)
    ends.turn()
    ends.viewer.tick()
    assert not ends.closed
    ends.viewer.put(line(1))
    ends.viewer.flush()
    assert ends.read_lines()[0]["n"] == 1
    ends.peer.close()
    ends.viewer.tick()
    assert ends.closed == 1


@pytest.mark.parametrize("watching", [True, False])
def test_viewer_that_disconnected_is_closed(ends: ConnectionEnds, watching: bool) -> None:
    ends.viewer.is_watching = watching
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.peer.close()
    ends.turn()
    assert ends.closed == 1
    ends.viewer.put(line(1))
    ends.viewer.flush()
    ends.viewer.close()
    assert ends.closed == 1
    assert not ends.selector.get_map()


def test_end_sends_pending_lines_and_reports_missing_ones(ends: ConnectionEnds) -> None:
    for number in range(5000):
        ends.viewer.put(line(number))
    ends.viewer.end()
    received = ends.read_lines()
    assert received.pop()["kind"] == "gap"
    assert [line["n"] for line in received] == list(range(len(received)))
    assert ends.closed == 1
