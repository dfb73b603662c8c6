"""Requests that have no response yet, by connection."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from kproxy.trace.lines import GapLine, RequestLine, ResponseLine

#: Requests that are remembered; clients that are never answered cannot fill memory.
MOST = 100_000

ValueT = TypeVar("ValueT")


class RequestPairing(Generic[ValueT]):
    """Pairs responses with what was remembered of their requests.

    A response names its request by correlation id, time and offset. Older traces have no offset: there the
    time alone tells apart requests with the same correlation id.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST if most is None else most
        self._count = 0
        self._waiting: dict[str, dict[tuple[int | None, str | None], dict[int, ValueT]]] = {}

    def asked(self, line: RequestLine, value: ValueT) -> bool:
        """A request was sent: remember `value`. Whether it was: a Produce with acks=0 gets no response."""
        if line.acks == 0 or line.correlation_id is None or self._count >= self._most:
            return False
        waiting = self._waiting.get(line.connection_id)
        if waiting is None:
            waiting = self._waiting[line.connection_id] = {}
        same = waiting.setdefault((line.correlation_id, line.ts), {})
        if line.offset in same:
            return False
        same[line.offset] = value
        self._count += 1
        return True

    def answered(self, line: ResponseLine) -> ValueT | None:
        """A response came: what was remembered of its request, None if nothing was."""
        waiting = self._waiting.get(line.connection_id)
        if not waiting:
            return None
        key = line.correlation_id, line.request_ts
        same = waiting.get(key)
        if same is None:
            return None
        value = same.pop(next(iter(same)) if line.request_offset is None else line.request_offset, None)
        if value is not None:
            self._count -= 1
            if not same:
                del waiting[key]
                if not waiting:
                    del self._waiting[line.connection_id]  # a torn trace does not say when connections end
        return value

    def ended(self, connection_id: str) -> Collection[ValueT]:
        """A connection is over, or of no interest any more: what waited on it, the oldest first."""
        waiting = self.of(connection_id)
        self._waiting.pop(connection_id, None)
        self._count -= len(waiting)
        return waiting

    def missed(self, gap: GapLine) -> list[ValueT]:
        """Something was not seen: what waited for a response that may have been there, and waits no longer."""
        if gap.direction == "request":
            return []
        connections = [gap.connection_id] if gap.connection_id else list(self._waiting)
        return [value for each in connections for value in self.ended(each)]

    def of(self, connection_id: str) -> Collection[ValueT]:
        """What waits on a connection, the oldest first."""
        waiting = self._waiting.get(connection_id, {})
        return [value for same in waiting.values() for value in same.values()]
