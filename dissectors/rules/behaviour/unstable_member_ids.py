"""S016: a member that gets a new member id each time it joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.groups import MisledGroups
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

#: Reported after this many consecutive new ids, each requested before the previous id's session expired.
NEW_IDS = 4

#: Errors after which a client correctly joins as a new member.
_MEMBERSHIP_LOST_ERRORS = (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID)

_MS = 1_000_000

MAX_MEMBERS = 10_000

_MemberKey = tuple[str, str | None, str]


@dataclass(slots=True)
class _Member:
    """A client in a group: the number of consecutive new ids, and when the session of the latest one expires (ns).

    `connection_id` is the connection on which it got that id, None if the connection has ended.
    """

    connection_id: str | None
    expires_at: int
    new_ids: int = 1


class _Members:
    """The members of a run, by host, client id and group."""

    def __init__(self) -> None:
        self.known: BoundedDict[_MemberKey, _Member] = BoundedDict(MAX_MEMBERS)


class _ConnectionMembers:
    """The members that joined on a connection."""

    def __init__(self) -> None:
        self.keys: BoundedDict[_MemberKey, None] = BoundedDict(100)


@rule(
    "S016",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived, ConnectionEnded),
    apis=("JoinGroup", "LeaveGroup"),
    also=(Trigger((ResponseReceived,), ("SyncGroup", "Heartbeat", "OffsetCommit"), only=FrameFlags.REFUSED),),
    needs=(MisledGroups,),
    since="0.1",
    blame="client",
)
def unstable_member_ids(
    event: RequestReceived | ResponseReceived | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a member keeps its id from one join to the next.

    ## Why it matters
    An abandoned id stays a member of the group until its session expires. The group grows with each join, partitions
    are assigned to members that do not exist, and every rebalance waits for them.

    ## Usual cause
    The client joins with an empty member_id after an error or timeout that does not require it, usually because it
    gives up on a JoinGroup before the rebalance ends. Or the coordinator returns a different id from the one that the
    member sent.

    ## Example
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "app-1"}
    +1s
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 2, "member_id": "app-2"}
    +1s
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 3, "member_id": "app-3"}
    +1s
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 4, "member_id": "app-4"}
    ```
    The client does not wait for the response:
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 300000, "rebalance_timeout_ms": 300000}
    +30s
    close by=client how=fin
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 300000, "rebalance_timeout_ms": 300000}
    +30s
    close by=client how=fin
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 300000, "rebalance_timeout_ms": 300000}
    +30s
    close by=client how=fin
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 300000, "rebalance_timeout_ms": 300000}
    +30s
    close by=client how=fin
    ```
    The coordinator does not keep the member id:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000, "member_id": "app-1"}
    < {"generation_id": 1, "member_id": "app-2"}
    ```

    ## Look-alikes
    A member that leaves each time before it joins as a new one:
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "app-1"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "app-1"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 2, "member_id": "app-2"}
    > Heartbeat v2 {"group_id": "g", "generation_id": 2, "member_id": "app-2"}
    < {"error_code": 25}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 3, "member_id": "app-3"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "app-3"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 4, "member_id": "app-4"}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/5962
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-394%3A+Require+member.id+for+initial+join+group+request
    """
    if isinstance(event, ConnectionEnded):
        yield from _check_unanswered_joins(event, connection)
        return
    message, members = event.message, connection.run.state(_Members).known
    if message is None or message.diagnosis is not None:
        return
    if isinstance(event, RequestReceived):
        if message.api == "LeaveGroup" and members:
            members.pop(_member_key(connection, message), None)
    elif event.request is not None and event.request_body is not None:
        key = _member_key(connection, event.request.message)
        if message.api == "JoinGroup" and message.body["error_code"] == 0:
            yield from _check_join(message, key, event.request_body, event.at, connection)
        elif members and _is_membership_lost(message.body):
            members.pop(key, None)


def _member_key(connection: ConnectionState, request: Message) -> _MemberKey:
    return host_of(connection.client), request.client_id, request.body.get("group_id", "")


def _is_membership_lost(body: dict[str, Any]) -> bool:
    if "topics" in body:  # OffsetCommit
        return any(
            partition["error_code"] in _MEMBERSHIP_LOST_ERRORS
            for topic in body["topics"] or ()
            for partition in topic["partitions"][:1]
        )
    return body["error_code"] in _MEMBERSHIP_LOST_ERRORS


def _check_join(
    message: Message, key: _MemberKey, request_body: dict[str, Any], at: int, connection: ConnectionState
) -> Iterator[Problem]:
    sent_id, returned_id, group = request_body.get("member_id"), message.body["member_id"], key[2]
    if not returned_id or request_body.get("group_instance_id") is not None:
        return  # a static member is known by its instance id
    if connection.run.state(MisledGroups).contains(group, at):
        return
    if not sent_id:
        yield from _count_new_join(key, at, request_body, connection, message)
    elif sent_id != returned_id:
        yield Problem(
            f"member {sent_id!r} joined group {group!r} but the response has another member id, {returned_id!r}",
            **locate(message, "member_id"),
            hint="return the member_id that the JoinGroup request has; generate a new one only if it is empty",
            blame="broker",
            expected=sent_id,
            got=returned_id,
            cause=f"answered {group}",
        )
    else:
        connection.run.state(_Members).known.pop(key, None)  # the member has kept its id


def _check_unanswered_joins(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    # From version 4 on, a new client first gets an id, and is not a member until it has joined with that id.
    joins = [
        request.message
        for request in event.unanswered
        if request.message.api == "JoinGroup" and request.message.version < 4
    ]
    for message in joins if event.by == "client" else ():
        if message.well_formed and not message.body.get("member_id"):
            yield from _count_new_join(_member_key(connection, message), event.at, message.body, connection, None)
    members = connection.run.state(_Members).known
    for key in connection.state(_ConnectionMembers).keys:
        if (member := members.get(key)) is not None and member.connection_id == connection.connection_id:
            member.connection_id = None


def _count_new_join(
    key: _MemberKey, at: int, request_body: dict[str, Any], connection: ConnectionState, message: Message | None
) -> Iterator[Problem]:
    """Count a join with an empty member id. `message` is the response, None if the client did not wait for it."""
    members, connection_id = connection.run.state(_Members).known, connection.connection_id
    expires_at = at + request_body.get("session_timeout_ms", 0) * _MS
    connection.state(_ConnectionMembers).keys[key] = None
    member = members.get(key)
    if member is None or (member.connection_id is None and at > member.expires_at):
        members[key] = _Member(connection_id, expires_at)
    elif member.connection_id in (None, connection_id):
        member.new_ids = member.new_ids + 1 if at <= member.expires_at else 1
        member.connection_id, member.expires_at = connection_id, expires_at
        if member.new_ids >= NEW_IDS:
            yield Problem(
                f"client {key[1]!r} has joined group {key[2]!r} with an empty member_id {member.new_ids} times in a "
                "row; its previous ids stay members of the group until their sessions expire",
                **(locate(message, "member_id") if message else {}),
                hint="rejoin with the member_id of the last JoinGroup response, and wait for that response as long "
                "as the rebalance timeout",
                cause=key[2],
            )
