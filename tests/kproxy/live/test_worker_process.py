"""The start of a worker process, in the parent and in the child."""

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
def socket_pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The sockets of the next worker: the end of the pool and the end of the worker."""
    sockets = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: sockets)
    yield sockets
    for sock in sockets:
        sock.close()


def start_worker(run: object) -> None:
    with selectors.DefaultSelector() as selector:
        WorkerProcess(run, selector)  # type: ignore[arg-type]


def test_start_worker_closes_both_sockets_if_fork_fails(
    socket_pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "fork", fail)
    with pytest.raises(WorkerLost, match="an inspector could not be started: too many open files"):
        start_worker(lambda _sock: None)
    assert [sock.fileno() for sock in socket_pair] == [-1, -1]


@pytest.mark.parametrize(("error", "status"), [(None, 0), (ValueError("a bug"), 1), (OSError("no disk"), 1)])
def test_child_keeps_only_its_socket_and_exits(
    error: Exception | None,
    status: int,
    socket_pair: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exit_process(status: int) -> NoReturn:
        raise SystemExit(status)  # instead of ending the process

    def run(worker_socket: socket.socket) -> None:
        worker_sockets.append(worker_socket)
        if error is not None:
            raise error

    worker_sockets: list[socket.socket] = []
    closed: list[tuple[int, int]] = []
    reported: list[Exception] = []
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "_exit", exit_process)
    monkeypatch.setattr(os, "closerange", lambda first, end: closed.append((first, end)))
    monkeypatch.setattr(worker_process, "report_failure", reported.append)
    descriptor = socket_pair[1].fileno()
    with pytest.raises(SystemExit) as exited:
        start_worker(run)
    assert exited.value.code == status
    assert worker_sockets == [socket_pair[1]]
    assert closed == [(3, descriptor), (descriptor + 1, os.sysconf("SC_OPEN_MAX"))]
    assert reported == ([] if error is None else [error])
