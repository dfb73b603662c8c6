"""S020: a member that uses the generation of an earlier rebalance."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import summary
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.granted_generations import GrantedGenerations
from dissectors.trackers.members import Members
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import parts

_ILLEGAL_GENERATION = Error.ILLEGAL_GENERATION
_THRESHOLD = 3


class _Refusals(Recurrence):
    """Refusals per member, generation and API."""


@rule(
    "S020",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Heartbeat", "SyncGroup", "OffsetCommit"),
    only=FrameFlags.REFUSED,
    needs=(GrantedGenerations, Members),
    since="0.1",
    blame="client",
)
def illegal_generation(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that members react to ILLEGAL_GENERATION, which means that the group continued without them.

    ## Why it matters
    Offsets committed in an old generation are not stored, so the partition's new owner reads those records again. A
    member that continues in an old generation reads partitions that it no longer owns.

    ## Usual cause
    The work between two polls took longer than `max.poll.interval.ms`, the group continued without the member, and it
    commits afterwards. A single heartbeat that crosses a rebalance is reported as info. S078 covers a coordinator that
    refuses the newest generation.

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 5, "member_id": "m-1", "leader": "m-1"}
    > OffsetCommit v7 {"group_id": "g", "generation_id_or_member_epoch": 4, "member_id": "m-1", "topics": [
       {"name": "t", "partitions": [{"committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"error_code": 22}]}]}
    ```

    ## Look-alikes
    A group that rebalances and reports it with REBALANCE_IN_PROGRESS:
    ```story
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 27}
    > OffsetCommit v7 {"group_id": "g", "generation_id_or_member_epoch": 4, "member_id": "m-1", "topics": [
       {"name": "t", "partitions": [{"committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{}]}]}
    ```

    The generation is the newest one seen, so it has not ended:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 5, "member_id": "m-1", "leader": "m-1"}
    > Heartbeat v3 {"group_id": "g", "generation_id": 5, "member_id": "m-1"}
    < {"error_code": 22}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None:
        return
    error = next((error for error in summary.errors(message) if error.code == _ILLEGAL_GENERATION), None)
    if error is None or connection.run.state(GrantedGenerations).contradiction is not None:
        return  # with a contradiction, the generation has not ended as far as kproxy can see (S078)
    group, member_id = request_body.get("group_id", ""), request_body.get("member_id", "")
    generation = request_body.get("generation_id", request_body.get("generation_id_or_member_epoch"))
    member = connection.run.state(Members).find(group, member_id)
    newer_generation_text = ""
    if member is not None and member.generation != generation:
        newer_generation_text = f"; it has since joined generation {member.generation}"
    times = connection.run.state(_Refusals).count((group, member_id, generation, message.api), event.at)
    if message.api == "OffsetCommit":
        action = (
            f"sends OffsetCommit in the ended generation {generation} (ILLEGAL_GENERATION): its offsets are not stored"
            f"{newer_generation_text}"
        )
    elif times < _THRESHOLD:
        action = f"sends {message.api} in the ended generation {generation}{newer_generation_text}"
    else:
        action = (
            f"continues in the ended generation {generation}, {times} times{newer_generation_text}; it should rejoin"
        )
    yield Problem(
        f"member {member_id!r} of group {group!r} {action}",
        **locate(message, *parts(error.path)),
        severity=None if message.api == "OffsetCommit" or times >= _THRESHOLD else Severity.INFO,
        hint="do less between polls (max.poll.records) or raise max.poll.interval.ms; commit before the partitions are "
        "revoked",
        cause=f"{group} {times >= _THRESHOLD}",
    )
