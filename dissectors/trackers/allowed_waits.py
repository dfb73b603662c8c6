"""How long a request allows the server to hold its answer back."""

from __future__ import annotations

from dissectors.messages.message import Message
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts

_S = 1_000_000_000

#: Answered when there is something to say, and not at once: to wait is what they are for.
HELD = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup"})


def allowed_ms(message: Message, timeouts: RebalanceTimeouts) -> int:
    """What the fields of a request allow the server on top of the time that it needs.

    A group answers a JoinGroup when all members have joined, a SyncGroup when their leader has sent the assignment:
    both within the longest rebalance timeout of its members.
    """
    if message.api in ("JoinGroup", "SyncGroup"):
        return timeouts.of(message.body.get("group_id"))
    body = message.body
    wait = body.get("max_wait_ms", body.get("timeout_ms", 0))
    return max(wait, 0) if isinstance(wait, int) else 0


def lasted(ns: int) -> str:
    """A time as findings say it: ``4.2 s``, ``380 ms``."""
    return f"{ns / _S:.3g} s" if ns >= _S else f"{ns / 1_000_000:.3g} ms"
