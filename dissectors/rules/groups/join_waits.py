"""G001: members wait for the JoinGroup response because another member has not rejoined."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G001", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def join_waits(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that members wait for the JoinGroup response because another member has not rejoined.

    ## Why it matters
    The coordinator answers JoinGroup when every member of the group has joined. Until then the whole group
    reads nothing.

    ## Usual cause
    A member that is busy between two polls, that disappeared without LeaveGroup, or whose process is blocked. The
    finding names that member. Its severity is error once the wait has lasted 10 s.

    ## Example
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    2> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    2< {"generation_id": 1, "leader": "a", "member_id": "b"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    2> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    1< {}
    2< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    +6s
    ```

    ## Look-alikes
    A rebalance in which the other member joins at its next heartbeat:
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    2> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    2< {"generation_id": 1, "leader": "a", "member_id": "b"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    2> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    1< {}
    2< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    +2s
    2> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "b"}
    1< {"generation_id": 2, "leader": "a", "member_id": "a"}
    2< {"generation_id": 2, "leader": "a", "member_id": "b"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 2, "member_id": "a"}
    2> SyncGroup v3 {"group_id": "orders", "generation_id": 2, "member_id": "b"}
    1< {}
    2< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-62
    """
    return stall_problems(event, StallKind.JOIN_WAITS)
