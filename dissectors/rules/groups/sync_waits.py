"""G004: a member waits for the SyncGroup response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G004", severity=Severity.WARNING, events=(GroupStalled,), since="0.1")
def sync_waits(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member waits for the SyncGroup response.

    ## Why it matters
    The response contains the member's partitions: until it arrives, the member reads nothing.

    ## Usual cause
    A leader that has not sent the assignment, or a coordinator that cannot write it to __consumer_offsets.

    ## Example
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    +4s
    ```

    ## Look-alikes
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": ""}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    +1s
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
    return stall_problems(event, StallKind.SYNC_WAITS)
