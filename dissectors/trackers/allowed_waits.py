"""How long a server may hold back the response to a request."""

from __future__ import annotations

from dissectors.messages.message import Message
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts

_SECOND = 1_000_000_000

#: APIs whose responses are held back by design: long polls and rebalances.
LONG_POLLS = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup"})


def allowed_ms(message: Message, timeouts: RebalanceTimeouts) -> int:
    """Return the time in ms that a request allows the server beyond its processing time.

    A group coordinator responds to JoinGroup when all members have joined, and to SyncGroup when the leader has sent
    the assignment: both within the longest rebalance timeout of the members.
    """
    if message.api in ("JoinGroup", "SyncGroup"):
        return timeouts.for_group(message.body.get("group_id"))
    body = message.body
    wait = body.get("max_wait_ms", body.get("timeout_ms", 0))
    return max(wait, 0) if isinstance(wait, int) else 0


def duration(ns: int) -> str:
    """Format a duration: ``1,770 s``, ``4.2 s``, ``380 ms``."""
    if ns >= 1000 * _SECOND:
        return f"{ns / _SECOND:,.0f} s"
    return f"{ns / _SECOND:.3g} s" if ns >= _SECOND else f"{ns / 1_000_000:.3g} ms"
