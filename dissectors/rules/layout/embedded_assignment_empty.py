"""L029: an assignment that is empty or truncated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.embedded import consumer
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.group_payloads import Deviations
from dissectors.rules.helpers.layout_findings import add_payload_diagnosis
from dissectors.rules.helpers.payload_problems import payload_error
from dissectors.trackers.state import ConnectionState

_MAX_MEMBERS = 10_000

_Member = tuple[str, int, str]  # group, generation, member id


class _Assignments:
    """Each group's protocol type, the sizes of assignments from leaders, and the members that received an empty one."""

    def __init__(self) -> None:
        self.protocol_types: BoundedDict[str, str] = BoundedDict(_MAX_MEMBERS)
        self.sent_sizes: BoundedDict[_Member, int] = BoundedDict(_MAX_MEMBERS)
        self.empty_members: BoundedDict[_Member, None] = BoundedDict(_MAX_MEMBERS)


@rule(
    "L029",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("JoinGroup", "SyncGroup"),
    since="0.1",
    blame="broker",
)
def embedded_assignment_empty(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a consumer's SyncGroup assignment is complete and is the one that the group leader sent.

    ## Why it matters
    A zero-byte assignment differs from one without partitions: Java fails ("insufficient bytes available to read
    assignment"), and kafkajs and franz-go fail and rejoin. The whole group rebalances each time.

    ## Usual cause
    A server that answers SyncGroup before the leader has sent the assignments, or loses them. A leader that omits
    members without partitions (Sarama before 1.35): Kafka then sends them an empty assignment, so the severity is info
    where the leader may have done so.

    ## Example
    ```story
    > JoinGroup v2 {"group_id": "g", "protocol_type": "consumer"}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > SyncGroup v1 {"group_id": "g", "generation_id": 1, "member_id": "m-1",
      "assignments": [{"member_id": "m-1", "assignment": "00 00 00 00 00 00 00 00 00 00"}]}
    < {"assignment": ""}
    ```
    A member gets a response before the leader has sent assignments:
    ```story
    2> SyncGroup v5 {"group_id": "g", "generation_id": 1, "member_id": "m-2", "protocol_type": "consumer"}
    2< {"protocol_type": "consumer", "assignment": ""}
    > SyncGroup v5 {"group_id": "g", "generation_id": 1, "member_id": "m-1", "protocol_type": "consumer",
      "assignments": [{"member_id": "m-2", "assignment": "00 00 00 00 00 00 00 00 00 00"}]}
    ```
    The leader writes an incomplete assignment:
    ```story
    > SyncGroup v5 {"group_id": "g", "generation_id": 1, "member_id": "m-1", "protocol_type": "consumer",
      "assignments": [{"member_id": "m-1", "assignment": "00 00 00 00 00 01"}]}
    ```

    ## Look-alikes
    ```story
    > JoinGroup v2 {"group_id": "g", "protocol_type": "consumer"}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > SyncGroup v1 {"group_id": "g", "generation_id": 1, "member_id": "m-1",
      "assignments": [{"member_id": "m-1", "assignment": "00 00 00 00 00 00 00 00 00 00"}]}
    < {"assignment": "00 00 00 00 00 00 00 00 00 00"}    # an assignment without partitions
    > SyncGroup v1 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {"error_code": 27, "assignment": ""}               # REBALANCE_IN_PROGRESS
    ```

    ## Sources
    https://github.com/tulios/kafkajs/issues/550
    https://github.com/nisshi-io/nisshi/issues/679
    https://github.com/IBM/sarama/issues/2290
    """
    assignments = connection.run.state(_Assignments)
    if isinstance(event, ResponseReceived):
        if event.request_body is not None and event.message is not None and event.message.api == "SyncGroup":
            yield from _check_member_response(event, event.request_body, assignments)
    elif event.message.api == "JoinGroup":
        body = event.message.body
        assignments.protocol_types[body.get("group_id", "")] = body.get("protocol_type", "")
    else:
        yield from _check_leader_request(event, assignments)


def _check_leader_request(event: RequestReceived, assignments: _Assignments) -> Iterator[Problem]:
    """Check the assignments in a SyncGroup request. Only the leader of a group sends any."""
    message, body = event.message, event.message.body
    group, generation = body.get("group_id", ""), body.get("generation_id", -1)
    if not _is_consumer_group(body, assignments):
        return
    deviations = Deviations(message, "consumer")
    for index, assignment in enumerate(body.get("assignments") or ()):
        name, data = assignment.get("member_id", ""), assignment.get("assignment") or b""
        assignments.sent_sizes[member := (group, generation, name)] = len(data)
        if data and (error := payload_error(data, consumer.assignment)):
            problem = Problem(
                f"the assignment that the leader of group {group!r} sends for member {name!r} {error}",
                **locate(message, "assignments", index, "assignment"),
                hint="write all fields of the assignment's version",
                blame="client",
                cause=group,
            )
            yield add_payload_diagnosis(problem, deviations.diagnose_at("assignments", index, "assignment"))
        elif data and member in assignments.empty_members:
            del assignments.empty_members[member]
            yield Problem(
                f"member {name!r} of group {group!r} got an empty assignment before the "
                f"leader sent its {len(data)} bytes",
                **locate(message, "assignments", index, "assignment"),
                hint="delay all SyncGroup responses until the leader has sent the assignments",
                cause=group,
            )


def _check_member_response(
    event: ResponseReceived, request_body: dict[str, Any], assignments: _Assignments
) -> Iterator[Problem]:
    message = event.message
    assert message is not None
    group, member = request_body.get("group_id", ""), request_body.get("member_id", "")
    if message.body.get("error_code") != 0 or not _is_consumer_group(request_body, assignments):
        return
    data = message.body.get("assignment") or b""
    if (error := payload_error(data, consumer.assignment)) is None:
        return
    key = (group, request_body.get("generation_id", -1), member)
    sent = assignments.sent_sizes.get(key)
    if data and sent == len(data):
        return  # the leader wrote it, and its request was reported
    if not data and not sent:
        assignments.empty_members[key] = None
    problem = Problem(
        f"the assignment for member {member!r} of group {group!r} {error}"
        + (f", although the leader sent {sent} bytes" if sent else ""),
        **locate(message, "assignment"),
        hint="pass on the assignment that the leader sent"
        if sent
        else "check whether the leader omits members without partitions: Java, kafkajs and franz-go fail on this",
        severity=None if sent or data else Severity.INFO,
        blame=None if sent or data else "client",
        cause=group,
    )
    yield add_payload_diagnosis(problem, Deviations(message, "consumer").diagnose_at("assignment"))


def _is_consumer_group(body: dict[str, Any], assignments: _Assignments) -> bool:
    """Return whether the group is a consumer group. JoinGroup always has its protocol type, SyncGroup since v5."""
    return (body.get("protocol_type") or assignments.protocol_types.get(body.get("group_id", ""))) == "consumer"
