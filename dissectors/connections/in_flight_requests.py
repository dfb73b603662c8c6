"""The requests of a connection that await a response."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from dissectors.connections.events import RequestReceived

#: The most requests in flight that are tracked per connection; beyond that, the oldest is dropped.
MAX_IN_FLIGHT = 10_000


class InFlightRequests:
    """The requests that await a response, oldest first."""

    def __init__(self) -> None:
        self._order: deque[tuple[int, RequestReceived]] = deque()
        self._counts: dict[int, int] = {}  # number of requests per correlation id, so that unknown ids need no search

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[RequestReceived]:
        return (request for _, request in self._order)

    def add(self, request: RequestReceived) -> RequestReceived | None:
        """Add the newest request. If there are too many, stop tracking the oldest one and return it."""
        dropped = self.remove(0) if len(self._order) >= MAX_IN_FLIGHT else None
        correlation_id = request.message.header.get("correlation_id", -1)
        self._order.append((correlation_id, request))
        counts = self._counts
        counts[correlation_id] = counts[correlation_id] + 1 if correlation_id in counts else 1
        return dropped

    def find(self, correlation_id: int) -> tuple[int, RequestReceived] | None:
        """Find the oldest request with that id; return its index, counted from the oldest, and the request, or None."""
        if correlation_id not in self._counts:
            return None
        if (oldest := self._order[0])[0] == correlation_id:  # the usual case
            return 0, oldest[1]
        for index, (waiting_id, request) in enumerate(self._order):
            if waiting_id == correlation_id:
                return index, request
        return None

    def remove(self, index: int) -> RequestReceived:
        """Remove and return the request at `index`, counted from the oldest."""
        if index:
            correlation_id, request = self._order[index]
            del self._order[index]
        else:
            correlation_id, request = self._order.popleft()
        if remaining := self._counts.pop(correlation_id) - 1:
            self._counts[correlation_id] = remaining
        return request
