"""G005: a member keeps getting REBALANCE_IN_PROGRESS but does not rejoin."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G005", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def not_rejoining(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member keeps getting REBALANCE_IN_PROGRESS but does not rejoin.

    ## Why it matters
    All other members wait for this one, for up to its max.poll.interval.ms (5 minutes by default).

    ## Usual cause
    An application that processes records without calling poll() while a thread of the client sends heartbeats.

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
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    +2s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {"error_code": 27}
    +2s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {"error_code": 27}
    +2s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {"error_code": 27}
    +1s
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
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {"error_code": 27}
    2> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "b"}
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 2, "leader": "a", "member_id": "a"}
    2< {"generation_id": 2, "leader": "a", "member_id": "b"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-62
    """
    return stall_problems(event, StallKind.NOT_REJOINING)
