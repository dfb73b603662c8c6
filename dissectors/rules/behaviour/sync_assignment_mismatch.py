"""S018: a member gets a different assignment from the one that the leader sent for it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

MAX_MEMBERS = 20_000


class _Assignments:
    """(group, generation, member id) -> size of the assignment, and hashes of all versions that leaders sent."""

    def __init__(self) -> None:
        self.sent: BoundedDict[tuple[str, int, str], tuple[int, frozenset[int]]] = BoundedDict(MAX_MEMBERS)


@rule(
    "S018",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("SyncGroup",),
    since="0.1",
    blame="broker",
)
def sync_assignment_mismatch(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that the coordinator gives each member the bytes that the leader assigned to it.

    ## Why it matters
    A member with an empty assignment reads nothing; one with another member's assignment reads partitions that the
    other member also reads. Nobody sees an error, because the coordinator reports success.

    ## Usual cause
    A coordinator that answers members before the leader's SyncGroup arrives, answers from the previous generation, or
    decodes and re-encodes the assignment. It must keep the bytes, and delay responses until they arrive.

    ## Example
    ```story
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-1",
                    "assignments": [{"member_id": "m-1", "assignment": "0001"},
                                    {"member_id": "m-2", "assignment": "0002"}]}
    < {"assignment": "0001"}
    2> SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-2"}
    2< {"assignment": ""}
    ```

    ## Looks alike
    The member is one generation behind and gets ILLEGAL_GENERATION:
    ```story
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-1",
                    "assignments": [{"member_id": "m-1", "assignment": "0001"},
                                    {"member_id": "m-2", "assignment": "0002"}]}
    < {"assignment": "0001"}
    2> SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-2"}
    2< {"error_code": 22}
    2> SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-2"}
    2< {"assignment": "0002"}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/9143
    https://kafka.apache.org/protocol#The_Messages_SyncGroup
    """
    message = event.message
    if message is None or message.diagnosis is not None:
        return
    sent = connection.run.state(_Assignments).sent
    if isinstance(event, RequestReceived):
        body = message.body
        for entry in body["assignments"] or ():
            key = (body["group_id"], body["generation_id"], entry["member_id"])
            earlier_hashes = sent.get(key, (0, frozenset()))[1]
            sent[key] = (len(entry["assignment"]), earlier_hashes | {hash(entry["assignment"])})
        return
    if not sent or (request_body := event.request_body) is None or message.body["error_code"] != 0:
        return
    key = (request_body.get("group_id", ""), request_body.get("generation_id", -1), request_body.get("member_id", ""))
    assignment = message.body["assignment"]
    if (assigned := sent.get(key)) is None or hash(assignment) in assigned[1]:
        return
    received = f"{len(assignment)} bytes" if assignment else "nothing"
    yield Problem(
        f"member {key[2]!r} of group {key[0]!r} got {received} as its assignment in generation {key[1]}, but the "
        f"leader had assigned it {'other bytes' if len(assignment) == assigned[0] else f'{assigned[0]} bytes'}",
        **locate(message, "assignment"),
        hint="delay SyncGroup responses until the leader's arrives, then send each member the leader's bytes unchanged",
        expected=f"{assigned[0]} bytes of the leader's SyncGroup",
        got=received,
        cause=key[0],
    )
