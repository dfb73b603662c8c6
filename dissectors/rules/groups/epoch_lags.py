"""G012: a member stays at an old epoch, so partitions that other members are waiting for are not revoked."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G012", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def epoch_lags(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member stays at an old epoch, so partitions that other members are waiting for are not revoked.

    ## Why it matters
    In the consumer protocol (KIP-848), a partition moves only when its previous owner confirms that it has given it up.
    The same is true of the tasks of a streams group (KIP-1071).

    ## Usual cause
    A member that does not call poll(), or that is blocked in a rebalance callback.

    ## Example
    ```story
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 0}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 0}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    ```

    ## Look-alikes
    ```story
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 0}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 0}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 2}
    1< {"member_id": "a", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 2}
    1< {"member_id": "a", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 2}
    1< {"member_id": "a", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "a", "member_epoch": 2}
    1< {"member_id": "a", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    2> ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    ```

    Members of a share group (KIP-932) revoke nothing, so nobody waits for one at an old epoch:
    ```story
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 0}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "b", "member_epoch": 0}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    +3s
    1> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "a", "member_epoch": 1}
    1< {"member_id": "a", "member_epoch": 1, "heartbeat_interval_ms": 3000}
    2> ShareGroupHeartbeat v1 {"group_id": "orders", "member_id": "b", "member_epoch": 2}
    2< {"member_id": "b", "member_epoch": 2, "heartbeat_interval_ms": 3000}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1071
    """
    return stall_problems(event, StallKind.LAGGING)
