"""G013: a member of a group waits for a response that normally arrives immediately."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G013", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="broker")
def member_unanswered(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member of a group waits for a response that normally arrives immediately.

    ## Why it matters
    A member without an answer to its heartbeat, commit or offset request stops reading, and may lose its partitions.

    ## Usual cause
    A coordinator that hangs, or a device on the network path that drops packets.

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
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    +6s
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
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    +2s
    1< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-62
    """
    return stall_problems(event, StallKind.UNANSWERED)
