"""S019: a group member that does not send heartbeats in time."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.members import MEMBER_SILENT, Members
from dissectors.trackers.state import ConnectionState

_SECOND_NS = 1_000_000_000


@rule(
    "S019",
    severity=Severity.ERROR,
    events=(DeadlinePassed,),
    deadline=MEMBER_SILENT,
    needs=(Members,),
    since="0.1",
    blame="client",
)
def heartbeat_late(event: DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a group member sends heartbeats within its session timeout; warns after two thirds.

    ## Why it matters
    When the session expires, the coordinator removes the member from the group and gives its partitions to other
    members: records that were read but not committed are read twice, and the member's next commit fails.

    ## Usual cause
    The process is blocked (garbage collection, a suspended container, no CPU), or the client sends heartbeats only
    between records and one of them took too long. `heartbeat.interval.ms` should be at most a third of
    `session.timeout.ms`.

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {}
    +11s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {"error_code": 25}
    ```

    ## Look-alikes
    A member that leaves, or whose connection ends:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {}
    2> JoinGroup v5 {"group_id": "g2", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    2< {"generation_id": 1, "member_id": "m-2", "leader": "m-2"}
    2> SyncGroup v3 {"group_id": "g2", "generation_id": 1, "member_id": "m-2"}
    2< {}
    +3s
    > LeaveGroup v3 {"group_id": "g", "members": [{"member_id": "m-1"}]}
    < {}
    2 close
    +20s
    ```
    A member whose heartbeat is not answered (C004): clients send no other heartbeat until it is.
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    +11s
    ```
    A member that rejoins and waits for slower members:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {"error_code": 27}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m-1"}
    +40s
    < {"generation_id": 2, "member_id": "m-1", "leader": "m-1"}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_session.timeout.ms
    https://github.com/confluentinc/confluent-kafka-dotnet/issues/1220
    """
    members = connection.run.state(Members)
    member = members.find(*event.about)
    if member is None or not member.must_heartbeat or member.waits:
        return
    silence, session_text = event.at - member.seen_at, f"{member.session / _SECOND_NS:g} s"
    name = f"member {member.id!r} of group {member.group!r}"
    if silence < member.session:
        connection.set_deadline(MEMBER_SILENT, event.about, by=member.seen_at + member.session, about=event.about)
        yield Problem(
            f"{name} has sent no heartbeat for {duration(silence)}; after {session_text} the coordinator removes it "
            "from the group",
            severity=Severity.WARNING,
            hint="find out what blocks the client; heartbeat.interval.ms should be at most a third of "
            "session.timeout.ms",
            cause=f"late {member.group}",
        )
    else:
        yield Problem(
            f"{name} has sent no heartbeat for its whole session timeout of {session_text}: the coordinator removes it "
            "from the group, which rebalances",
            hint="find out what blocks the client (garbage collection, long work between polls, no CPU), or raise "
            "session.timeout.ms",
            cause=f"gone {member.group}",
        )
