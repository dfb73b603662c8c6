"""The start of a worker's process, as the parent sees it and as the child does."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from kproxy.control.watch_state import WorkerLost
from kproxy.live import worker_process
from kproxy.live.worker_process import WorkerProcess


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The sockets of the next worker: the pool's and its own."""
    made = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: made)
    yield made
    for each in made:
        each.close()


def start(run: object) -> None:
    with selectors.DefaultSelector() as selector:
        WorkerProcess(run, selector)  # type: ignore[arg-type]


def test_no_descriptor_is_left_for_a_worker(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(WorkerLost, match="an inspector could not be started: too many open files"):
        start(lambda _sock: None)
    assert [pool.fileno() for pool in pair] == [-1, -1]


@pytest.mark.parametrize(("error", "status"), [(None, 0), (ValueError("a bug"), 1), (OSError("no disk"), 1)])
def test_the_child_runs_with_its_socket_alone_and_ends(
    error: Exception | None,
    status: int,
    pair: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(status: int) -> NoReturn:
        raise SystemExit(status)  # in place of the end of the process

    def run(sock: socket.socket) -> None:
        given.append(sock)
        if error is not None:
            raise error

    given: list[socket.socket] = []
    closed: list[tuple[int, int]] = []
    reported: list[Exception] = []
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(os, "closerange", lambda first, end: closed.append((first, end)))
    monkeypatch.setattr(worker_process, "report_failure", reported.append)
    number = pair[1].fileno()
    with pytest.raises(SystemExit) as ended:
        start(run)
    assert ended.value.code == status
    assert given == [pair[1]]
    assert closed == [(3, number), (number + 1, os.sysconf("SC_OPEN_MAX"))]
    assert reported == ([] if error is None else [error])
