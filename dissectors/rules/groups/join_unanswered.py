"""G002: a JoinGroup request has no response although others in the same round have."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G002", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="broker")
def join_unanswered(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a JoinGroup request has no response although others in the same round have.

    ## Why it matters
    The coordinator answers all members of a round together. A member that is left out waits until its request times
    out, while the others read without it.

    ## Usual cause
    A coordinator that loses the request, for example from a member that joined twice, or a gateway that drops the
    response.

    ## Example
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    2> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    +2s
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    ```

    ## Look-alikes
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
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-62
    """
    return stall_problems(event, StallKind.JOIN_UNANSWERED)
