"""G003: a member has joined but sends no SyncGroup request."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G003", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def sync_missing(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member has joined but sends no SyncGroup request.

    ## Why it matters
    Without SyncGroup a member gets no assignment. If it is the leader, nobody does.

    ## Usual cause
    A client that cannot read the JoinGroup response, or that is blocked in its assignor or in a rebalance callback.

    ## Example
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    +4s
    ```

    ## Look-alikes
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    +1s
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-62
    """
    return stall_problems(event, StallKind.SYNC_MISSING)
