"""H016: a group that rebalances often and stops all its members each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import Versions

REBALANCES = Limit("rebalances", 5, "rebalances", "a group of several members has so many", 2)
WITHIN = Limit("within", 600, "s", "within this time")

#: Kafka's assignors that revoke all partitions before each rebalance.
_EAGER = frozenset({"range", "roundrobin", "sticky"})
_MAX_GROUPS = 10_000


@dataclass(slots=True)
class _Group:
    """The eager rebalances of a group with several members since `since` (ns)."""

    since: int
    generation: int = -1
    count: int = 0


class _Groups(BoundedDict[str, _Group]):
    """The groups by name."""

    def __init__(self) -> None:
        super().__init__(_MAX_GROUPS)


@rule(
    "H016",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("JoinGroup",),
    needs=(Versions,),
    limits=(REBALANCES, WITHIN),
    since="0.1",
    blame="client",
)
def all_members_stop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports groups that rebalance often with an assignor that makes all members stop reading.

    ## Why it matters
    With an eager assignor, each member gives up all its partitions before it rejoins: the whole group stops until the
    slowest member has rejoined. With cooperative rebalancing, or with KIP-848, members give up only the partitions that
    move.

    ## Usual cause
    `partition.assignment.strategy` was never set: its default uses `range` as long as all members support it. Also find
    out why the group rebalances (G015, S012, S021).

    ## Example
    ```story
    rule H016:rebalances=2
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "m",
      "members": [{"member_id": "m"}, {"member_id": "n"}]}
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 2, "protocol_name": "range", "leader": "m", "member_id": "m",
      "members": [{"member_id": "m"}, {"member_id": "n"}]}
    ```

    ## Look-alikes
    ```story
    rule H016:rebalances=2
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "protocol_name": "cooperative-sticky", "leader": "m", "member_id": "m",
      "members": [{"member_id": "m"}, {"member_id": "n"}]}
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 2, "protocol_name": "cooperative-sticky", "leader": "m", "member_id": "m",
      "members": [{"member_id": "m"}, {"member_id": "n"}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-429%3A+Kafka+Consumer+Incremental+Rebalance+Protocol
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    message, request_body, run = event.message, event.request_body, connection.run
    if message is None or request_body is None or message.body.get("error_code"):
        return
    body, group_id = message.body, request_body.get("group_id") or ""
    members = body.get("members") or ()
    if len(members) < 2 or body.get("protocol_name") not in _EAGER:  # only the leader's response lists the members
        return
    group = run.state(_Groups).touch(group_id, lambda: _Group(event.at))
    if event.at - group.since > run.limit(WITHIN) * SECOND:
        group.since, group.count = event.at, 0
    if body.get("generation_id") == group.generation:
        return
    group.generation = body.get("generation_id", -1)
    group.count += 1
    if group.count < run.limit(REBALANCES):
        return
    count, group.count = group.count, 0
    ranges = connection.state(Versions).ranges(connection) or {}
    is_offered = ApiKey.CONSUMER_GROUP_HEARTBEAT in ranges
    advice = "set group.protocol=consumer, which this broker offers (KIP-848), or " if is_offered else "set "
    yield Problem(
        f"group {group_id!r} rebalanced {count} times within {duration(event.at - group.since)} with assignor"
        f" {body['protocol_name']!r}: each time all {len(members)} members stopped reading",
        hint=f"{advice}partition.assignment.strategy to the cooperative sticky assignor in all members",
        cause=group_id,
    )
