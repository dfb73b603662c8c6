"""S096: two members of a group that claim to own the same partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.embedded import expand
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState

#: The maximum number of claimed partitions, in a response or a run, and of disputes that are kept.
_MAX_PARTITIONS = 100_000
_MAX_DISPUTES = 1000

#: Group, topic id and partition.
_GroupPartition = tuple[str, str, int]


class _Claim(NamedTuple):
    """The member that claims a partition, and when the coordinator accepted the claim (ns)."""

    member: str
    at: int


class _Claims:
    """Claims of members that use epochs.

    `assigned` are the partitions of a member's latest assignment. `disputes`: by group and member, a partition of the
    member that another member has also claimed, and that claim.
    """

    def __init__(self) -> None:
        self.owners: BoundedDict[_GroupPartition, _Claim] = BoundedDict(_MAX_PARTITIONS)
        self.by_member: BoundedDict[tuple[str, str], frozenset[_GroupPartition]] = BoundedDict(10_000)
        self.assigned: BoundedDict[tuple[str, str], frozenset[_GroupPartition]] = BoundedDict(10_000)
        self.disputes: BoundedDict[tuple[str, str], tuple[_GroupPartition, _Claim]] = BoundedDict(_MAX_DISPUTES)


@rule(
    "S096",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("JoinGroup", "ConsumerGroupHeartbeat"),
    since="0.1",
    blame="client",
)
def partition_claimed_twice(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no two members of a group claim to own the same partition at the same time.

    ## Why it matters
    Both read and commit the partition: records are processed twice, and the committed offset goes back and forth. A
    sticky assignor that gets both claims may assign the partition twice again.

    ## Usual cause
    A member that continues with partitions of an assignment that it has lost, e.g. after its session expired, or one
    that repeats the owned partitions of its first subscription. Claims of different generations do not count. Or a
    coordinator that assigns a partition before its owner has reported that it no longer has it.

    ## Example
    The leader gets the claims of all members (KIP-429, with generations since KIP-792):
    ```story
    > JoinGroup v7 {"group_id": "g", "member_id": "a", "protocol_type": "consumer"}
    < {"generation_id": 6, "leader": "a", "member_id": "a", "protocol_type": "consumer", "members": [
      {"member_id": "a", "metadata": {"type": "ConsumerProtocolSubscription", "version": 2, "data":
       {"topics": ["t"], "owned_partitions": [{"topic": "t", "partitions": [0, 1]}], "generation_id": 5}}},
      {"member_id": "b", "metadata": {"type": "ConsumerProtocolSubscription", "version": 2, "data":
       {"topics": ["t"], "owned_partitions": [{"topic": "t", "partitions": [1, 2]}], "generation_id": 5}}}]}
    ```
    With epochs (KIP-848), both claims are accepted, and the first member continues:
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 4,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [0]}]}
    < {"member_id": "a", "member_epoch": 4}
    2> ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "b", "member_epoch": 4,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [0]}]}
    2< {"member_id": "b", "member_epoch": 4}
    +5s
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 4}
    < {"member_id": "a", "member_epoch": 4}
    ```

    The coordinator does not wait until the first member has given the partition up:
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 4,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [0, 1]}]}
    < {"member_id": "a", "member_epoch": 4}
    2> ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "b", "member_epoch": 0, "topic_partitions": []}
    2< {"member_id": "b", "member_epoch": 5, "assignment":
      {"topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [1]}]}}
    2> ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "b", "member_epoch": 5,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [1]}]}
    2< {"member_id": "b", "member_epoch": 5}
    +5s
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 4}
    < {"member_id": "a", "member_epoch": 4}
    ```

    ## Look-alikes
    Claims of different generations, of which the older one is void:
    ```story
    > JoinGroup v7 {"group_id": "g", "member_id": "a", "protocol_type": "consumer"}
    < {"generation_id": 6, "leader": "a", "member_id": "a", "protocol_type": "consumer", "members": [
      {"member_id": "a", "metadata": {"type": "ConsumerProtocolSubscription", "version": 2, "data":
       {"topics": ["t"], "owned_partitions": [{"topic": "t", "partitions": [0, 1]}], "generation_id": 5}}},
      {"member_id": "b", "metadata": {"type": "ConsumerProtocolSubscription", "version": 2, "data":
       {"topics": ["t"], "owned_partitions": [{"topic": "t", "partitions": [1, 2]}], "generation_id": 4}}}]}
    ```
    A member that gives the partition up first, and one whose session has expired:
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 4,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [0, 1]}]}
    < {"member_id": "a", "member_epoch": 4}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 4,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [1]}]}
    < {"member_id": "a", "member_epoch": 5}
    2> ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "b", "member_epoch": 5,
      "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [0, 1]}]}
    2< {"member_id": "b", "member_epoch": 5}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 5}
    < {"error_code": 110}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 0, "topic_partitions": []}
    < {"member_id": "a", "member_epoch": 6}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "a", "member_epoch": 6}
    < {"member_id": "a", "member_epoch": 6}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-792%3A+Add+%22generation%22+field+into+consumer+protocol
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or event.request is None or message.diagnosis is not None:
        return
    if message.api == "JoinGroup":
        if message.body.get("members"):
            message.spend(100 + len(message.frame))
            yield from _check_claims_in_join(event, request_body.get("group_id", ""))
        return
    claims, member = (
        connection.run.state(_Claims),
        (request_body.get("group_id", ""), request_body.get("member_id", "")),
    )
    if message.body.get("error_code") or message.body.get("member_epoch", 0) <= 0:
        _withdraw_claims(member, claims)
        return
    if message.well_formed and (assignment := message.body.get("assignment")) is not None:
        claims.assigned[member] = _group_partitions(member[0], assignment.get("topic_partitions") or ())
    owned = request_body.get("topic_partitions")
    if owned is not None and message.well_formed:
        _store_claims(member, owned, event.at, claims)
    elif claims.disputes and (disputed := claims.disputes.get(member)) is not None:
        claimed_partition, claim = disputed
        if event.request.at > claim.at:
            del claims.disputes[member]
            assigned = claims.assigned.get((member[0], claim.member))
            yield _dispute_problem(claimed_partition, member[1], claim.member, assigned, connection)


def _check_claims_in_join(event: ResponseReceived, group: str) -> Iterator[Problem]:
    """Check the claims in the leader's response: no partition may have two owners in the same generation."""
    message = event.message
    assert message is not None
    owners: dict[tuple[int, str, int], str] = {}
    for index, row in enumerate(expand(message).get("members") or ()):
        metadata = row.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("type") != "ConsumerProtocolSubscription":
            continue
        data = metadata.get("data") or {}
        generation = data.get("generation_id", -1)
        if generation < 0:
            continue  # the version has no generation, or the member has no assignment
        for topic in data.get("owned_partitions") or ():
            for partition in topic.get("partitions") or ():
                claimed_partition, member = (generation, topic.get("topic", ""), partition), row.get("member_id", "")
                owner = owners.setdefault(claimed_partition, member)
                if len(owners) > _MAX_PARTITIONS:
                    return
                if owner != member:
                    yield Problem(
                        f"members {owner!r} and {member!r} of group {group!r} both claim to own "
                        f"{claimed_partition[1]}[{partition}] in generation {generation}",
                        **locate(message, "members", index, "metadata"),
                        hint=_HINT,
                        cause=group,
                    )
                    return


_HINT = (
    "fix or upgrade the client that was not given the partition (compare with the assignments): a member owns what its "
    "latest assignment has, and nothing after it was fenced or lost its session"
)


def _store_claims(member: tuple[str, str], owned: list[dict[str, Any]], at: int, claims: _Claims) -> None:
    group, name = member
    claimed_partitions = _group_partitions(group, owned)
    for claimed_partition in claims.by_member.get(member, frozenset()) - claimed_partitions:
        if (owner := claims.owners.get(claimed_partition)) is not None and owner.member == name:
            del claims.owners[claimed_partition]
    claims.disputes.pop(member, None)
    claims.by_member[member] = claimed_partitions
    for claimed_partition in claimed_partitions:
        owner = claims.owners.get(claimed_partition)
        if owner is not None and owner.member != name:
            claims.disputes[group, owner.member] = claimed_partition, _Claim(name, at)
        else:
            claims.owners[claimed_partition] = _Claim(name, at)


def _group_partitions(group: str, topics: Sequence[dict[str, Any]]) -> frozenset[_GroupPartition]:
    return frozenset(
        (group, str(topic.get("topic_id", "")), partition)
        for topic in topics[:_MAX_PARTITIONS]
        for partition in topic.get("partitions") or ()
    )


def _withdraw_claims(member: tuple[str, str], claims: _Claims) -> None:
    """Forget the claims of a member that has left or was refused."""
    if claims.by_member:
        for claimed_partition in claims.by_member.pop(member, frozenset()):
            if (owner := claims.owners.get(claimed_partition)) is not None and owner.member == member[1]:
                del claims.owners[claimed_partition]
        claims.disputes.pop(member, None)


def _dispute_problem(
    claimed_partition: _GroupPartition,
    first_member: str,
    second_member: str,
    assigned: frozenset[_GroupPartition] | None,
    connection: ConnectionState,
) -> Problem:
    """Return the problem that both members own a partition; `assigned` is what the second one was assigned."""
    group = claimed_partition[0]
    partition_name = label(claimed_partition[1:], connection)
    if assigned is not None and claimed_partition in assigned:
        return Problem(
            f"the coordinator of group {group!r} assigned {partition_name} to member {second_member!r} before member "
            f"{first_member!r} had given it up: both own it now",
            hint="fix the coordinator: it must withhold a partition until its owner has reported topic_partitions "
            "without it, or was fenced (KIP-848)",
            cause=group,
            blame="broker",
        )
    return Problem(
        f"members {first_member!r} and {second_member!r} of group {group!r} both claim to own {partition_name}, "
        "and the coordinator accepts both",
        hint=_HINT,
        cause=group,
    )
