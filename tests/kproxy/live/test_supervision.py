"""When an inspector is restarted, and when it no longer is."""

from __future__ import annotations

import errno
import os
import signal
import socket
from typing import TYPE_CHECKING, cast

import pytest

from kproxy.live import supervision
from kproxy.live.supervision import MAX_RESTARTS, WINDOW_S, RestartPolicy, Supervisor, describe_exit
from kproxy.proxy.events import Event
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.tap import Tap
from tests.kproxy.proxy.peers import until

if TYPE_CHECKING:
    from kproxy.live.spawner import Spawner


def test_restarts_within_a_minute_back_off_and_end_after_five() -> None:
    policy = RestartPolicy()
    assert [policy.record_failure(now) for now in range(MAX_RESTARTS + 1)] == [1, 2, 4, 8, 16, None]


def test_restarts_more_than_a_minute_ago_do_not_count() -> None:
    policy = RestartPolicy()
    assert [policy.record_failure(now) for now in (0, 10, 50, WINDOW_S, WINDOW_S + 9)] == [1, 2, 4, 4, 8]
    assert policy.record_failure(10 * WINDOW_S) == 1


def test_inspector_that_fails_occasionally_is_always_restarted() -> None:
    policy = RestartPolicy()
    assert {policy.record_failure(13.0 * number) for number in range(100)} == {1, 2, 4, 8, 16}


def test_describes_how_an_inspector_ended() -> None:
    assert describe_exit(-signal.SIGKILL) == "killed by SIGKILL"
    assert describe_exit(-99) == "killed by signal 99"
    assert describe_exit(1) == "it failed"
    assert describe_exit(255) == "it could not be started"
    assert describe_exit(3) == "exit status 3"


class _SpawnerWithoutDescriptors:
    """A spawner whose first inspector was killed and that has no file descriptors for a new one."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.attempts = 0
        self.dismissed = False

    def drain_statuses(self) -> list[int]:
        return [-signal.SIGKILL] if self.channel.recv(100) else []

    def spawn(self) -> socket.socket:
        self.attempts += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def dismiss(self) -> None:
        self.dismissed = True


async def test_shortage_of_descriptors_does_not_count_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "SHORTAGE_RETRY_S", 0.001)
    monkeypatch.setattr(RestartPolicy, "record_failure", lambda self, now: 0.001)
    channel, spawner_peer = socket.socketpair()
    tap_socket, inspector_socket = socket.socketpair()
    events: list[Event] = []
    with channel, spawner_peer, inspector_socket:
        spawner = _SpawnerWithoutDescriptors(channel)
        tap = Tap(tap_socket, node="n", table=InspectedTable(10))
        supervisor = Supervisor(cast("Spawner", spawner), tap, events.append)
        spawner_peer.send(b"x")
        await until(lambda: spawner.attempts > 3 * MAX_RESTARTS)
        assert not spawner.dismissed
        assert [str(event).partition(":")[0] for event in events] == [
            "the inspector stopped (killed by SIGKILL)",
            "the inspector stopped (it could not be started",
        ]
        supervisor.close()
