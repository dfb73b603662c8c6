"""H014: a session timeout into which fewer than three heartbeats fit."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.members import GAPS, HEARTBEATS, Members
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "H014",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Heartbeat",),
    only=FrameFlags.IRREGULAR,
    needs=(Members,),
    limits=(HEARTBEATS, GAPS),
    complete_for=300,
    since="0.1",
    blame="client",
)
def few_heartbeats(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports members of a group whose session ends after one or two lost heartbeats.

    ## Why it matters
    One slow response, garbage collection pause or reconnect is then enough for the member to be removed and the group
    to rebalance.

    ## Usual cause
    `session.timeout.ms` was lowered to notice crashes sooner, and `heartbeat.interval.ms` (3 s) was not. Kafka
    recommends a third of the session timeout or less.

    ## Example
    ```story
    rule H014:gaps=2
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 6000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m"}
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    < {}
    ```

    ## Look-alikes
    ```story
    rule H014:gaps=2
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m"}
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    < {}
    +3s
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_heartbeat.interval.ms
    """
    run = connection.run
    member = run.state(Members).sparse
    if member is not None:
        yield Problem(
            f"{client_label(connection)} sends heartbeats every {duration(member.shortest_gap)} or later"
            f" ({run.limit(GAPS):.0f} times in a row), but its session timeout in group {member.group!r} is"
            f" {duration(member.session)}: fewer than {run.limit(HEARTBEATS):.0f} fit into it",
            hint="set heartbeat.interval.ms to a third of session.timeout.ms or less, or leave both at 3 s and 45 s",
            cause=member.group,
        )
