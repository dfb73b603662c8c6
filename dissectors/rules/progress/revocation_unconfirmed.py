"""S077: a member that does not confirm that it has given up partitions (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.losses import LossCheck, Losses
from dissectors.trackers.partitions import TopicPartition, label
from dissectors.trackers.state import ConnectionState

#: Reported after this many heartbeats, and half of the member's rebalance timeout.
THRESHOLD = 3

_MS = 1_000_000
#: max.poll.interval.ms of Kafka's clients, for members whose first heartbeat was not observed.
_DEFAULT_TIMEOUT_MS = 300_000

_MAX_MEMBERS = 10_000
_MAX_PARTITIONS = 10_000
_MAX_NAMED = 3

_FENCED = Error.FENCED_MEMBER_EPOCH


@dataclass(slots=True)
class _Member:
    """The partitions that a member says it owns or is assigned, and those to give up since `since` (ns)."""

    timeout: int = _DEFAULT_TIMEOUT_MS * _MS
    owned: frozenset[TopicPartition] = frozenset()
    revoked: frozenset[TopicPartition] = frozenset()
    since: int = 0
    heartbeats: int = 0


class _Members:
    """The known members by group and member id."""

    def __init__(self) -> None:
        self.known: BoundedDict[tuple[str, str], _Member] = BoundedDict(_MAX_MEMBERS)
        self.losses = LossCheck()


@rule(
    "S077",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("ConsumerGroupHeartbeat",),
    needs=(Losses,),
    since="0.1",
    blame="client",
)
def revocation_unconfirmed(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a member of the consumer protocol confirms that it has given up partitions.

    ## Why it matters
    The coordinator gives a partition to its next owner only after the previous owner has reported its remaining
    partitions in the topic_partitions of a heartbeat. Until then nobody reads the partition; after the rebalance
    timeout the previous owner is fenced, and loses all its partitions.

    ## Usual cause
    A client that gives up partitions and does not send topic_partitions afterwards, or leaves the field null because it
    compares it with what it sent last. Or an application that is busy between two polls: partitions are given up in
    poll().

    It is reported if the member is fenced, or after 3 heartbeats and half of its rebalance timeout.

    ## Example
    ```story
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 20000,
      "subscribed_topic_names": ["t"], "topic_partitions": []}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": {"topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0, 1]}]}}
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0, 1]}]}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": {"topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0]}]}}
    +5s
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions": null}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": null}
    +5s
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions": null}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": null}
    +5s
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions": null}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": null}
    ```

    ## Look-alikes
    The member confirms after two heartbeats:
    ```story
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 20000,
      "subscribed_topic_names": ["t"], "topic_partitions": []}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": {"topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0, 1]}]}}
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0, 1]}]}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": {"topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0]}]}}
    +5s
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions": null}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "assignment": null}
    +5s
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1, "topic_partitions":
       [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [0]}]}
    < {"member_id": "m", "member_epoch": 2, "heartbeat_interval_ms": 5000, "assignment": null}
    +5s
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 2, "topic_partitions": null}
    < {"member_id": "m", "member_epoch": 2, "heartbeat_interval_ms": 5000, "assignment": null}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    state = connection.run.state(_Members)
    members = state.known
    if state.losses.is_outdated(connection):
        members.clear()  # a confirmation may have been among the lost bytes
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or message.diagnosis is not None:
        return
    group, name = request_body.get("group_id", ""), message.body.get("member_id") or request_body.get("member_id", "")
    if request_body.get("member_epoch", 0) < 0:  # the member leaves
        members.pop((group, name), None)
        return
    member = members.get((group, name))
    if member is None or request_body.get("member_epoch") == 0:
        timeout = request_body.get("rebalance_timeout_ms", -1)
        member = members[group, name] = _Member(timeout * _MS if timeout > 0 else _DEFAULT_TIMEOUT_MS * _MS)
    _apply_heartbeat(member, request_body)
    code = message.body.get("error_code", 0)
    if not code:
        _apply_assignment(member, message.body, event.at)
    elapsed = event.at - member.since
    is_late = member.heartbeats >= THRESHOLD and elapsed > member.timeout // 2
    if not member.revoked or not (is_late or code == _FENCED):
        return
    names = [label(topic_partition, connection) for topic_partition in sorted(member.revoked)[:_MAX_NAMED]]
    more_text = f" and {len(member.revoked) - len(names)} more" if len(member.revoked) > len(names) else ""
    yield Problem(
        f"member {name!r} of group {group!r} was told to give up {', '.join(names)}{more_text}, but did not confirm it "
        f"in {member.heartbeats} heartbeats within {duration(elapsed)}"
        + (" and was fenced" if code == _FENCED else ""),
        **locate(message, "error_code" if code else "member_epoch"),
        hint="the client must send topic_partitions without these partitions in its next heartbeat; check whether the "
        "application calls poll(), where partitions are given up",
        severity=Severity.ERROR if code == _FENCED else None,
        cause=group,
    )
    if code:
        member.revoked = frozenset()


def _apply_heartbeat(member: _Member, request_body: Mapping[str, Any]) -> None:
    """Update a member with the partitions that its heartbeat reports."""
    if member.revoked:
        member.heartbeats += 1
    if (rows := request_body.get("topic_partitions")) is not None:
        member.owned = _partitions(rows)
        if not member.owned & member.revoked:
            member.revoked = frozenset()


def _apply_assignment(member: _Member, body: Mapping[str, Any], at: int) -> None:
    """Update a member with the assignment in a response, if there is one."""
    assignment = body.get("assignment")
    if assignment is None:
        return
    target = _partitions(assignment.get("topic_partitions") or ())
    revoked = member.owned - target
    if revoked != member.revoked:
        member.revoked, member.since, member.heartbeats = revoked, at, 0
    member.owned |= target


def _partitions(topics: Any) -> frozenset[TopicPartition]:
    """Return the partitions in a list of topics, or none if there are too many to compare."""
    partitions = [(topic["topic_id"], partition) for topic in topics for partition in topic["partitions"] or ()]
    return frozenset(partitions) if len(partitions) <= _MAX_PARTITIONS else frozenset()
