"""The client connections of a relay: their counts, back-pressure, and how they end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from kproxy.proxy.connection import RelayedConnection

_QUIET_S: Final = 0.5  # a draining connection without traffic for this time is closed
_GRACE_S: Final = 1.0  # for sending the bytes already read, when the relay ends


@dataclass(slots=True)
class Totals:
    """Counts since the relay began. The bytes are those of open and closed connections."""

    connections: int = 0  # accepted, including those whose upstream was unreachable
    turned_away: int = 0  # the upstream was unreachable
    request_bytes: int = 0
    response_bytes: int = 0

    def add(self, connection: RelayedConnection) -> None:
        """Add the bytes of a connection."""
        self.request_bytes += connection.request_bytes
        self.response_bytes += connection.response_bytes


class ClientConnections:
    """Each client has a task and, once it is connected to its upstream, also a `RelayedConnection`.

    Attributes:
        closed: The totals, but with the bytes of closed connections only.
        connecting: The number of clients that are not yet connected to their upstream.
    """

    def __init__(self) -> None:
        self.closed = Totals()
        self.connecting = 0
        self._connections: dict[asyncio.Task[None], RelayedConnection | None] = {}
        self._has_backpressure = False

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def totals(self) -> Totals:
        """A copy of the current counts."""
        totals = replace(self.closed)
        for connection in self._relayed_connections():
            totals.add(connection)
        return totals

    @property
    def is_connected(self) -> bool:
        """Whether any client is connected to its upstream."""
        return len(self._connections) > self.connecting

    def add(self, task: asyncio.Task[None]) -> None:
        """Add an accepted client. Its task closes the client's socket."""
        self.closed.connections += 1
        self.connecting += 1
        self._connections[task] = None
        task.add_done_callback(self._remove)

    def add_connection(self, connection: RelayedConnection) -> None:
        """Note that the client of the current task is now connected to its upstream."""
        task = asyncio.current_task()
        assert task is not None
        self.connecting -= 1
        self._connections[task] = connection
        if self._has_backpressure:
            connection.set_backpressure(True)

    def set_backpressure(self, active: bool) -> None:
        """Stop reading from all connections if `active`, otherwise resume."""
        self._has_backpressure = active
        for connection in self._relayed_connections():
            connection.set_backpressure(active)

    async def drain(self, time_limit: float, at_once: asyncio.Event | None = None) -> None:
        """Close each connection after a moment without traffic. Busy connections stay open.

        Return after `time_limit` seconds, or as soon as `at_once` is set.
        """
        last_totals: dict[RelayedConnection, tuple[int, float]] = {}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + time_limit
        while (now := loop.time()) < deadline and self._connections:
            for connection in self._relayed_connections():
                total = connection.request_bytes + connection.response_bytes
                last_total, quiet_since = last_totals.get(connection, (-1, now))
                last_totals[connection] = total, quiet_since if total == last_total else now
                if total == last_total and now - quiet_since >= _QUIET_S:
                    connection.close()
            if at_once is not None and at_once.is_set():
                return
            await asyncio.sleep(_QUIET_S / 5)

    async def close(self) -> None:
        """Send the bytes already read, then close all connections."""
        await asyncio.sleep(0)  # so that every task has begun: a task that never begins does not close its socket
        try:
            for task, connection in list(self._connections.items()):
                if connection is not None:
                    connection.close()
                else:
                    task.cancel()
            if self._connections:
                await asyncio.wait(list(self._connections), timeout=_GRACE_S)
        finally:
            for connection in self._relayed_connections():
                connection.abort()

    def _relayed_connections(self) -> list[RelayedConnection]:
        return [connection for connection in self._connections.values() if connection is not None]

    def _remove(self, task: asyncio.Task[None]) -> None:
        connection = self._connections.pop(task)
        if connection is None:
            self.connecting -= 1
        else:
            self.closed.add(connection)
