"""H017 and H018: members of one group with different subscriptions, or different assignors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.embedded.consumer import subscription
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError

SUBSCRIPTIONS = Limit("generations", 3, "generations", "the subscriptions of members differ in so many in a row")
ASSIGNORS = Limit("generations", 3, "generations", "the assignors of members differ in so many in a row")

_MAX_GROUPS, _MAX_MEMBERS = 1_000, 10_000
#: The maximum number of members that are compared, and of names in a message.
_MAX_COMPARED, _MAX_NAMED = 200, 3


class _Generations(BoundedDict[str, tuple[int, int]]):
    """By group: the last generation in which its members differed, and the number of such generations in a row."""

    def __init__(self) -> None:
        super().__init__(_MAX_GROUPS)

    def count(self, group: str, generation: int) -> int:
        """Count a generation in which members differed, and return how many there have been in a row."""
        last, count = self.get(group, (generation, 0))
        if last != generation or count == 0:
            count += 1
        self[group] = generation, count
        return count


class _SubscriptionGenerations(_Generations):
    """The generations in which subscriptions differed."""


class _AssignorGenerations(_Generations):
    """The generations in which assignors differed."""


class _Assignors(BoundedDict[tuple[str, str], tuple[str, ...]]):
    """Each member's assignors in its order of preference, by group and member id."""

    def __init__(self) -> None:
        super().__init__(_MAX_MEMBERS)


@rule(
    "H017",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("JoinGroup",),
    limits=(SUBSCRIPTIONS,),
    since="0.1",
    blame="client",
)
def subscriptions_differ(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports consumer groups whose members subscribe to different topics for several generations.

    ## Why it matters
    Kafka allows this, but each rebalance caused by one topic's consumers also stops the consumers of all other topics,
    and only the members that subscribe to a topic can share its partitions.

    ## Usual cause
    Two applications with the same `group.id`, often copied with the configuration. During a deployment that changes the
    subscription, old and new members differ for a while.

    ## Example
    ```story
    rule H017:generations=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "protocol_type": "consumer"}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "m", "members": [
      {"member_id": "m", "metadata":
        {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["orders"]}}},
      {"member_id": "n", "metadata":
        {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["payments"]}}}]}
    ```

    ## Look-alikes
    ```story
    rule H017:generations=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "protocol_type": "consumer"}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "m", "members": [
      {"member_id": "m", "metadata":
        {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["orders", "payments"]}}},
      {"member_id": "n", "metadata":
        {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["payments", "orders"]}}}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_group.id
    """
    leader_group = _group_of_leader(event)
    if leader_group is None:
        return
    group, generation, members = leader_group
    members_by_topics: dict[tuple[str, ...], str] = {}
    for member in members[:_MAX_COMPARED]:
        topics = _subscribed_topics(member.get("metadata"))
        if topics is None:
            return
        members_by_topics.setdefault(topics, member.get("member_id") or "")
    generations = connection.run.state(_SubscriptionGenerations)
    if len(members_by_topics) < 2:
        generations.pop(group, None)
    elif generations.count(group, generation) >= connection.run.limit(SUBSCRIPTIONS):
        (first_topics, first_member), (second_topics, second_member), *_ = members_by_topics.items()
        yield Problem(
            f"members of group {group!r} subscribe to different topics, {len(members_by_topics)} sets among "
            f"{len(members)} members: {first_member!r} to {_name_list(first_topics)}, {second_member!r} to "
            f"{_name_list(second_topics)}",
            hint="give each application a group.id of its own",
            cause=group,
        )


@rule(
    "H018",
    severity=Severity.INFO,
    events=(RequestReceived, ResponseReceived),
    apis=("JoinGroup",),
    limits=(ASSIGNORS,),
    since="0.1",
    blame="client",
)
def assignors_differ(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports consumer groups whose members have different assignors for several generations.

    ## Why it matters
    The group uses an assignor that all members have: a member with an old list keeps the whole group on an old
    assignor. A member that shares none with the others cannot join (INCONSISTENT_GROUP_PROTOCOL).

    ## Usual cause
    `partition.assignment.strategy` was changed in some members, or members use different libraries, whose defaults
    differ. Different lists are normal during a deployment that changes the assignor.

    ## Example
    ```story
    rule H018:generations=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "protocol_type": "consumer",
      "protocols": [{"name": "cooperative-sticky", "metadata": ""}, {"name": "range", "metadata": ""}]}
    2> JoinGroup v5 {"group_id": "g", "member_id": "n", "protocol_type": "consumer",
      "protocols": [{"name": "range", "metadata": ""}]}
    2< {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "n"}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "m",
      "members": [{"member_id": "m"}, {"member_id": "n"}]}
    ```

    ## Look-alikes
    ```story
    rule H018:generations=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "protocol_type": "consumer",
      "protocols": [{"name": "range", "metadata": ""}]}
    2> JoinGroup v5 {"group_id": "g", "member_id": "n", "protocol_type": "consumer",
      "protocols": [{"name": "range", "metadata": ""}]}
    2< {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "n"}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "m",
      "members": [{"member_id": "m"}, {"member_id": "n"}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
    """
    message, run = event.message, connection.run
    assignors_by_member = run.state(_Assignors)
    if isinstance(event, RequestReceived):
        _store_assignors(event.message.body, event.message.body.get("member_id"), assignors_by_member)
        return
    request_body = event.request_body
    if message is None or request_body is None or message.body.get("error_code"):
        return
    member_id = message.body.get("member_id")  # a new member gets its id in the response
    _store_assignors(request_body, member_id, assignors_by_member)
    leader_group = _group_of_leader(event)
    if leader_group is None:
        return
    group, generation, members = leader_group
    member_ids = (member.get("member_id") or "" for member in members[:_MAX_COMPARED])
    members_by_assignors = {
        assignors: member_id for member_id in member_ids if (assignors := assignors_by_member.get((group, member_id)))
    }
    generations = run.state(_AssignorGenerations)
    if len(members_by_assignors) < 2:
        generations.pop(group, None)
    elif generations.count(group, generation) >= run.limit(ASSIGNORS):
        (first_names, first_member), (second_names, second_member), *_ = members_by_assignors.items()
        yield Problem(
            f"members of group {group!r} have different assignors: {first_member!r} {_name_list(first_names)}, "
            f"{second_member!r} {_name_list(second_names)}; the group uses {message.body.get('protocol_name')!r}",
            hint="set the same partition.assignment.strategy in all members, in the same order",
            cause=group,
        )


def _store_assignors(request_body: dict[str, Any], member_id: str | None, assignors_by_member: _Assignors) -> None:
    names = tuple(protocol.get("name") or "" for protocol in request_body.get("protocols") or ())
    assignors_by_member[request_body.get("group_id") or "", member_id or ""] = names


def _group_of_leader(event: ResponseReceived) -> tuple[str, int, list[dict[str, Any]]] | None:
    """Return the group, generation and members from a leader's JoinGroup response, if there are several members."""
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or message.body.get("error_code"):
        return None
    members = message.body.get("members") or []
    if (
        len(members) < 2
        or request_body.get("protocol_type") != "consumer"
        or message.body.get("protocol_name") == "stream"
    ):
        return None
    return request_body.get("group_id") or "", message.body.get("generation_id", -1), members


def _subscribed_topics(metadata: object) -> tuple[str, ...] | None:
    """Return the sorted topics of a subscription, or None if it cannot be read."""
    data = bytes(metadata) if isinstance(metadata, bytes | memoryview) else b""
    try:
        values = decode(subscription(data), data).values.get("data") or {}
    except DecodeError:
        return None
    topics = values.get("topics")
    return tuple(sorted(str(topic) for topic in topics)) if isinstance(topics, list) else None


def _name_list(names: tuple[str, ...]) -> str:
    more_text = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return (", ".join(repr(name) for name in names[:_MAX_NAMED]) or "none") + more_text
