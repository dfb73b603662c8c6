"""G011: a member's offsets are not stored because the coordinator refuses its commit."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G011", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="client")
def commit_refused(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a member's offsets are not stored because the coordinator refuses its commit.

    ## Why it matters
    Whichever member gets the partition reads the records since the last stored offset again.

    ## Usual cause
    A member that was removed because it took longer than max.poll.interval.ms between two polls.

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
    1> OffsetCommit v7 {"group_id": "orders", "generation_id_or_member_epoch": 1, "member_id": "a",
      "topics": [{"name": "t", "partitions": [{"committed_offset": 5}]}]}
    1< {"topics": [{"name": "t", "partitions": [{"error_code": 25}]}]}
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
    1> OffsetCommit v7 {"group_id": "orders", "generation_id_or_member_epoch": 1, "member_id": "a",
      "topics": [{"name": "t", "partitions": [{"committed_offset": 5}]}]}
    1< {"topics": [{"name": "t", "partitions": [{"error_code": 0}]}]}
    +1s
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    return stall_problems(event, StallKind.COMMIT_REFUSED)
