"""Requests in flight, by connection."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from kproxy.trace.lines import GapLine, RequestLine, ResponseLine

#: Limit, so that unanswered requests cannot fill the memory.
MAX_REQUESTS = 100_000

ValueT = TypeVar("ValueT")


class RequestPairing(Generic[ValueT]):
    """Pairs responses with values that were stored for their requests.

    A response line identifies its request by correlation id, time and offset. Older traces have no offset; there, only
    the time distinguishes requests with the same correlation id.
    """

    def __init__(self) -> None:
        self._count = 0
        self._requests: dict[str, dict[tuple[int | None, str | None], dict[int, ValueT]]] = {}

    def add(self, line: RequestLine, value: ValueT) -> bool:
        """Store a value for a request. Returns False if it cannot have a response (acks=0) or there are too many."""
        if line.acks == 0 or line.correlation_id is None or self._count >= MAX_REQUESTS:
            return False
        requests = self._requests.get(line.connection_id)
        if requests is None:
            requests = self._requests[line.connection_id] = {}
        same = requests.setdefault((line.correlation_id, line.ts), {})
        if line.offset in same:
            return False
        same[line.offset] = value
        self._count += 1
        return True

    def match(self, line: ResponseLine) -> ValueT | None:
        """Remove and return the value for the request of a response, None if there is none."""
        requests = self._requests.get(line.connection_id)
        if not requests:
            return None
        key = line.correlation_id, line.request_ts
        same = requests.get(key)
        if same is None:
            return None
        value = same.pop(next(iter(same)) if line.request_offset is None else line.request_offset, None)
        if value is not None:
            self._count -= 1
            if not same:
                del requests[key]
                if not requests:
                    del self._requests[line.connection_id]  # a truncated trace may lack close lines
        return value

    def remove_connection(self, connection_id: str) -> Collection[ValueT]:
        """Remove and return all values of a connection, the oldest first."""
        requests = self.values_of(connection_id)
        self._requests.pop(connection_id, None)
        self._count -= len(requests)
        return requests

    def remove_gap(self, gap: GapLine) -> list[ValueT]:
        """Remove and return the values of requests whose response may be in a gap."""
        if gap.direction == "request":
            return []
        connections = [gap.connection_id] if gap.connection_id else list(self._requests)
        return [value for each in connections for value in self.remove_connection(each)]

    def values_of(self, connection_id: str) -> Collection[ValueT]:
        """The values of a connection, the oldest first."""
        requests = self._requests.get(connection_id, {})
        return [value for same in requests.values() for value in same.values()]
