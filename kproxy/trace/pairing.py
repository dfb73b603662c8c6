"""Finds the request that a response line answers, and the requests that no longer wait for a response."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeAlias, TypeVar

from kproxy.trace.lines import CloseLine, GapLine, OpenLine, RequestLine, ResponseLine

#: Maximum number of requests in flight per connection, so that a client that gets no responses cannot fill the memory.
MAX_WAITING = 10_000

ValueT = TypeVar("ValueT")
#: Offset -> correlation id, time and value, the oldest request first.
_Requests: TypeAlias = dict[int, tuple[int, str, ValueT]]


class RequestPairing(Generic[ValueT]):
    """Pairs response lines with values that were stored for their request lines.

    A response line names its request by its offset. In older traces, correlation id and time identify the request.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Requests[ValueT]] = {}  # by connection
        self._unseen: dict[str, _Requests[ValueT]] = {}  # by connection; their responses may be in a gap

    def add(self, line: RequestLine, value: ValueT) -> bool:
        """Store a value for a request. Return False if it gets no response (acks=0), or if too many are in flight."""
        if line.acks == 0 or line.correlation_id is None:
            return False
        requests = self._waiting.get(line.connection_id)
        if requests is None:
            requests = self._waiting[line.connection_id] = {}
        elif len(requests) >= MAX_WAITING or line.offset in requests:
            return False
        requests[line.offset] = line.correlation_id, line.ts, value
        return True

    def match(self, line: ResponseLine) -> ValueT | None:
        """Remove and return the value for the request of a response, None if there is none."""
        request = _pop(self._waiting.get(line.connection_id), line)
        if request is None and self._unseen:
            request = _pop(self._unseen.get(line.connection_id), line)
        return None if request is None else request[2]

    def find(self, connection_id: str, offset: int) -> ValueT | None:
        """Return the value for a request, None if it is not in flight."""
        request = self._waiting.get(connection_id, {}).get(offset)
        return None if request is None else request[2]

    def end(self, line: OpenLine | CloseLine | GapLine) -> Collection[ValueT]:
        """Return the values of the requests that no longer wait, the oldest first.

        These are the requests in flight on a connection that ends, or whose id is used again. For a gap, they are the
        requests whose responses may be in it; `match` still finds them.
        """
        if isinstance(line, GapLine):
            if line.direction == "request":
                return ()
            connections = [line.connection_id] if line.connection_id else list(self._waiting)
            return [value for connection in connections for value in self._mark_unseen(connection)]
        self._unseen.pop(line.connection_id, None)
        return _values(self._waiting.pop(line.connection_id, {}))

    def _mark_unseen(self, connection_id: str) -> Collection[ValueT]:
        requests = self._waiting.pop(connection_id, {})
        if requests:
            unseen = self._unseen.setdefault(connection_id, {})
            if len(unseen) < MAX_WAITING:
                unseen.update(requests)
        return _values(requests)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))


def _values(requests: _Requests[ValueT]) -> Collection[ValueT]:
    return [value for _, _, value in requests.values()]


def _pop(requests: _Requests[ValueT] | None, line: ResponseLine) -> tuple[int, str, ValueT] | None:
    """Remove and return the request of a response, None if it is not among these."""
    if not requests:
        return None
    offset = line.request_offset
    if offset is None:
        key = line.correlation_id, line.request_ts
        offset = next((request_offset for request_offset, (*sent, _) in requests.items() if tuple(sent) == key), None)
    return None if offset is None else requests.pop(offset, None)
