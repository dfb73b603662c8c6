"""H015: a consumer that restarts and joins its group as a new member each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.members import Members
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

RESTARTS = Limit("restarts", 3, "restarts", "a client leaves its group and joins it on a new connection so often", 2)
PAUSE = Limit("pause", 120, "s", "each time within this time", 0.1)

_MAX_CLIENTS = 10_000


@dataclass(slots=True)
class _Restarts:
    """When a client left its group (ns; 0 if it has rejoined), its restarts in a row, and when the first one began."""

    left_at: int = 0
    count: int = 0
    since: int = 0


class _Clients(BoundedDict[tuple[str, str, str | None], _Restarts]):
    """The restarts by group, host and client id."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "H015",
    severity=Severity.INFO,
    events=(RequestReceived, ResponseReceived),
    apis=("LeaveGroup", "JoinGroup"),
    needs=(Members,),
    limits=(RESTARTS, PAUSE),
    since="0.1",
    blame="client",
)
def restart_not_static(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports consumers without a `group.instance.id` that restart quickly and often.

    ## Why it matters
    Each restart causes two rebalances: one when the consumer leaves, and one when it returns. A static member gets its
    old partitions back if it returns within the session timeout, and no other member notices.

    ## Usual cause
    Rolling deployments of consumers without `group.instance.id`, or an orchestrator that moves their containers. S021
    covers clients that leave and rejoin without a restart.

    ## Example
    ```story
    rule H015:restarts=2
    1> JoinGroup v5 {"group_id": "g", "member_id": "m1", "session_timeout_ms": 10000}
    1< {"generation_id": 1, "member_id": "m1"}
    1> LeaveGroup v2 {"group_id": "g", "member_id": "m1"}
    1< {}
    1 close by=client how=fin
    open 2 client=10.0.0.101:50002
    2> JoinGroup v5 {"group_id": "g", "member_id": "m2", "session_timeout_ms": 10000}
    2< {"generation_id": 2, "member_id": "m2"}
    2> LeaveGroup v2 {"group_id": "g", "member_id": "m2"}
    2< {}
    2 close by=client how=fin
    open 3 client=10.0.0.101:50003
    3> JoinGroup v5 {"group_id": "g", "member_id": "m3", "session_timeout_ms": 10000}
    3< {"generation_id": 3, "member_id": "m3"}
    ```

    ## Look-alikes
    A static member, which does not leave, and a member that returns after a long time:
    ```story
    rule H015:restarts=2
    1> JoinGroup v5 {"group_id": "g", "member_id": "m1", "group_instance_id": "i", "session_timeout_ms": 10000}
    1< {"generation_id": 1, "member_id": "m1"}
    1 close by=client how=fin
    open 2 client=10.0.0.101:50002
    2> JoinGroup v5 {"group_id": "g", "member_id": "m2", "group_instance_id": "i", "session_timeout_ms": 10000}
    2< {"generation_id": 1, "member_id": "m2"}
    2 close by=client how=fin
    open 3 client=10.0.0.101:50003
    3> JoinGroup v5 {"group_id": "g", "member_id": "m3", "group_instance_id": "i", "session_timeout_ms": 10000}
    3< {"generation_id": 1, "member_id": "m3"}
    ```
    ```story
    rule H015:restarts=2
    1> JoinGroup v5 {"group_id": "g", "member_id": "m1", "session_timeout_ms": 10000}
    1< {"generation_id": 1, "member_id": "m1"}
    1> LeaveGroup v2 {"group_id": "g", "member_id": "m1"}
    1< {}
    1 close by=client how=fin
    +10m
    open 2 client=10.0.0.101:50002
    2> JoinGroup v5 {"group_id": "g", "member_id": "m2", "session_timeout_ms": 10000}
    2< {"generation_id": 2, "member_id": "m2"}
    2> LeaveGroup v2 {"group_id": "g", "member_id": "m2"}
    2< {}
    2 close by=client how=fin
    +10m
    open 3 client=10.0.0.101:50003
    3> JoinGroup v5 {"group_id": "g", "member_id": "m3", "session_timeout_ms": 10000}
    3< {"generation_id": 3, "member_id": "m3"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-345%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances
    """
    members, run = connection.run.state(Members), connection.run
    clients, client = run.state(_Clients), client_key(connection)
    for departed in members.left:
        clients.touch((departed.group, *client), _Restarts).left_at = event.at
    joined = members.joined
    if joined is None or joined.joined_at != event.at or not isinstance(event, ResponseReceived):
        return  # an existing member rejoined
    restarts = clients.get((joined.group, *client))
    if restarts is None or not restarts.left_at:
        return
    left_at, restarts.left_at = restarts.left_at, 0
    is_static = (event.request_body or {}).get("group_instance_id") is not None
    if is_static or connection.opened_at < left_at or event.at - left_at > run.limit(PAUSE) * SECOND:
        restarts.count = 0
        return
    restarts.since = left_at if restarts.count == 0 else restarts.since
    restarts.count += 1
    if restarts.count >= run.limit(RESTARTS):
        count, restarts.count = restarts.count, 0
        yield Problem(
            f"{client_label(connection)} left group {joined.group!r} and joined it as a new member on a new connection "
            f"{count}"
            f" times within {duration(event.at - restarts.since)}: the group rebalanced {2 * count} times for it",
            hint="set a group.instance.id of its own for each process, and a session.timeout.ms longer than a restart",
            cause=joined.group,
        )
