"""Assignment of connections to workers, and replacement of a lost worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dissectors.connections.events import Direction
from kproxy.inspection.inspected_connection import Progress
from kproxy.live.worker_assignment import WorkerAssignment
from kproxy.proxy.tap_messages import Close, Message, Open, TapGap

AT = 1_700_000_000_000_000_000
PROGRESS = Progress(100, 2, True), Progress(50, 1, True)


def workers(count: int) -> list[Any]:
    return [SimpleNamespace(connections=0) for _ in range(count)]


def open_message(number: int, client: str, server: str = "10.0.0.9:9092") -> Open:
    return Open(number, AT, client, server, "127.0.0.1:9092", tls=False)


def test_connections_of_one_client_share_a_worker_and_clients_are_spread_across_workers() -> None:
    assignment, (first, second) = WorkerAssignment(), (pool := workers(2))
    assert assignment.open(open_message(1, "10.0.0.1:5"), pool) is first
    assert assignment.open(open_message(2, "10.0.0.2:5"), pool) is second
    assert assignment.open(open_message(3, "10.0.0.1:6"), pool) is first
    assert assignment.open(open_message(4, "10.0.0.3:5"), pool) is second
    assert (first.connections, second.connections) == (2, 2)
    assert assignment.open_numbers == [1, 2, 3, 4]


def test_client_keeps_its_worker_after_its_connections_end() -> None:
    assignment, (first, second) = WorkerAssignment(), (pool := workers(2))
    assignment.open(open_message(1, "10.0.0.1:5"), pool)
    assert assignment.close(1) is first
    assignment.forget(1)
    first.connections = 9
    assert assignment.open(open_message(2, "10.0.0.1:5"), pool) is first
    assert (assignment.open_numbers, second.connections) == ([2], 0)


def test_distinguishes_local_clients_by_their_server() -> None:
    assignment, (first, second) = WorkerAssignment(), (pool := workers(2))
    assert assignment.open(open_message(1, "127.0.0.1:5", "10.0.0.8:9092"), pool) is first
    assert assignment.open(open_message(2, "127.0.0.1:6", "10.0.0.9:9092"), pool) is second
    assert assignment.open(open_message(3, "127.0.0.1:7", "10.0.0.8:9092"), pool) is first


def replace_worker(
    dropped: list[Message], *, sent: int = 150, is_closed: bool = False
) -> tuple[list[Message], int, Any, Any]:
    """Replace the worker of connection 1, which received `sent` bytes of requests and all 50 bytes of responses."""
    assignment, (lost, other_worker) = WorkerAssignment(), (pool := workers(2))
    assignment.open(open_message(1, "10.0.0.1:5"), pool)
    assignment.open(open_message(2, "10.0.0.2:5"), pool)
    assignment.add_bytes(1, Direction.REQUEST, sent)
    assignment.add_bytes(1, Direction.RESPONSE, 50)
    if is_closed:
        assignment.close(1)
    [new_worker] = workers(1)
    replacement = assignment.replace(lost, new_worker, dropped, {1: PROGRESS}, AT + 1)
    assert assignment.open(open_message(3, "10.0.0.1:6"), [other_worker, new_worker]) is new_worker
    assert assignment.worker_of(2) is other_worker
    return *replacement, assignment, new_worker


def test_new_worker_continues_after_a_gap() -> None:
    messages, missed_bytes, assignment, new_worker = replace_worker([])
    resumed_progress = (100, 2, False), (50, 1, True)
    assert messages == [
        open_message(1, "10.0.0.1:5")._replace(at=AT + 1, resumed=resumed_progress),
        TapGap(1, Direction.REQUEST, AT + 1, 50, 0, restarted=True),
    ]
    assert missed_bytes == 50
    assert assignment.worker_of(1) is new_worker
    assert new_worker.connections == 2


def test_new_worker_gets_a_close_that_the_lost_one_did_not_handle() -> None:
    close = Close(1, AT, "client", "fin", 100, 50)
    messages, missed_bytes, assignment, new_worker = replace_worker([close], sent=100, is_closed=True)
    assert messages == [
        open_message(1, "10.0.0.1:5")._replace(at=AT + 1, resumed=((100, 2, True), (50, 1, True))),
        close,
    ]
    assert missed_bytes == 0
    assert assignment.open_numbers == [2, 3]
    assert new_worker.connections == 1
