"""G008: a member joins again and again without getting an assignment."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G008", severity=Severity.WARNING, events=(GroupStalled,), since="0.1")
def join_loop(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member joins again and again without getting an assignment.

    ## Why it matters
    The group rebalances all the time, and nobody reads.

    ## Usual cause
    A client that cannot read a JoinGroup or SyncGroup response, or two members that interrupt each other's rebalances.

    ## Example
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a1", "member_id": "a1"}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 2, "leader": "a2", "member_id": "a2"}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 3, "leader": "a3", "member_id": "a3"}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 4, "leader": "a4", "member_id": "a4"}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 5, "leader": "a5", "member_id": "a5"}
    +1s
    ```

    ## Look-alikes
    A new member that is given its id first (MEMBER_ID_REQUIRED):
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"error_code": 79}
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-394
    """
    return stall_problems(event, StallKind.JOIN_LOOP)
