"""S086: a static member that leaves its group for good at each restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

#: Kafka's default session timeout (ns): the partitions of a static member wait this long for it.
_SESSION_TIMEOUT = 45 * SECOND
_MAX_MEMBERS = 10_000
_LEAVE_EPOCH, _JOIN_EPOCH = -1, 0


class _Deviations:
    """When each static member left for good (ns), and how, by group and instance id."""

    def __init__(self) -> None:
        self.members: BoundedDict[tuple[str, str], tuple[int, str]] = BoundedDict(_MAX_MEMBERS)


@rule(
    "S086",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "LeaveGroup", "JoinGroup"),
    since="0.1",
    blame="client",
)
def static_member_leaves(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a static member (group.instance.id) does not leave its group for good when it restarts.

    ## Why it matters
    Static membership exists so that a restart moves no partitions: they wait for the member until its session expires.
    If it leaves for good, they move to other members at once, and back when it has restarted: two rebalances.

    ## Usual cause
    A client that leaves as a dynamic member does: with member_epoch -1 instead of -2 in the new protocols, or with
    LeaveGroup in the classic protocol, in which static members do not leave at all.

    Reported if the member is back within 45 s, the default session timeout.

    ## Example
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "instance_id": "worker-1", "member_epoch": -1}
    < {"member_epoch": -1}
    +3s
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "b", "instance_id": "worker-1", "member_epoch": 0}
    ```
    ```story
    > LeaveGroup v3 {"group_id": "g", "members": [{"member_id": "a", "group_instance_id": "worker-1"}]}
    < {}
    +3s
    > JoinGroup v5 {"group_id": "g", "member_id": "", "group_instance_id": "worker-1"}
    ```

    ## Look-alikes
    A member that leaves temporarily, a dynamic member, and an administrator who removes a static member:
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "instance_id": "worker-1", "member_epoch": -2}
    < {"member_epoch": -2}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "b", "instance_id": "worker-1", "member_epoch": 0}
    < {"member_epoch": 4}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "c", "member_epoch": -1}
    < {"member_epoch": -1}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "d", "member_epoch": 0}
    < {"member_epoch": 5}
    > LeaveGroup v3 {"group_id": "h", "members": [{"member_id": "", "group_instance_id": "worker-1"}]}
    < {}
    > JoinGroup v5 {"group_id": "h", "member_id": "", "group_instance_id": "worker-1"}
    ```

    ## Sources
    https://github.com/thomhurst/Dekaf/issues/1348
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-345%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances
    """
    message = event.message
    body, deviations = message.body, connection.run.state(_Deviations).members
    group = body.get("group_id") or ""
    if message.api == "LeaveGroup":
        for member in body.get("members") or ():
            if member.get("group_instance_id") and member.get("member_id"):
                deviations[group, member["group_instance_id"]] = (event.at, "LeaveGroup")
        return
    instance, epoch = _member_identity(body)
    if not instance:
        return
    if epoch == _LEAVE_EPOCH:
        deviations[group, instance] = (event.at, "member_epoch -1")
    elif epoch == _JOIN_EPOCH and (deviation := deviations.pop((group, instance), None)) is not None:
        left_at, leave_request = deviation
        if event.at - left_at < _SESSION_TIMEOUT:
            uses_epochs = leave_request != "LeaveGroup"
            yield Problem(
                f"static member {instance!r} of group {group!r} left for good ({leave_request}) and is back "
                f"{duration(event.at - left_at)} later: its partitions have moved to other members and back",
                **locate(message, "instance_id" if uses_epochs else "group_instance_id"),
                hint="fix the client: leave with member_epoch -2, so that the partitions wait for the member (KIP-848)"
                if uses_epochs
                else "fix the client: a static member sends no LeaveGroup; its partitions wait for session.timeout.ms",
                cause=group,
            )


def _member_identity(body: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return a member's instance id and epoch; a JoinGroup has the epoch of a join only if it has no member id."""
    if "member_epoch" in body:
        return body.get("instance_id"), body["member_epoch"]
    return body.get("group_instance_id"), None if body.get("member_id") else _JOIN_EPOCH
