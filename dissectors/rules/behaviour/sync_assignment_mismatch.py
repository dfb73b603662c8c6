"""S018: a member gets a different assignment from the one that the leader sent for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

MAX_MEMBERS = 20_000


#: Group, generation, member id.
_Membership: TypeAlias = tuple[str, int, str]


class _Assignments:
    """The assignments that leaders sent, and the ids of static members (KIP-345).

    Attributes:
        sent: The size of each member's assignment, and hashes of all versions of it.
        static_ids: The latest generation and member id by group and group.instance.id.
        replaced_ids: The id that a static member had before in the same generation.
    """

    def __init__(self) -> None:
        self.sent: BoundedDict[_Membership, tuple[int, frozenset[int]]] = BoundedDict(MAX_MEMBERS)
        self.static_ids: BoundedDict[tuple[str, str], tuple[int, str]] = BoundedDict(MAX_MEMBERS)
        self.replaced_ids: BoundedDict[_Membership, str] = BoundedDict(MAX_MEMBERS)

    def note_joined(self, request_body: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        """Record the id of a static member."""
        group, instance = request_body.get("group_id", ""), request_body.get("group_instance_id")
        if not instance or body.get("error_code"):
            return
        generation, member = body.get("generation_id", -1), body.get("member_id", "")
        previous_generation, previous_member = self.static_ids.get((group, instance), (-1, member))
        if generation == previous_generation and member != previous_member:
            self.replaced_ids[group, generation, member] = previous_member
        self.static_ids[group, instance] = generation, member


@rule(
    "S018",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("SyncGroup",),
    also=(Trigger((ResponseReceived,), ("JoinGroup",)),),
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
    decodes and re-encodes the assignment. It must keep the bytes, and delay responses until they arrive. Or a
    coordinator that gives a static member a new id while the group completes a rebalance: the leader's assignment then
    has the old id.

    ## Example
    ```story
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-1",
                    "assignments": [{"member_id": "m-1", "assignment": "0001"},
                                    {"member_id": "m-2", "assignment": "0002"}]}
    < {"assignment": "0001"}
    2> SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-2"}
    2< {"assignment": ""}
    ```
    ```story
    2> JoinGroup v5 {"group_id": "g", "member_id": "", "group_instance_id": "b"}
    2< {"generation_id": 2, "member_id": "b-1", "leader": "m-1"}
    3> JoinGroup v5 {"group_id": "g", "member_id": "", "group_instance_id": "b"}
    3< {"generation_id": 2, "member_id": "b-2", "leader": "m-1"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "m-1",
                    "assignments": [{"member_id": "m-1", "assignment": "0001"},
                                    {"member_id": "b-1", "assignment": "0002"}]}
    < {"assignment": "0001"}
    3> SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "b-2"}
    3< {"assignment": ""}
    ```

    ## Look-alikes
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
    https://issues.apache.org/jira/browse/KAFKA-9801
    """
    message = event.message
    if message is None or message.diagnosis is not None:
        return
    assignments = connection.run.state(_Assignments)
    sent = assignments.sent
    if message.api == "JoinGroup":
        if isinstance(event, ResponseReceived) and event.request_body is not None:
            assignments.note_joined(event.request_body, message.body)
        return
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
    previous_id = assignments.replaced_ids.get(key)
    if previous_id is not None and not assignment and sent.get((*key[:2], previous_id), (0,))[0]:
        yield Problem(
            f"static member {key[2]!r} of group {key[0]!r} got nothing in generation {key[1]}: the leader assigned"
            f" partitions to {previous_id!r}, the id that the coordinator had given it before in this generation",
            **locate(message, "assignment"),
            hint="fix the broker: if a static member joins again while the group completes a rebalance, it must start"
            " another one, so that the leader learns the new id",
            cause=key[0],
        )
        return
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
