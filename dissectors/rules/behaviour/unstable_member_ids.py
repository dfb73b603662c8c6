"""S016: a member that has another id each time it joins."""

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
from dissectors.trackers.groups import MisledGroups
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

#: New ids in a row of which none was given back, each while the session of the one before lasts.
NEW_IDS = 4

#: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: after these a client rightly starts anew.
_OVER = (22, 25, 82)

_MS = 1_000_000

MAX_MEMBERS = 10_000

_Key = tuple[str, str | None, str]


@dataclass(slots=True)
class _Member:
    """A client in a group: how many ids it had in a row, and until when the latest lasts.

    `connection_id` is where it got that, None if that connection has ended.
    """

    connection_id: str | None
    until: int
    ids: int = 1


class _Members:
    """The members of a run by host, client id and group."""

    def __init__(self) -> None:
        self.known: BoundedDict[_Key, _Member] = BoundedDict(MAX_MEMBERS)


class _Here:
    """The members of a connection."""

    def __init__(self) -> None:
        self.keys: BoundedDict[_Key, None] = BoundedDict(100)


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
    gives up on a JoinGroup before the rebalance ends. Or the coordinator returns another id than the member sent.

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
    The client does not wait for the answer:
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
    The coordinator does not keep it:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000, "member_id": "app-1"}
    < {"generation_id": 1, "member_id": "app-2"}
    ```

    ## Looks alike
    A member leaves each time, and is a new one when it comes back:
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
        yield from _ended(event, connection)
        return
    message, known = event.message, connection.run.state(_Members).known
    if message is None or message.diagnosis is not None:
        return
    if isinstance(event, RequestReceived):
        if message.api == "LeaveGroup" and known:
            known.pop(_key(connection, message), None)
    elif event.request is not None and event.request_body is not None:
        key = _key(connection, event.request.message)
        if message.api == "JoinGroup" and message.body["error_code"] == 0:
            yield from _joined(message, key, event.request_body, event.at, connection)
        elif known and _is_over(message.body):
            known.pop(key, None)


def _key(connection: ConnectionState, asked: Message) -> _Key:
    return host_of(connection.client), asked.client_id, asked.body.get("group_id", "")


def _is_over(body: dict[str, Any]) -> bool:
    if "topics" in body:  # OffsetCommit
        return any(each["error_code"] in _OVER for topic in body["topics"] or () for each in topic["partitions"][:1])
    return body["error_code"] in _OVER


def _joined(
    message: Message, key: _Key, asked: dict[str, Any], at: int, connection: ConnectionState
) -> Iterator[Problem]:
    before, now, group = asked.get("member_id"), message.body["member_id"], key[2]
    if not now or asked.get("group_instance_id") is not None:
        return  # a static member is known by its instance id
    if connection.run.state(MisledGroups).holds(group, at):
        return
    if not before:
        yield from _new(key, at, asked, connection, message)
    elif before != now:
        yield Problem(
            f"member {before!r} joined group {group!r} but the response has another member id, {now!r}",
            **locate(message, "member_id"),
            hint="return the member_id that the JoinGroup request has; generate a new one only if it is empty",
            blame="broker",
            expected=before,
            got=now,
            cause=f"answered {group}",
        )
    else:
        connection.run.state(_Members).known.pop(key, None)  # it has kept its id


def _ended(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    # From version 4 on a new member gets its id first, and is none before it has joined with that.
    asked = [each.message for each in event.unanswered if each.message.api == "JoinGroup" and each.message.version < 4]
    for message in asked if event.by == "client" else ():
        if message.well_formed and not message.body.get("member_id"):
            yield from _new(_key(connection, message), event.at, message.body, connection, None)
    known = connection.run.state(_Members).known
    for key in connection.state(_Here).keys:
        if (member := known.get(key)) is not None and member.connection_id == connection.connection_id:
            member.connection_id = None


def _new(
    key: _Key, at: int, asked: dict[str, Any], connection: ConnectionState, message: Message | None
) -> Iterator[Problem]:
    """A client has joined with an empty id, and was given one, or did not wait for it (`message` is None)."""
    known, here = connection.run.state(_Members).known, connection.connection_id
    until = at + asked.get("session_timeout_ms", 0) * _MS
    connection.state(_Here).keys[key] = None
    member = known.get(key)
    if member is None or (member.connection_id is None and at > member.until):
        known[key] = _Member(here, until)
    elif member.connection_id in (None, here):
        member.ids = member.ids + 1 if at <= member.until else 1
        member.connection_id, member.until = here, until
        if member.ids >= NEW_IDS:
            yield Problem(
                f"client {key[1]!r} has joined group {key[2]!r} with an empty member_id {member.ids} times in a row; "
                "its previous ids stay members of the group until their sessions expire",
                **(locate(message, "member_id") if message else {}),
                hint="rejoin with the member_id of the last JoinGroup response, and wait for that response as long "
                "as the rebalance timeout",
                cause=key[2],
            )
