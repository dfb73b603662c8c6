"""The pool of `--inspectors N`, with workers in the test's process that reply when the pool waits or are lost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.control.watch_state import WorkerLost
from kproxy.live import worker_pool
from kproxy.live.worker import Reply
from kproxy.live.worker_pool import WorkerPool
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import Line, OpenLine, RequestLine
from tests.kproxy.frames import request
from tests.kproxy.live.local_worker import LocalWorker

AT = 1_700_000_000_000_000_000
FRAME = request("Heartbeat", 3, {"group_id": "g"})
OPEN = tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)


class PoolWithLines:
    """A pool that collects the lines from its workers."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.messages: list[str] = []
        self.pool = WorkerPool(
            2, lambda _sock: None, self._on_reply, self.messages.append, lambda: False, InspectorActivity()
        )

    def _on_reply(self, _message: tap_messages.Message, reply: Reply | None, _moved: Iterable[int]) -> None:
        self.lines += [] if reply is None else reply.lines

    def put(self, *messages: tap_messages.Message) -> None:
        for message in messages:
            self.pool.put(message)

    def lose(self, *lives: bool) -> None:
        """Lose the worker of connection 1; `lives` tells which of the next workers live."""
        LocalWorker.lives = list(lives)
        self.pool._assignment.worker_of(1).lost = True  # type: ignore[attr-defined]

    def lines_of(self, kind: type[Line]) -> list[Any]:
        return [line for line in self.lines if isinstance(line, kind)]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolWithLines]:
    monkeypatch.setattr(worker_pool, "WorkerProcess", LocalWorker)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(LocalWorker, "lives", [])
    pool_with_lines = PoolWithLines()
    yield pool_with_lines
    pool_with_lines.pool.close()


def data_message(number: int = 1) -> tap_messages.TapData:
    return tap_messages.TapData(number, Direction.REQUEST, AT, FRAME)


@pytest.mark.parametrize("lives", [(), (False,), (False, False)])
def test_offsets_continue_even_if_new_workers_are_lost(pool: PoolWithLines, lives: tuple[bool, ...]) -> None:
    pool.put(OPEN, data_message(), data_message())
    pool.pool.drain()
    pool.lose(*lives)
    pool.put(data_message())
    pool.pool.drain()
    pool.put(data_message())
    pool.pool.drain()
    assert [line.offset for line in pool.lines_of(RequestLine)] == [0, len(FRAME), 3 * len(FRAME)]
    assert [line.midstream for line in pool.lines_of(OpenLine)] == [False, True]
    assert len(pool.messages) == 1 + len(lives)


def test_connection_that_no_worker_opened_is_new(pool: PoolWithLines) -> None:
    pool.put(OPEN)
    pool.lose(False)
    pool.pool.drain()
    pool.put(data_message())
    pool.pool.drain()
    assert [line.midstream for line in pool.lines_of(OpenLine)] == [False]
    assert [line.offset for line in pool.lines_of(RequestLine)] == [0]


def test_pool_waits_when_it_holds_too_many_bytes(pool: PoolWithLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.pool, "_max_pending_bytes", 3 * len(FRAME))
    pool.put(OPEN, data_message(), data_message(), tap_messages.TapReplaced(1, Direction.REQUEST, AT, FRAME))
    assert pool.lines == []
    pool.put(data_message())
    assert [line.offset for line in pool.lines_of(RequestLine)] == [0, len(FRAME), 2 * len(FRAME)]
    assert pool.pool._pending_bytes == 0


def test_pool_does_not_keep_sent_payloads(pool: PoolWithLines) -> None:
    pool.put(OPEN, data_message(), tap_messages.TapReplaced(1, Direction.REQUEST, AT, FRAME))
    assert FRAME not in repr(pool.pool._pending).encode()
    assert pool.pool._pending_bytes == 2 * len(FRAME)
    pool.pool.drain()


def test_raises_if_workers_are_lost_too_often(pool: PoolWithLines) -> None:
    pool.put(OPEN)
    pool.lose(*[False] * 5)
    with pytest.raises(WorkerLost, match=r"one of 2 inspectors has ended too often \(killed by SIGKILL\)"):
        list(pool.pool.open_connections())
    pool.pool._workers = [worker for worker in pool.pool._workers if not worker.lost]  # type: ignore[attr-defined]
