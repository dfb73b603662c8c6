"""Requests that have no response yet, by connection."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from kproxy.trace.lines import GapLine, RequestLine, ResponseLine

#: Requests that are remembered; clients that are never answered cannot fill memory.
MOST = 100_000

ValueT = TypeVar("ValueT")


class RequestPairing(Generic[ValueT]):
    """Pairs responses with what was remembered of their requests, by correlation id and by when those were sent.

    The time tells apart what has one correlation id.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST if most is None else most
        self._count = 0
        self._waiting: dict[str, dict[tuple[int | None, str | None], ValueT]] = {}

    def asked(self, line: RequestLine, value: ValueT) -> bool:
        """A request was sent: remember `value`. Whether it was: a Produce with acks=0 gets no response."""
        if line.acks == 0 or line.correlation_id is None or self._count >= self._most:
            return False
        waiting = self._waiting.get(line.connection_id)
        if waiting is None:
            waiting = self._waiting[line.connection_id] = {}
        key = line.correlation_id, line.ts
        if key in waiting:
            return False  # the same id in the same microsecond: one of them is enough
        waiting[key] = value
        self._count += 1
        return True

    def answered(self, line: ResponseLine) -> ValueT | None:
        """A response came: what was remembered of its request, None if nothing was."""
        waiting = self._waiting.get(line.connection_id)
        if not waiting:
            return None
        value = waiting.pop((line.correlation_id, line.request_ts), None)
        if value is not None:
            self._count -= 1
            if not waiting:
                del self._waiting[line.connection_id]  # a torn trace does not say when connections end
        return value

    def ended(self, connection_id: str) -> Collection[ValueT]:
        """A connection is over, or of no interest any more: what waited on it, the oldest first."""
        waiting = self._waiting.pop(connection_id, {})
        self._count -= len(waiting)
        return waiting.values()

    def missed(self, gap: GapLine) -> list[ValueT]:
        """Something was not seen: what waited for a response that may have been there, and waits no longer."""
        if gap.direction == "request":
            return []
        connections = [gap.connection_id] if gap.connection_id else list(self._waiting)
        return [value for each in connections for value in self.ended(each)]

    def of(self, connection_id: str) -> Collection[ValueT]:
        """What waits on a connection, the oldest first."""
        return self._waiting.get(connection_id, {}).values()
