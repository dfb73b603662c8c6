"""RebalanceTimeouts: the longest timeout of each group's members."""

from __future__ import annotations

from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.trackers import tracker

#: The default of max.poll.interval.ms in the Java client and librdkafka.
DEFAULT_MS = 300_000

MAX_GROUPS = 10_000


@tracker(events=(RequestReceived,), apis=("JoinGroup",))
class RebalanceTimeouts:
    """The longest rebalance or session timeout of each group: how long JoinGroup and SyncGroup may be held back."""

    def __init__(self) -> None:
        self._longest: BoundedDict[str | None, int] = BoundedDict(MAX_GROUPS)

    def observe(self, event: RequestReceived, connection: Any) -> None:
        """Update the timeout of a group when a member joins."""
        body = event.message.body
        group = body.get("group_id")
        timeouts = (body.get("rebalance_timeout_ms"), body.get("session_timeout_ms"), self._longest.get(group))
        self._longest[group] = max((timeout for timeout in timeouts if isinstance(timeout, int)), default=0)

    def for_group(self, group: str | None) -> int:
        """Return the timeout in ms; clients' default if no member was observed to join."""
        return self._longest.get(group, DEFAULT_MS)
