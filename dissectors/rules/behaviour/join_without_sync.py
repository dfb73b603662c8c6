"""S013: a member that joined its group but never sent SyncGroup."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed, RequestReceived, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_MS = 1_000_000


@rule(
    "S013",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived, DeadlinePassed),
    apis=("JoinGroup", "SyncGroup", "LeaveGroup"),
    complete_for=300,
    since="0.1",
    blame="client",
)
def join_without_sync(
    event: RequestReceived | ResponseReceived | DeadlinePassed, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a member that joined its group requests its assignment within the rebalance timeout.

    ## Why it matters
    The coordinator waits for the SyncGroup of every member of the generation. Until all have arrived, or the session
    times out, the whole group reads nothing.

    ## Usual cause
    The client could not read the JoinGroup response and rejoins forever, or it was stopped between the two requests.

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "rebalance_timeout_ms": 5000, "session_timeout_ms": 10000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    +6s
    ```

    ## Look-alikes
    ```story
    > JoinGroup v5 {"group_id": "g", "rebalance_timeout_ms": 5000, "session_timeout_ms": 10000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    +2s
    > SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    +6s
    ```

    ## Sources
    https://github.com/segmentio/kafka-go/issues/781
    https://github.com/seaweedfs/seaweedfs/pull/9143
    """
    if isinstance(event, DeadlinePassed):
        group, member, seconds, request = event.about
        yield Problem(
            f"member {member!r} joined group {group!r} but sent no SyncGroup within {seconds:g} s",
            hint="check whether the client can read the JoinGroup response; the whole group waits until it syncs",
            cause=group,
            request=request,
        )
        return
    if isinstance(event, RequestReceived):
        body = event.message.body
        if event.message.api != "JoinGroup":
            for entry in (body, *body.get("members", ())):  # LeaveGroup v3 and later lists members
                connection.meet_deadline("S013", (body["group_id"], entry.get("member_id")))
    elif (message := event.message) and message.api == "JoinGroup" and message.body["error_code"] == 0:
        request_body = event.request_body
        if request_body is None:
            return
        group, member = request_body["group_id"], message.body["member_id"]
        timeout_ms = request_body.get("rebalance_timeout_ms", request_body["session_timeout_ms"])
        assert event.request is not None
        about = group, member, timeout_ms / 1000, ConcernedRequest.of(event.request)
        connection.set_deadline("S013", (group, member), by=event.at + timeout_ms * _MS, about=about)
