"""S014: a member id that the coordinator assigned and no member uses."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, DeadlinePassed, RequestReceived, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState

MEMBER_ID_REQUIRED = Error.MEMBER_ID_REQUIRED

#: This many unused ids on one connection are reported before the session times out.
UNUSED_THRESHOLD = 2

_MS = 1_000_000
_HINT = "rejoin at once with the member_id of the MEMBER_ID_REQUIRED response, even after a disconnect"


class _IssuedIds:
    """Member ids that were assigned on a connection but not used yet, as (group, member id)."""

    def __init__(self) -> None:
        self.ids: BoundedDict[tuple[str, str], None] = BoundedDict(100)


@rule(
    "S014",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived, ConnectionEnded, DeadlinePassed),
    apis=("JoinGroup", "LeaveGroup"),
    complete_for=300,
    since="0.1",
    blame="client",
)
def member_id_abandoned(
    event: RequestReceived | ResponseReceived | ConnectionEnded | DeadlinePassed, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a client that got its member id with MEMBER_ID_REQUIRED joins with it before the session expires.

    ## Why it matters
    The coordinator counts the id as a pending member (KIP-394). No rebalance of the group completes until it has
    joined or its session has expired: 45 seconds by default.

    ## Usual cause
    The client ignores the id in a response with an error code, or starts over with an empty id after a disconnect.

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "app-1"}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "app-2"}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000, "member_id": "app-2"}
    +46s
    ```
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "app-1"}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "app-2"}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    ```

    ## Look-alikes
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "app-1"}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000, "member_id": "app-1"}
    +46s
    ```
    The client is stopped while it joins:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "app-1"}
    close by=client how=fin
    +46s
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/5569
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-394%3A+Require+member.id+for+initial+join+group+request
    """
    if isinstance(event, DeadlinePassed):
        group, member, seconds, request = event.about
        yield Problem(
            f"group {group!r} assigned member id {member!r} with MEMBER_ID_REQUIRED, but no member joined with it "
            f"within {seconds:g} s, so a rebalance may have waited for it that long",
            hint=_HINT,
            cause=group,
            request=request,
        )
        return
    issued = connection.state(_IssuedIds).ids
    if isinstance(event, ConnectionEnded):
        if event.by == "client":
            for key in issued:
                connection.meet_deadline("S014", key)
    elif isinstance(event, RequestReceived):
        body = event.message.body
        group = body.get("group_id", "")
        for entry in (body, *(body.get("members") or ())):  # LeaveGroup v3 and later lists members
            connection.meet_deadline("S014", (group, entry.get("member_id")))
            issued.pop((group, entry.get("member_id", "")), None)
        unused_ids = [key for key in issued if key[0] == group]
        if event.message.api == "JoinGroup" and not body.get("member_id") and len(unused_ids) >= UNUSED_THRESHOLD:
            for key in unused_ids:
                connection.meet_deadline("S014", key)
                del issued[key]
            yield Problem(
                f"group {group!r} gave client {event.message.client_id!r} member ids {unused_ids[0][1]!r} and "
                f"{unused_ids[1][1]!r} with MEMBER_ID_REQUIRED, but it joins with an empty one again",
                **locate(event.message, "member_id"),
                hint=_HINT,
                cause=group,
            )
    elif (message := event.message) and message.api == "JoinGroup" and message.diagnosis is None:
        request_body, member = event.request_body, message.body["member_id"]
        if message.body["error_code"] == MEMBER_ID_REQUIRED and member and request_body is not None:
            key = (request_body.get("group_id", ""), member)
            issued[key] = None
            timeout_ms = max(request_body.get("session_timeout_ms", 0), 0)
            assert event.request is not None
            about = *key, timeout_ms / 1000, ConcernedRequest.of(event.request)
            connection.set_deadline("S014", key, by=event.at + timeout_ms * _MS, about=about)
