"""S012: a group that rebalances constantly."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.granted_generations import GrantedGenerations
from dissectors.trackers.groups import MAX_GROUPS, MisledGroups
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

#: A rolling restart of ten members stays below this limit.
GENERATIONS = Limit("generations", 20, "generations", "a group goes through so many", 2)
WITHIN = Limit("within", 60, "s", "within this time")


class _Generations:
    """By group: the generation and time (ns) at which counting started, and whether a member got an assignment since.

    `assigned` has no entry for a group until a SyncGroup is answered.
    """

    def __init__(self) -> None:
        self.baselines: BoundedDict[str, tuple[int, int]] = BoundedDict(MAX_GROUPS)
        self.assigned: BoundedDict[str, bool] = BoundedDict(MAX_GROUPS)


@rule(
    "S012",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("JoinGroup", "SyncGroup"),
    needs=(GrantedGenerations, MisledGroups),
    limits=(
        GENERATIONS,
        WITHIN,
    ),
    since="0.1",
    blame="client",
)
def rebalance_storm(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a group does not go through 20 generations within a minute.

    ## Why it matters
    At each rebalance, all members stop, rejoin and fetch their offsets again. A group that mostly rebalances falls
    behind, and rereads messages that it could not commit.

    ## Usual cause
    Members that are evicted because they do not poll or send heartbeats in time, and rejoin at once; a deployment that
    restarts in a loop; or members that leave and join for each batch.

    ## Example
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 7, "member_id": "m-1"}
    +30s
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m-1"}
    < {"generation_id": 30, "member_id": "m-1"}
    ```

    ## Look-alikes
    The members of a group start one after the other:
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m-1"}
    +30s
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m-1"}
    < {"generation_id": 11, "member_id": "m-1"}
    ```

    A member that never gets its assignment, and rejoins for that reason (the stall `join-loop`):
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m-1"}
    > SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m-1"}
    < {"error_code": 27}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "m-1"}
    < {"generation_id": 21, "member_id": "m-1"}
    ```

    ## Sources
    https://github.com/spreedly/kaffe/issues/92
    https://github.com/kafka4beam/brod/issues/177
    """
    message = event.message
    if message is None or message.diagnosis is not None or (request_body := event.request_body) is None:
        return
    generations = connection.run.state(_Generations)
    group = request_body.get("group_id", "")
    if message.api == "SyncGroup":
        generations.assigned[group] = generations.assigned.get(group, False) or message.body["error_code"] == 0
        return
    generation = message.body["generation_id"]
    if message.body["error_code"] != 0 or connection.run.state(MisledGroups).contains(group, event.at):
        return
    baselines = generations.baselines
    first_generation, since = baselines.get(group, (generation, event.at))
    if generation < first_generation or event.at - since > connection.run.limit(WITHIN) * SECOND:
        first_generation, since = generation, event.at
        generations.assigned.pop(group, None)
    baselines[group] = (first_generation, since)
    if generation - first_generation >= connection.run.limit(GENERATIONS):
        baselines[group] = (generation, event.at)
        if generations.assigned.pop(group, None) is False:
            return  # no member leaves: the members get no assignment
        if connection.run.state(GrantedGenerations).is_contradicted(connection.server, group, event.at):
            return  # no member leaves: the coordinator refuses generations that it gave (S078)
        yield Problem(
            f"group {group!r} went through {generation - first_generation} generations in "
            f"{(event.at - since) / 1e9:.0f} s, and is now at {generation}",
            **locate(message, "generation_id"),
            hint="find the member that keeps leaving: compare max.poll.interval.ms and session.timeout.ms "
            "with how long it "
            "works on a batch; group.instance.id avoids rebalances on restarts",
            cause=group,
        )
