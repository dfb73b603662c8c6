"""The connections that the next inspector needs to know about if the current one is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.tapped_connection import TappedConnection

#: Bytes of memory that a closed connection takes until an inspector has confirmed its end.
CLOSED_COST: Final = 1024


class KnownConnections:
    """Open connections, and closed ones whose end no inspector has confirmed.

    Args:
        table: Where inspectors store their progress. Without it, a lost inspector has no successor; nothing is kept.
    """

    def __init__(self, table: InspectedTable | None) -> None:
        self._table = table
        self._open: dict[int, TappedConnection] = {}
        self._closed: deque[TappedConnection] = deque()
        self._late: deque[TappedConnection] = deque()  # still to be announced to a new inspector

    @property
    def cost(self) -> int:
        """Bytes of memory that closed connections take."""
        return CLOSED_COST * len(self._closed)

    @property
    def has_late(self) -> bool:
        """Whether `take_late` would return anything."""
        return bool(self._late)

    def take_slot(self) -> int | None:
        """Reserve a slot of the table; return None if there is none."""
        return None if self._table is None else self._table.take()

    def add(self, connection: TappedConnection) -> None:
        """Add an open connection that has a slot."""
        self._open[connection.id] = connection

    def client(self, number: int) -> str | None:
        """Return the client of an open connection; None if the connection is not known."""
        connection = self._open.get(number)
        return None if connection is None else connection.client

    def remove(self, connection: TappedConnection) -> None:
        """Remove a connection from the open ones."""
        self._open.pop(connection.id, None)

    def keep(self, connection: TappedConnection) -> None:
        """Keep a closed connection until an inspector has confirmed its end."""
        if connection.slot is not None:
            self._closed.append(connection)

    def free(self, connection: TappedConnection) -> None:
        """Free the slot of a connection that no inspector needs any more."""
        if self._table is not None:
            self._table.free(connection.slot)

    def free_confirmed(self) -> None:
        """Drop the oldest closed connections, as long as their end is confirmed."""
        while self._closed and self._is_confirmed(self._closed[0]):
            self.free(self._closed.popleft())

    def inspected(self, connection: TappedConnection, direction: int) -> tuple[int, int]:
        """Return the bytes and frames of one direction that the last inspector has inspected."""
        return (0, 0) if self._table is None else self._table.inspected(connection.slot, direction)

    def queue_announcements(self) -> None:
        """Queue all connections to be announced to a new inspector, the closed ones first."""
        closed = dict.fromkeys(
            (
                *(connection for connection in self._late if connection.is_closed),
                *self._closed,
            )
        )
        self._closed.clear()
        self._late.clear()
        for connection in closed:
            if self._is_confirmed(connection):
                self.free(connection)
            else:
                self._late.append(connection)
        self._late.extend(self._open.values())

    def take_late(self, max_count: int) -> Iterator[TappedConnection]:
        """Yield the next connections to announce, at most this many."""
        for _ in range(min(max_count, len(self._late))):
            yield self._late.popleft()

    def clear(self) -> None:
        """Forget all connections, because no inspector will follow."""
        self._open.clear()
        self._closed.clear()
        self._late.clear()

    def _is_confirmed(self, connection: TappedConnection) -> bool:
        return self._table is None or self._table.is_closed(connection.slot)
