"""Which request a response line answers, and which requests stop waiting for one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeAlias, TypeVar

from kproxy.trace.lines import CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine

#: Most requests in flight per connection, so that a client that gets no responses cannot fill the memory.
MOST_WAITING = 10_000

ValueT = TypeVar("ValueT")
#: By offset: correlation id, time and value, the oldest request first.
_Requests: TypeAlias = dict[int, tuple[int, str, ValueT]]


class RequestPairing(Generic[ValueT]):
    """Keeps a value for each request in flight, and returns it with the line that ends the wait.

    A response line names its request by offset. In traces of format 1 that do not, correlation id and time identify it.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Requests[ValueT]] = {}  # by connection
        self._unseen: dict[str, _Requests[ValueT]] = {}  # the response may be in a gap

    def observe(self, line: Line, value: ValueT) -> Collection[ValueT]:
        """Apply the next line of a trace, with the value to keep if it is a request.

        Returns:
            The values of the requests in flight that the line is about: for a request its own, if it expects a
            response; for a response that of its request. For a gap, those whose response may be in it; for the end of
            a connection, or if its id is used again, all of it. These wait no longer.
        """
        connection_id = line.connection_id
        if isinstance(line, RequestLine):
            if line.acks == 0 or line.correlation_id is None:
                return ()
            requests = self._waiting.get(connection_id)
            if requests is None:
                requests = self._waiting[connection_id] = {}
            elif len(requests) >= MOST_WAITING or line.offset in requests:
                return ()
            requests[line.offset] = line.correlation_id, line.ts, value
            return (value,)
        if isinstance(line, ResponseLine):
            for each in (self._waiting, self._unseen):
                if (requests := each.get(connection_id)) and (found := _pop(requests, line)) is not None:
                    return (found[2],)
        elif isinstance(line, OpenLine | CloseLine):
            self._unseen.pop(connection_id, None)
            return _values(self._waiting.pop(connection_id, {}))
        elif isinstance(line, GapLine) and line.direction != "request":
            connections = [connection_id] if connection_id else list(self._waiting)
            return [value for each in connections for value in self._mark_unseen(each)]
        return ()

    def _mark_unseen(self, connection_id: str) -> Collection[ValueT]:
        requests = self._waiting.pop(connection_id, {})
        if requests:
            unseen = self._unseen.setdefault(connection_id, {})
            if len(unseen) < MOST_WAITING:
                unseen.update(requests)
        return _values(requests)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))


def _values(requests: _Requests[ValueT]) -> Collection[ValueT]:
    return [value for _, _, value in requests.values()]


def _pop(requests: _Requests[ValueT], line: ResponseLine) -> tuple[int, str, ValueT] | None:
    """Remove and return the request of a response; None if it is not among these."""
    offset = line.request_offset
    if offset is None:
        same = line.correlation_id, line.request_ts
        offset = next((each for each, (*of_request, _) in requests.items() if tuple(of_request) == same), None)
    return None if offset is None else requests.pop(offset, None)
