"""Assigns clients and connections to workers, and keeps the data that the replacement of a lost worker needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections import addresses
from dissectors.connections.events import Direction
from kproxy.inspection.inspected_connection import Progress
from kproxy.live.worker_process import WorkerProcess
from kproxy.proxy import tap_messages

#: The largest number of clients whose worker is remembered.
_MAX_CLIENTS: Final = 100_000

_NO_PROGRESS: Final = ((0, 0, True), (0, 0, True))


class Announcements(NamedTuple):
    """The messages for a new worker, and the number of bytes that no worker inspects."""

    messages: list[tap_messages.Message]
    missed: int


class WorkerAssignment:
    """Assigns all connections of a client, which is a host, to the same worker.

    Local clients are also distinguished by server, because they are many programs on one host.
    """

    def __init__(self) -> None:
        self._clients: BoundedDict[tuple[str, str], WorkerProcess] = BoundedDict(_MAX_CLIENTS)
        self._assigned: dict[int, WorkerProcess] = {}  # by open connection
        self._opened: dict[int, tap_messages.Open] = {}  # connections whose end has no reply yet
        self._sent: dict[int, list[int]] = {}  # bytes of these connections by direction

    @property
    def open_numbers(self) -> list[int]:
        """The open connections, in the order in which they were opened."""
        return list(self._assigned)

    def open(self, opened: tap_messages.Open, workers: Iterable[WorkerProcess]) -> WorkerProcess:
        """Assign a connection to the worker of its client, or else to the one with the fewest connections."""
        is_local = addresses.is_local(opened.client)
        client = (addresses.host_of(opened.client), opened.server if is_local else "")
        worker = self._clients.get(client) or min(workers, key=lambda worker: worker.connections)
        worker.connections += 1
        self._clients[client] = self._assigned[opened.connection_id] = worker
        self._opened[opened.connection_id] = opened
        self._sent[opened.connection_id] = [position[0] for position in opened.resumed or _NO_PROGRESS]
        return worker

    def worker_of(self, number: int) -> WorkerProcess:
        """Return the worker of an open connection."""
        return self._assigned[number]

    def add_bytes(self, number: int, direction: Direction, size: int) -> WorkerProcess:
        """Count bytes that the worker of a connection gets or must skip; return that worker."""
        worker = self._assigned[number]
        self._sent[number][direction] += size
        return worker

    def close(self, number: int) -> WorkerProcess:
        """End the assignment of a connection that has ended; return its worker."""
        worker = self._assigned.pop(number)
        worker.connections -= 1
        return worker

    def forget(self, number: int) -> None:
        """Forget a connection once its worker has replied to its end."""
        self._opened.pop(number, None)
        self._sent.pop(number, None)

    def replace(
        self,
        lost: WorkerProcess,
        worker: WorkerProcess,
        dropped: Sequence[tap_messages.Message],
        progress: Mapping[int, tuple[Progress, Progress]],
        at: int,
    ) -> Announcements:
        """Assign the clients and connections of `lost` to `worker`.

        Args:
            lost: The worker that has ended.
            worker: The worker that takes its place.
            dropped: The messages that `lost` has not replied to.
            progress: How far connections are inspected.
            at: The current time (ns since the epoch).
        """
        for client in [client for client, owner in self._clients.items() if owner is lost]:
            self._clients[client] = worker
        opens = [message for message in dropped if isinstance(message, tap_messages.Open)]
        newly_opened = {
            message.connection_id for message in opens if message is self._opened[message.connection_id]
        }  # not announced again
        ends = {message.connection_id: message for message in dropped if isinstance(message, tap_messages.Close)}
        messages: list[tap_messages.Message] = []
        missed = 0
        for number in sorted([*ends, *(number for number, process in self._assigned.items() if process is lost)]):
            if number not in ends:
                self._assigned[number] = worker
                worker.connections += 1
            opened = self._opened[number]
            inspected = progress.get(number) or [Progress(*position) for position in opened.resumed or _NO_PROGRESS]
            gaps = [
                sent_bytes - position.bytes for sent_bytes, position in zip(self._sent[number], inspected, strict=True)
            ]
            if number not in newly_opened:
                request, response = (
                    (position.bytes, position.frames, not gap) for position, gap in zip(inspected, gaps, strict=True)
                )
                opened = opened._replace(at=at, resumed=(request, response))
            messages.append(opened)
            for direction, gap in zip(Direction, gaps, strict=True):
                if gap:
                    messages.append(tap_messages.TapGap(number, direction, at, gap, 0, restarted=True))
            if number in ends:
                messages.append(ends[number])
            missed += sum(gaps)
        return Announcements(messages, missed)
