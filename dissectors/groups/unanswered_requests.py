"""The requests of all groups that have no response yet."""

from __future__ import annotations

from typing import TypeAlias

from dissectors.groups.facts import GroupFrame, GroupResponse
from dissectors.groups.model import Event, Lane

#: The most requests kept, so that unanswered requests cannot fill the memory.
MAX_IN_FLIGHT = 20_000

#: A request in flight: its lane, its event, its correlation id.
UnansweredRequest: TypeAlias = tuple[Lane, Event, int | None]


class UnansweredRequests:
    """Requests in flight by connection and offset, which identify a request even if correlation ids are reused."""

    def __init__(self) -> None:
        self._count = 0
        self._connections: dict[str, dict[int, UnansweredRequest]] = {}

    def add(self, frame: GroupFrame, lane: Lane, event: Event) -> bool:
        """Store the event of a request; return False if there are too many, or if it is already stored."""
        if self._count >= MAX_IN_FLIGHT:
            return False
        requests = self._connections.setdefault(frame.connection_id, {})
        if frame.offset in requests:
            return False
        requests[frame.offset] = lane, event, frame.correlation_id
        self._count += 1
        return True

    def pop(self, frame: GroupResponse) -> UnansweredRequest | None:
        """Remove and return the request of a response, or None if it is unknown."""
        requests = self._connections.get(frame.connection_id)
        if requests is None:
            return None
        offset = frame.request_offset
        if offset is None:
            offsets = (
                request_offset
                for request_offset, (*_, correlation_id) in requests.items()
                if correlation_id == frame.correlation_id
            )
            offset = next(offsets, -1)
        request = requests.pop(offset, None)
        if request is not None:
            self._count -= 1
            if not requests:
                del self._connections[frame.connection_id]  # a truncated trace may lack the connection's end
        return request

    def remove(self, connection_id: str | None) -> list[UnansweredRequest]:
        """Remove and return the requests of a connection, or of all connections; oldest first."""
        connections = list(self._connections) if connection_id is None else [connection_id]
        removed = [request for connection in connections for request in self._connections.pop(connection, {}).values()]
        self._count -= len(removed)
        return removed
