"""G015: one process causes one rebalance after another."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G015", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def rebalances_of_one_member(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that one process causes one rebalance of its group after another.

    ## Why it matters
    At each rebalance all members stop, rejoin and fetch their offsets again. All of them look as if they were at fault;
    the finding names the member that is, and what it did: leave, join as a new member, let its session expire, or
    rejoin by itself. It is reported at the fifth rebalance if consecutive rebalances are at most 15 s apart.

    ## Usual cause
    A consumer that subscribes or closes for each batch; a leader whose view of the topics alternates, so that it keeps
    rejoining; an application that creates a consumer and closes it after each error. A process is identified by its
    connection, so one that restarts is not counted.

    ## Example
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 2, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 2, "member_id": "a"}
    1< {}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 3, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 3, "member_id": "a"}
    1< {}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 4, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 4, "member_id": "a"}
    1< {}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 5, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 5, "member_id": "a"}
    1< {}
    +1s
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 6, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 6, "member_id": "a"}
    1< {}
    +2s
    ```

    ## Look-alikes
    A cooperative member, which rejoins after a rebalance in which it gave up partitions, and a member that rejoins
    because the coordinator tells it to:
    ```story
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 1, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {"error_code": 27}
    1> JoinGroup v5 {"group_id": "orders", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "a"}
    1< {"generation_id": 2, "leader": "a", "member_id": "a"}
    1> SyncGroup v3 {"group_id": "orders", "generation_id": 2, "member_id": "a"}
    1< {}
    +1s
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-429%3A+Kafka+Consumer+Incremental+Rebalance+Protocol
    https://github.com/kafka4beam/brod/issues/177
    """
    return stall_problems(event, StallKind.DISTURBED)
