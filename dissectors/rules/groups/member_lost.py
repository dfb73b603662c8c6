"""G007: a member disappeared without LeaveGroup."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G007", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def member_lost(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member disappeared without LeaveGroup.

    ## Why it matters
    Until its session expires, nobody reads the partitions that only this member has, and a rebalance waits for it. If
    heartbeats show the assignments (KIP-848, KIP-932), the finding names those partitions. Members of a share group may
    have the same partitions: if other members have all of them, or if its assignment was not observed, the severity is
    info. The finding ends when other members get the partitions.

    ## Usual cause
    A process that was killed or crashed, or a client that does not leave the group when it closes. A static member
    keeps its partitions by design while it restarts.

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
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    +3s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    2 close by=client how=reset
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    ```

    ```story
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 0,
      "subscribed_topic_names": ["t"]}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000, "assignment": {"topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0]}]}}
    2> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "b", "member_epoch": 0,
      "subscribed_topic_names": ["t"]}
    2< {"member_id": "b", "member_epoch": 1, "heartbeat_interval_ms": 3000, "assignment": {"topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [1]}]}}
    +3s
    2 close by=client how=reset
    +3s
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    +3s
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
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
    +3s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    +3s
    2> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "b"}
    2< {}
    2> LeaveGroup v1 {"group_id": "orders", "member_id": "b"}
    2< {}
    2 close by=client how=fin
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    +3s
    1> Heartbeat v3 {"group_id": "orders", "generation_id": 1, "member_id": "a"}
    1< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-345
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-932%3A+Queues+for+Kafka
    """
    return stall_problems(event, StallKind.LOST)
