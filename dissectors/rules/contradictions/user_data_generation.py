"""S075: a member whose subscription states a different generation from the one that it was in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.embedded import expand
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.groups import MisledGroups
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

_MAX_MEMBERS = 10_000


class _SyncedGenerations:
    """The generation in which each member last got an assignment, by group and member id."""

    def __init__(self) -> None:
        self.generations: BoundedDict[tuple[str, str], int] = BoundedDict(_MAX_MEMBERS)


@rule(
    "S075",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("JoinGroup",),
    also=(Trigger((ResponseReceived,), ("SyncGroup",)),),
    needs=(MisledGroups,),
    since="0.1",
    blame="client",
)
def user_data_generation(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a member that rejoins states the generation in which it got the partitions that it claims.

    ## Why it matters
    A sticky assignor resolves double claims by generation: the partitions of a member with an old generation, or with
    -1, go to other members. With -1, the assignor cannot tell which claim is newer, so a partition may move at every
    rebalance, or stay with a member that lost it long ago.

    ## Usual cause
    A client whose assignor is not told the generation after SyncGroup, so its user data keeps the first value. The rule
    covers StickyAssignorUserData (`sticky`, `cooperative-sticky`) and generation_id of ConsumerProtocolSubscription
    (version 2 and later).

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m",
      "protocol_type": "consumer", "protocols": [{"name": "range", "metadata":
      {"type": "ConsumerProtocolSubscription", "version": 2, "data": {"topics": ["t"]}}}]}
    < {"generation_id": 6, "protocol_name": "range", "leader": "m", "member_id": "m"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 6, "member_id": "m", "assignments": [{"member_id": "m",
      "assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
      {"assigned_partitions": [{"topic": "t", "partitions": [0]}]}}}]}
    < {"assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
      {"assigned_partitions": [{"topic": "t", "partitions": [0]}]}}}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m",
      "protocol_type": "consumer", "protocols": [{"name": "range", "metadata":
      {"type": "ConsumerProtocolSubscription", "version": 2, "data": {"topics": ["t"], "generation_id": -1,
       "owned_partitions": [{"topic": "t", "partitions": [0]}]}}}]}
    ```

    ## Look-alikes
    The right generation, and a member that claims nothing:
    ```story
    > SyncGroup v3 {"group_id": "g", "generation_id": 6, "member_id": "m"}
    < {"assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
      {"assigned_partitions": [{"topic": "t", "partitions": [0]}]}}}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m",
      "protocol_type": "consumer", "protocols": [{"name": "range", "metadata":
      {"type": "ConsumerProtocolSubscription", "version": 2, "data": {"topics": ["t"], "generation_id": 6,
       "owned_partitions": [{"topic": "t", "partitions": [0]}]}}}]}
    < {"generation_id": 7, "protocol_name": "range", "leader": "m", "member_id": "m"}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m",
      "protocol_type": "consumer", "protocols": [{"name": "range", "metadata":
      {"type": "ConsumerProtocolSubscription", "version": 2, "data": {"topics": ["t"], "generation_id": -1}}}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-341%3A+Update+Sticky+Assignor%27s+User+Data+Protocol
    https://cwiki.apache.org/confluence/pages/viewpage.action?pageId=191336614
    https://github.com/aio-libs/aiokafka/issues/1176
    """
    message = event.message
    if message is None:
        return
    generations = connection.run.state(_SyncedGenerations).generations
    if isinstance(event, ResponseReceived):
        request_body = event.request_body
        if request_body is not None and message.body.get("error_code") == 0:
            generations[request_body.get("group_id", ""), request_body.get("member_id", "")] = request_body.get(
                "generation_id", -1
            )
        return
    key = message.body.get("group_id", ""), message.body.get("member_id", "")
    synced_generation = generations.get(key)
    if (
        synced_generation is None
        or synced_generation < 0
        or connection.run.state(MisledGroups).contains(key[0], event.at)
    ):
        return
    message.spend(100 + len(message.frame))
    for index, protocol in enumerate(expand(message).get("protocols") or ()):
        outdated = _outdated_generation(protocol.get("metadata"), synced_generation)
        if outdated is None:
            continue
        part_name, generation = outdated
        yield Problem(
            f"{part_name} of member {key[1]!r} in group {key[0]!r} has generation {generation} with partitions that it "
            f"got in generation {synced_generation}, its previous generation",
            **locate(message, "protocols", index, "metadata"),
            hint="fix or upgrade the client: after SyncGroup, its assignor must keep the generation "
            f"({synced_generation}) "
            "together with the assignment",
            expected=f"generation {synced_generation}",
            got=str(generation),
            cause=f"{key[0]} {part_name}",
        )


def _outdated_generation(metadata: Any, synced_generation: int) -> tuple[str, int] | None:
    """Return the part of a subscription with an older generation than the known one, and that generation."""
    if not isinstance(metadata, dict) or metadata.get("type") != "ConsumerProtocolSubscription":
        return None
    data = metadata.get("data") or {}
    generation = data.get("generation_id", synced_generation)
    if generation < synced_generation and data.get("owned_partitions"):
        return "the subscription", generation
    user_data = data.get("user_data")
    if isinstance(user_data, dict) and user_data.get("type") == "StickyAssignorUserData":
        sticky_data = user_data.get("data") or {}
        claimed = sticky_data.get("previous_assignment") or data.get("owned_partitions")
        if claimed and (generation := sticky_data.get("generation", synced_generation)) < synced_generation:
            return "StickyAssignorUserData", generation
    return None
