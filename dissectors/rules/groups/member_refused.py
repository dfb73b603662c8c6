"""G009: the coordinator keeps refusing a member."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G009", severity=Severity.WARNING, events=(GroupStalled,), since="0.1")
def member_refused(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that the coordinator keeps refusing a member.

    ## Why it matters
    A refused member reads nothing, or keeps working on partitions that other members have been assigned.

    ## Usual cause
    The error shows the cause, and the finding explains it. ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID mean that the group
    has gone on without the member, which must rejoin.

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
    +1s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {"error_code": 25}
    +1s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {"error_code": 25}
    +1s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {"error_code": 25}
    +1s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {"error_code": 25}
    +1s
    ```

    ## Look-alikes
    A member that is refused once, and rejoins:
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    2> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    2< {"generation_id": 1, "leader": "a", "member_id": "b"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    2> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    1< {}
    2< {}
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {"error_code": 22}
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 2, "leader": "c", "member_id": "c"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 2, "member_id": "c"}
    1< {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    return stall_problems(event, StallKind.REFUSED)
