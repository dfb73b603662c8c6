"""The pool of `--inspectors N`, with workers in this process: each replies when the pool waits, or is lost."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import pytest

from dissectors.connections.events import Direction
from kproxy.control.watched import WorkerLost
from kproxy.inspection.inspector import Inspector
from kproxy.live import worker_pool
from kproxy.live.worker import Reply, Worker
from kproxy.live.worker_pool import WorkerPool
from kproxy.live.worker_process import WorkerProcess
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.trace.lines import Line, OpenLine, RequestLine
from tests.kproxy.frames import request

AT = 1_700_000_000_000_000_000
FRAME = request("Heartbeat", 3, {"group_id": "g"})
OPEN = tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)


class LocalWorker:
    """In place of a `WorkerProcess`. It has a connection of its own that is always readable."""

    lives: ClassVar[list[bool]] = []  # of the next ones; beyond, they live

    def __init__(self, run: Callable[[socket.socket], None], selector: selectors.BaseSelector) -> None:
        self.pid = os.getpid()
        self.lost = bool(self.lives) and not self.lives.pop(0)
        self.unanswered = self.connections = 0
        self.replies: deque[Any] = deque()
        self._worker = Worker(Inspector("node-1", partial=True), encodes=False, sample=None)
        self._decoder = tap_protocol.TapDecoder()
        self._decoder.receive_data(bytes([tap_protocol.VERSION]))
        self._messages: list[tap_messages.Message] = []
        self._selector = selector
        self._readable, self._other = socket.socketpair()
        self._other.send(b"x")
        selector.register(self._readable, selectors.EVENT_READ, self)

    def put(self, head: bytes, payload: bytes = b"") -> None:
        self._messages += self._decoder.receive_data(head + payload)
        self.unanswered += 1

    def send(self) -> None:
        pass

    def exchange(self, _events: int) -> None:
        if self.lost:
            raise WorkerLost
        if self._messages:
            messages, self._messages = self._messages, []
            found = self._worker.replies(messages)
            *replies, last = found.replies
            self.replies.extend([*((each, {}) for each in replies), (last, found.progress)])
            self.unanswered = 0

    def close(self) -> int:
        self._selector.unregister(self._readable)
        self._readable.close()
        self._other.close()
        return 9


class Pool:
    """A pool, and the lines that it has passed on."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.said: list[str] = []
        self.pool = WorkerPool(2, lambda _sock: None, self._replied, self.said.append, lambda: False)

    def _replied(self, _message: tap_messages.Message, reply: Reply | None, _moved: Iterable[int]) -> None:
        self.lines += [] if reply is None else reply.lines

    def put(self, *messages: tap_messages.Message) -> None:
        for message in messages:
            self.pool.put(message)

    def lose(self, *lives: bool) -> None:
        """Lose the worker of connection 1; whether those that follow live."""
        LocalWorker.lives = list(lives)
        self.pool._assigned[1].lost = True  # type: ignore[attr-defined]

    def of(self, kind: type[Line]) -> list[Any]:
        return [line for line in self.lines if isinstance(line, kind)]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setattr(worker_pool, "WorkerProcess", LocalWorker)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(LocalWorker, "lives", [])
    made = Pool()
    yield made
    made.pool.close()


def data(number: int = 1) -> tap_messages.TapData:
    return tap_messages.TapData(number, Direction.REQUEST, AT, FRAME)


@pytest.mark.parametrize("lives", [(), (False,), (False, False)])
def test_offsets_continue_although_a_new_worker_is_lost_too(pool: Pool, lives: tuple[bool, ...]) -> None:
    pool.put(OPEN, data(), data())
    pool.pool.drain()
    pool.lose(*lives)
    pool.put(data())
    pool.pool.drain()
    pool.put(data())
    pool.pool.drain()
    assert [line.offset for line in pool.of(RequestLine)] == [0, len(FRAME), 3 * len(FRAME)]
    assert [line.midstream for line in pool.of(OpenLine)] == [False, True]
    assert len(pool.said) == 1 + len(lives)


def test_a_connection_that_no_worker_has_opened_is_new(pool: Pool) -> None:
    pool.put(OPEN)
    pool.lose(False)
    pool.pool.drain()
    pool.put(data())
    pool.pool.drain()
    assert [line.midstream for line in pool.of(OpenLine)] == [False]
    assert [line.offset for line in pool.of(RequestLine)] == [0]


def test_the_pool_waits_when_it_holds_too_many_bytes(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.pool, "_most_held", 3 * len(FRAME))
    pool.put(OPEN, data(), data(), tap_messages.TapReplaced(1, Direction.REQUEST, AT, FRAME))
    assert pool.lines == []
    pool.put(data())
    assert [line.offset for line in pool.of(RequestLine)] == [0, len(FRAME), 2 * len(FRAME)]
    assert pool.pool._held == 0


def test_the_pool_keeps_no_payload_of_what_it_has_sent(pool: Pool) -> None:
    pool.put(OPEN, data(), tap_messages.TapReplaced(1, Direction.REQUEST, AT, FRAME))
    assert FRAME not in repr(pool.pool._pending).encode()
    assert pool.pool._held == 2 * len(FRAME)
    pool.pool.drain()


def test_workers_are_lost_too_often(pool: Pool) -> None:
    pool.put(OPEN)
    pool.lose(*[False] * 5)
    with pytest.raises(WorkerLost, match=r"one of 2 inspectors has ended too often \(killed by SIGKILL\)"):
        list(pool.pool.open_now())
    pool.pool._workers = [each for each in pool.pool._workers if not each.lost]  # type: ignore[attr-defined]


def test_no_descriptor_is_left_for_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    socketpair = socket.socketpair

    def pair() -> tuple[socket.socket, socket.socket]:
        made.extend(socketpair())
        return made[0], made[1]

    def fork() -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(socket, "socketpair", pair)
    monkeypatch.setattr(os, "fork", fork)
    with (
        selectors.DefaultSelector() as selector,
        pytest.raises(WorkerLost, match="an inspector could not be started: too many open files"),
    ):
        WorkerProcess(lambda _sock: None, selector)
    assert [each.fileno() for each in made] == [-1, -1]
