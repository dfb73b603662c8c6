"""Which worker gets a connection, and what replaces one that has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dissectors.connections.events import Direction
from kproxy.inspection.inspected_connection import Progress
from kproxy.live.worker_assignment import WorkerAssignment
from kproxy.proxy.tap_messages import Close, Message, Open, TapGap

AT = 1_700_000_000_000_000_000
DONE = Progress(100, 2, True), Progress(50, 1, True)


def workers(count: int) -> list[Any]:
    return [SimpleNamespace(connections=0) for _ in range(count)]


def connect(number: int, client: str, server: str = "10.0.0.9:9092") -> Open:
    return Open(number, AT, client, server, "127.0.0.1:9092", tls=False)


def test_connections_of_a_client_stay_together_and_clients_are_spread() -> None:
    assignment, (first, second) = WorkerAssignment(), (found := workers(2))
    assert assignment.open(connect(1, "10.0.0.1:5"), found) is first
    assert assignment.open(connect(2, "10.0.0.2:5"), found) is second
    assert assignment.open(connect(3, "10.0.0.1:6"), found) is first
    assert assignment.open(connect(4, "10.0.0.3:5"), found) is second
    assert (first.connections, second.connections) == (2, 2)
    assert assignment.open_numbers == [1, 2, 3, 4]


def test_a_client_keeps_its_worker_after_its_connections_have_ended() -> None:
    assignment, (first, second) = WorkerAssignment(), (found := workers(2))
    assignment.open(connect(1, "10.0.0.1:5"), found)
    assert assignment.close(1) is first
    assignment.forget(1)
    first.connections = 9
    assert assignment.open(connect(2, "10.0.0.1:5"), found) is first
    assert (assignment.open_numbers, second.connections) == ([2], 0)


def test_local_clients_are_told_apart_by_their_server() -> None:
    assignment, (first, second) = WorkerAssignment(), (found := workers(2))
    assert assignment.open(connect(1, "127.0.0.1:5", "10.0.0.8:9092"), found) is first
    assert assignment.open(connect(2, "127.0.0.1:6", "10.0.0.9:9092"), found) is second
    assert assignment.open(connect(3, "127.0.0.1:7", "10.0.0.8:9092"), found) is first


def replaced(dropped: list[Message], *, sent: int = 150, end: bool = False) -> tuple[list[Message], int, Any, Any]:
    """Replace the worker of connection 1, which has got so many bytes of requests, and all 50 of responses."""
    assignment, (lost, other) = WorkerAssignment(), (found := workers(2))
    assignment.open(connect(1, "10.0.0.1:5"), found)
    assignment.open(connect(2, "10.0.0.2:5"), found)
    assignment.add_bytes(1, Direction.REQUEST, sent)
    assignment.add_bytes(1, Direction.RESPONSE, 50)
    if end:
        assignment.close(1)
    [new] = workers(1)
    announced = assignment.replace(lost, new, dropped, {1: DONE}, AT + 1)
    assert assignment.open(connect(3, "10.0.0.1:6"), [other, new]) is new
    assert assignment.worker_of(2) is other
    return *announced, assignment, new


def test_a_new_worker_continues_after_a_gap() -> None:
    messages, missed, assignment, new = replaced([])
    resumed = (100, 2, False), (50, 1, True)
    assert messages == [
        connect(1, "10.0.0.1:5")._replace(at=AT + 1, resumed=resumed),
        TapGap(1, Direction.REQUEST, AT + 1, 50, 0, restarted=True),
    ]
    assert missed == 50
    assert assignment.worker_of(1) is new
    assert new.connections == 2


def test_a_new_worker_gets_an_end_that_the_lost_one_has_not_replied_to() -> None:
    close = Close(1, AT, "client", "fin", 100, 50)
    messages, missed, assignment, new = replaced([close], sent=100, end=True)
    assert messages == [
        connect(1, "10.0.0.1:5")._replace(at=AT + 1, resumed=((100, 2, True), (50, 1, True))),
        close,
    ]
    assert missed == 0
    assert assignment.open_numbers == [2, 3]
    assert new.connections == 1
