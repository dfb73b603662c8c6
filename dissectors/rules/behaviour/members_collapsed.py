"""S017: two members with the same member id."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.behaviour.member_id_abandoned import MEMBER_ID_REQUIRED
from dissectors.trackers.state import ConnectionState

MAX_MEMBERS = 10_000

_MemberKey = tuple[str, str]


class _AssignedIds:
    """(group, member id) -> (connection id, client address) of the new member that got the id."""

    def __init__(self) -> None:
        self.members: BoundedDict[_MemberKey, tuple[str, str]] = BoundedDict(MAX_MEMBERS)


class _ConnectionMembers:
    """The members that joined on a connection."""

    def __init__(self) -> None:
        self.members: BoundedDict[_MemberKey, None] = BoundedDict(1000)


@rule(
    "S017",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived, ConnectionEnded),
    apis=("JoinGroup", "LeaveGroup"),
    since="0.1",
    blame="broker",
)
def members_collapsed(
    event: RequestReceived | ResponseReceived | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that two clients that join a group without a member id get different ids.

    ## Why it matters
    The coordinator treats members with the same id as one: they get the same partitions and read everything twice, or
    evict each other at every heartbeat.

    ## Usual cause
    A coordinator that derives the member id from the client id, the host or the protocol metadata, which all instances
    of an application share. Kafka appends a random UUID.

    ## Example
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "app-g"}
    2> JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    2< {"generation_id": 2, "member_id": "app-g"}
    ```

    ## Look-alikes
    A client reconnects and sends its member id:
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "app-1"}
    2> JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "app-1"}
    2< {"generation_id": 2, "member_id": "app-1"}
    ```
    The first member has left:
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "app-g"}
    close by=client how=fin
    2> JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    2< {"generation_id": 1, "member_id": "app-g"}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/9143
    """
    assigned = connection.run.state(_AssignedIds).members
    if isinstance(event, ConnectionEnded):
        for key in connection.state(_ConnectionMembers).members:
            if assigned.get(key, ("", ""))[0] == connection.connection_id:
                del assigned[key]
        return
    if isinstance(event, RequestReceived):
        body = event.message.body
        if event.message.api == "LeaveGroup":
            for member in (body, *(body.get("members") or ())):  # version 3 and later lists members
                assigned.pop((body.get("group_id", ""), member.get("member_id", "")), None)
        return
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or message.api != "JoinGroup" or message.diagnosis is not None:
        return
    if (
        request_body.get("member_id")
        or request_body.get("group_instance_id") is not None
        or not message.body["member_id"]
    ):
        return
    if message.body["error_code"] not in (0, MEMBER_ID_REQUIRED):
        return
    key = (request_body.get("group_id", ""), message.body["member_id"])
    holder = assigned.get(key)
    assigned[key] = (connection.connection_id, connection.client)
    connection.state(_ConnectionMembers).members[key] = None
    if holder is not None and holder[0] != connection.connection_id:
        yield Problem(
            f"{connection.client} joined group {key[0]!r} as a new member and got member id {key[1]!r}, which "
            f"{holder[1]} already has",
            **locate(message, "member_id"),
            hint="assign a new id to every JoinGroup with an empty member_id, such as the client id plus a random UUID",
            cause=key[0],
        )
