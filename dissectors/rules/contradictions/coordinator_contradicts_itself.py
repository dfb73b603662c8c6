"""S078: a coordinator that refuses the generation, or the member, that it has just accepted."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import summary
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.granted_generations import GrantedGenerations, SelfContradiction
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import parts

#: Reported after this many refusals in a row, and after this many rebalances that nobody asked for.
REFUSALS = 2
REBALANCES = 3


@rule(
    "S078",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("SyncGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat"),
    only=FrameFlags.REFUSED,
    needs=(GrantedGenerations,),
    since="0.1",
    blame="broker",
)
def coordinator_contradicts_itself(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a coordinator accepts the generation and the member id that it gave last.

    ## Why it matters
    The members follow the protocol and can never make progress: they rejoin, get a new generation, and are refused
    again. Everything that they read is read again. It looks as if a member kept leaving or was too slow.

    ## Usual cause
    A coordinator, or a proxy in front of it, that has lost the state of the group or reads the wrong one: two brokers
    that both consider themselves the coordinator, or a broker that does not implement the group protocol correctly.
    Reported if, twice in a row, the newest generation or epoch is refused as old (ILLEGAL_GENERATION,
    STALE_MEMBER_EPOCH), or a member whose session cannot have expired is refused as unknown; and at the third rebalance
    (REBALANCE_IN_PROGRESS) that no member asked for, if all members are visible, each rebalance led to the same
    members, and no heartbeat was accepted in between.

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 5, "member_id": "m-1", "leader": "m-1", "members": [{"member_id": "m-1"}]}
    > SyncGroup v3 {"group_id": "g", "generation_id": 5, "member_id": "m-1"}
    < {}
    +1s
    > Heartbeat v3 {"group_id": "g", "generation_id": 5, "member_id": "m-1"}
    < {"error_code": 22}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m-1"}
    < {"generation_id": 6, "member_id": "m-1", "leader": "m-1", "members": [{"member_id": "m-1"}]}
    > SyncGroup v3 {"group_id": "g", "generation_id": 6, "member_id": "m-1"}
    < {}
    +1s
    > Heartbeat v3 {"group_id": "g", "generation_id": 6, "member_id": "m-1"}
    < {"error_code": 22}
    ```

    ## Look-alikes
    The group has continued without the member:
    ```story
    1> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    1< {"generation_id": 5, "member_id": "m-1", "leader": "m-1", "members": [{"member_id": "m-1"}]}
    2> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    2< {"generation_id": 6, "member_id": "m-2", "leader": "m-2", "members": [{"member_id": "m-2"}]}
    1> OffsetCommit v7 {"group_id": "g", "generation_id_or_member_epoch": 5, "member_id": "m-1", "topics": [
       {"name": "t", "partitions": [{"committed_offset": 7}]}]}
    1< {"topics": [{"name": "t", "partitions": [{"error_code": 22}]}]}
    1> OffsetCommit v7 {"group_id": "g", "generation_id_or_member_epoch": 5, "member_id": "m-1", "topics": [
       {"name": "t", "partitions": [{"committed_offset": 8}]}]}
    1< {"topics": [{"name": "t", "partitions": [{"error_code": 22}]}]}
    ```

    Another member joins, so the first has to rejoin:
    ```story
    1> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    1< {"generation_id": 5, "member_id": "m-1", "leader": "m-1", "members": [{"member_id": "m-1"}]}
    2> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    1> Heartbeat v3 {"group_id": "g", "generation_id": 5, "member_id": "m-1"}
    1< {"error_code": 27}
    1> Heartbeat v3 {"group_id": "g", "generation_id": 5, "member_id": "m-1"}
    1< {"error_code": 27}
    1> Heartbeat v3 {"group_id": "g", "generation_id": 5, "member_id": "m-1"}
    1< {"error_code": 27}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    https://cwiki.apache.org/confluence/display/KAFKA/Kafka+Client-side+Assignment+Proposal
    """
    contradiction = connection.run.state(GrantedGenerations).contradiction
    message = event.message
    if (
        contradiction is None
        or message is None
        or contradiction.times < (REFUSALS if contradiction.members is None else REBALANCES)
    ):
        return
    error = next((error for error in summary.errors(message) if error.code == contradiction.error), None)
    yield Problem(
        f"the coordinator contradicts itself: {_contradiction_text(contradiction, message.api)}",
        **locate(message, *parts(error.path if error is not None else "error_code")),
        hint=f"fix the broker: {_fix_text(contradiction)}; check its log, and whether a second broker takes itself for "
        "the "
        "coordinator of this group; the members do nothing wrong",
        cause=f"{contradiction.group} {message.api} {contradiction.error}",
    )


def _contradiction_text(contradiction: SelfContradiction, api: str) -> str:
    error, elapsed = contradiction.error.name, duration(contradiction.before)
    if contradiction.members is not None:
        return (
            f"it answers {api} of group {contradiction.group!r} with {error} for the {_ordinal(contradiction.times)} "
            f"time, although nobody has joined or left since generation {contradiction.generation} began {elapsed} "
            f"before; each rebalance leads to the same {contradiction.members} "
            f"member{'s' if contradiction.members > 1 else ''}"
        )
    opening = f"{contradiction.times} times in a row it has refused {api} of group {contradiction.group!r} with {error}"
    member = contradiction.member_id
    if contradiction.error is Error.UNKNOWN_MEMBER_ID:
        return f"{opening}; it accepted a request of member {member!r} {elapsed} before, which has not left"
    unit = "epoch" if contradiction.error is Error.STALE_MEMBER_EPOCH else "generation"
    return f"{opening} for {unit} {contradiction.generation}, which it gave member {member!r} {elapsed} before"


def _fix_text(contradiction: SelfContradiction) -> str:
    if contradiction.members is not None:
        return "it must begin a rebalance only if a member joins, leaves or expires"
    if contradiction.error is Error.UNKNOWN_MEMBER_ID:
        return "it must know a member until its session expires"
    unit = "epoch" if contradiction.error is Error.STALE_MEMBER_EPOCH else "generation"
    return f"it must accept the {unit} that it gave last"


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, 'th') }"
