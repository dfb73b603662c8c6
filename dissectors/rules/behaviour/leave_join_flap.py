"""S021: a client that repeatedly leaves its group and rejoins it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.members import Members
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

FLAPS = Limit("times", 5, "times", "a client leaves its group and rejoins it so often in a row", 2)
PAUSE = Limit("pause", 60, "s", "each time within this time")
_MAX_MEMBERSHIP = 600 * SECOND
_MAX_CLIENTS = 10_000


class _DepartedClients:
    """When each client (group, host, client id) left, and how many times in a row it had rejoined before."""

    def __init__(self) -> None:
        self.clients: BoundedDict[tuple[str, str, str | None], tuple[int, int]] = BoundedDict(_MAX_CLIENTS)


@rule(
    "S021",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("LeaveGroup", "JoinGroup"),
    needs=(Members,),
    limits=(
        FLAPS,
        PAUSE,
    ),
    since="0.1",
    blame="client",
)
def leave_join_flap(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client does not repeatedly leave its group and rejoin at once.

    ## Why it matters
    Each leave and each join is a rebalance: the whole group stops reading while partitions move.

    ## Usual cause
    An application that creates a consumer per message or request, a container that crashes and restarts, or work
    between two polls that exceeds `max.poll.interval.ms` (the client then leaves and rejoins at the next poll).

    ## Example
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "m-1"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 2, "member_id": "m-2", "leader": "m-2"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "m-2"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 3, "member_id": "m-3", "leader": "m-3"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "m-3"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 4, "member_id": "m-4", "leader": "m-4"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "m-4"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 5, "member_id": "m-5", "leader": "m-5"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "m-5"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 6, "member_id": "m-6", "leader": "m-6"}
    ```

    ## Look-alikes
    A client that is restarted once, and a group that rebalances although no member leaves:
    ```story
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    > LeaveGroup v2 {"group_id": "g", "member_id": "m-1"}
    < {}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 2, "member_id": "m-2", "leader": "m-2"}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "member_id": "m-2"}
    < {"generation_id": 3, "member_id": "m-2", "leader": "m-2"}
    > JoinGroup v3 {"group_id": "g", "session_timeout_ms": 10000, "member_id": "m-2"}
    < {"generation_id": 4, "member_id": "m-2", "leader": "m-2"}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-345%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances
    """
    members = connection.run.state(Members)
    clients = connection.run.state(_DepartedClients).clients
    client = host_of(connection.client), connection.client_id
    for departed_member in members.left:
        is_short = event.at - departed_member.joined_at < _MAX_MEMBERSHIP
        clients[departed_member.group, *client] = event.at, departed_member.flaps if is_short else 0
    joined_member = members.joined
    if joined_member is None or joined_member.joined_at != event.at:  # an existing member rejoined
        return
    left_at, flaps = clients.pop((joined_member.group, *client), (0, 0))
    if event.at - left_at > connection.run.limit(PAUSE) * SECOND:
        return
    joined_member.flaps = flaps + 1
    if joined_member.flaps >= connection.run.limit(FLAPS):
        yield Problem(
            f"client {connection.client_id!r} at {client[0]} left group {joined_member.group!r} and rejoined it "
            f"{joined_member.flaps} times in a row: the group rebalances each time",
            hint="keep one consumer for the life of the application, or give it a group.instance.id; do less between "
            "polls or raise max.poll.interval.ms",
            cause=joined_member.group,
        )
