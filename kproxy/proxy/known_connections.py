"""The connections that the next inspector needs to know if the present one is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.tapped_connection import TappedConnection

#: Bytes of memory of a closed connection until an inspector has confirmed its end.
CLOSED_COST: Final = 1024


class KnownConnections:
    """Open connections, and closed ones whose end no inspector has confirmed.

    Args:
        table: Where inspectors store how far they are. Without it, no inspector follows a lost one; nothing is kept.
    """

    def __init__(self, table: InspectedTable | None) -> None:
        self._table = table
        self._open: dict[int, TappedConnection] = {}
        self._closed: deque[TappedConnection] = deque()
        self._late: deque[TappedConnection] = deque()  # still to be announced to a new inspector

    @property
    def cost(self) -> int:
        """Bytes of memory of closed connections."""
        return CLOSED_COST * len(self._closed)

    @property
    def has_late(self) -> bool:
        """Whether `take_late` would return anything."""
        return bool(self._late)

    def take_slot(self) -> int | None:
        """Reserve a slot of the table; None if there is none."""
        return None if self._table is None else self._table.take()

    def add(self, connection: TappedConnection) -> None:
        """A connection with a slot is open."""
        self._open[connection.id] = connection

    def client(self, number: int) -> str | None:
        """The client of an open connection."""
        connection = self._open.get(number)
        return None if connection is None else connection.client

    def remove(self, connection: TappedConnection) -> None:
        """A connection is closed."""
        self._open.pop(connection.id, None)

    def keep(self, connection: TappedConnection) -> None:
        """Keep a closed connection until an inspector has confirmed its end."""
        if connection.slot is not None:
            self._closed.append(connection)

    def free(self, connection: TappedConnection) -> None:
        """No inspector needs the slot of this connection."""
        if self._table is not None:
            self._table.free(connection.slot)

    def free_confirmed(self) -> None:
        """Drop the oldest closed connections whose end is confirmed."""
        while self._closed and self._is_confirmed(self._closed[0]):
            self.free(self._closed.popleft())

    def inspected(self, connection: TappedConnection, direction: int) -> tuple[int, int]:
        """Bytes and frames of one direction that the last inspector has inspected."""
        return (0, 0) if self._table is None else self._table.inspected(connection.slot, direction)

    def begin_inspector(self) -> None:
        """A new inspector begins: all connections are to be announced, the closed ones first."""
        closed = dict.fromkeys(
            (
                *(connection_to_announce for connection_to_announce in self._late if connection_to_announce.is_closed),
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
        """Return the next connections to announce, at most this many."""
        for _ in range(min(max_count, len(self._late))):
            yield self._late.popleft()

    def clear(self) -> None:
        """No inspector will follow."""
        self._open.clear()
        self._closed.clear()
        self._late.clear()

    def _is_confirmed(self, connection: TappedConnection) -> bool:
        return self._table is None or self._table.is_closed(connection.slot)
