"""G018: a member that sends heartbeats but has stopped fetching."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.embedded import expand
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.fetches import FetchesByClient
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import client_key

QUIET = Limit(
    "quiet", 30, "s", "a member with assigned partitions sends heartbeats, but no fetch, for so long", least=1
)

_MAX_MEMBERS = 10_000
_MAX_NAMED = 3


@dataclass(slots=True)
class _Assignment:
    """What a member got, when (ns), and the error with which its last commit since then was refused."""

    at: int
    partitions: Sequence[TopicPartition]
    refused: int = 0


class _Assignments(BoundedDict[tuple[str, str], _Assignment]):
    """The assignments that are not empty, by group and member id."""

    def __init__(self) -> None:
        super().__init__(_MAX_MEMBERS)


@rule(
    "G018",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("Heartbeat", "ConsumerGroupHeartbeat"),
    also=(
        Trigger((ResponseReceived,), ("JoinGroup", "SyncGroup")),
        Trigger((ResponseReceived,), ("OffsetCommit",), only=FrameFlags.REFUSED),
    ),
    needs=(ConnectionsByClient, FetchesByClient, InFlight),
    limits=(QUIET,),
    complete_for=60,
    since="0.1",
    blame="client",
)
def member_not_fetching(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a member of a consumer group that sends heartbeats also fetches its partitions.

    ## Why it matters
    The coordinator sees a healthy member, so it gives the partitions to nobody else: their lag grows, and no request
    fails.

    ## Usual cause
    An application that is busy with the records of one poll, or that has paused all of its partitions; then this is
    info. If a commit of the member was refused since its assignment, the client has probably not recovered from it:
    then this is a warning. Only clients that fetched before are checked, so that a capture without the partitions'
    leaders is not misread.

    ## Example
    ```story
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": []}
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m"}
    < {"assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
      {"assigned_partitions": [{"topic": "t", "partitions": [0]}]}}}
    > OffsetCommit v6 {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 22}]}]}
    +31s
    > Heartbeat v3 {"group_id": "g", "generation_id": 2, "member_id": "m"}
    < {}
    ```

    ## Look-alikes
    The member fetches again; it has no partitions:
    ```story
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": []}
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m"}
    < {"assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
      {"assigned_partitions": [{"topic": "t", "partitions": [0]}]}}}
    +20s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": []}
    +11s
    > Heartbeat v3 {"group_id": "g", "generation_id": 2, "member_id": "m"}
    < {}
    ```
    ```story
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": []}
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m"}
    < {"assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data": {"assigned_partitions": []}}}
    +31s
    > Heartbeat v3 {"group_id": "g", "generation_id": 2, "member_id": "m"}
    < {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-62
    https://github.com/confluentinc/librdkafka/issues/2933
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or event.damaged or not message.well_formed:
        return
    api, body, assignments = message.api, message.body, connection.run.state(_Assignments)
    key = request_body.get("group_id") or "", request_body.get("member_id") or body.get("member_id") or ""
    assignment = assignments.get(key)
    if api == "OffsetCommit":
        codes = [row["error_code"] for topic in body["topics"] for row in topic["partitions"] if row["error_code"]]
        if assignment is not None and codes:
            assignment.refused = codes[0]
        return
    code = body.get("error_code", 0)
    if api == "JoinGroup" or code not in (0, Error.REBALANCE_IN_PROGRESS) or request_body.get("member_epoch", 0) < 0:
        assignments.pop(key, None)
    elif (partitions := _assigned_partitions(message)) is not None:
        assignments.pop(key, None)
        if partitions:
            assignments[key] = _Assignment(event.at, partitions)
    elif assignment is not None and code == 0:
        yield from _check_fetches(key[0], assignment, event.at, connection)


def _assigned_partitions(message: Message) -> list[TopicPartition] | None:
    """Return the partitions that a response assigns; None if it does not assign any, or in an unknown format."""
    if message.api == "SyncGroup":
        message.spend(100 + len(message.frame))
        assignment: Any = expand(message).get("assignment")
        if not isinstance(assignment, dict):
            return [] if not assignment else None
        topics = (assignment.get("data") or {}).get("assigned_partitions")
        return [(topic.get("topic") or "", index) for topic in topics or () for index in topic.get("partitions") or ()]
    assignment = message.body.get("assignment")
    if assignment is None:
        return None
    return [
        (topic_name_or_id(topic), index)
        for topic in assignment.get("topic_partitions") or ()
        for index in topic.get("partitions") or ()
    ]


def _check_fetches(group: str, assignment: _Assignment, at: int, connection: ConnectionState) -> Iterator[Problem]:
    run = connection.run
    fetched_at = run.state(FetchesByClient).for_client(client_key(connection)).answered_at
    quiet_ns = at - max(fetched_at, assignment.at)
    if not fetched_at or quiet_ns < run.limit(QUIET) * SECOND or _awaits_fetch(connection):
        return
    partitions, refused = assignment.partitions, assignment.refused
    names = ", ".join(label(partition, connection) for partition in partitions[:_MAX_NAMED])
    more_text = f" and {len(partitions) - _MAX_NAMED} more" if len(partitions) > _MAX_NAMED else ""
    since_text = f" since its commit was refused with {error_name(refused) or refused}" if refused else ""
    yield Problem(
        f"{client_label(connection)} sends heartbeats to group {group!r}, but has sent no fetch for"
        f" {duration(quiet_ns)}{since_text}: nobody reads {names}{more_text}, which it is assigned",
        severity=Severity.WARNING if refused else None,
        hint="fix the client: it is still a member, so it must go on fetching, or rejoin"
        if refused
        else "check whether the application polls and has not paused its partitions; otherwise its client is stuck",
        cause=f"{group} {connection.client_id}",
    )


def _awaits_fetch(connection: ConnectionState) -> bool:
    """Whether a Fetch of the client is in flight: then other rules report that it is not answered."""
    connections = (connection, *connection.run.state(ConnectionsByClient).others(connection))
    return any(
        request.message.api == "Fetch" for other in connections for request in other.state(InFlight).waiting.values()
    )
