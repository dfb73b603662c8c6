"""C023: a server that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Responses after less than a second are not examined.
MIN_PAUSE = Limit("pause", 2, "s", "requests on several connections wait for so long", 1)

#: A shorter pause (ns) breaks nothing, and is reported as info. C012 reports single requests from then on.
_WARNING_FROM = 5 * SECOND
#: Requests that waited for the same pause are answered within this time (ns).
_TOGETHER = SECOND // 4
_MIN_REQUESTS, _MIN_CONNECTIONS, _MIN_APIS = 3, 2, 2
_MAX_SERVERS, _MAX_WAITS = 1_000, 100

#: APIs that a server answers without waiting for other brokers or members; a Fetch, after its max_wait_ms.
_IMMEDIATE = frozenset({
    "ApiVersions", "DescribeCluster", "DescribeConfigs", "DescribeGroups", "Fetch", "FindCoordinator", "Heartbeat",
    "ListGroups", "ListOffsets", "Metadata", "OffsetFetch",
})  # fmt: skip
#: APIs whose responses wait for other members or for log-in servers.
_NOT_COUNTED = frozenset({"JoinGroup", "SyncGroup", "ShareFetch", "SaslHandshake", "SaslAuthenticate"})


class _Wait(NamedTuple):
    """A request that waited `waited` ns for its response, which came at `at` (ns)."""

    at: int
    connection_id: str
    api: str
    waited: int


class _Waits:
    """The latest long waits for each server."""

    def __init__(self) -> None:
        self.by_server: BoundedDict[str, list[_Wait]] = BoundedDict(_MAX_SERVERS)


@rule(
    "C023",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    only=FrameFlags.SLOW,
    needs=(InFlight,),
    limits=(MIN_PAUSE,),
    since="0.1",
    blame="broker",
)
def server_paused(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server does not stand still: several requests wait for seconds and are then answered together.

    ## Why it matters
    All clients of the server wait, even for answers that take no work. A pause beyond the session timeout costs members
    their place in the group, and one beyond request.timeout.ms makes clients retry. Less than 5 s is reported as info.

    ## Usual cause
    A long garbage collection, a stalled disk, a machine without CPU time or memory (a paused virtual machine,
    swapping), or a network that was interrupted between kproxy and the server. In a capture from a client's machine, a
    pause of that machine looks the same.

    At least three requests of two APIs on two connections are needed, one of them of an API that waits for nobody else:
    Produce with acks=all waits for the other replicas, JoinGroup for the other members.

    ## Example
    ```story
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    2> Metadata v8 {"topics": []}
    3> Fetch v11 {"max_wait_ms": 500, "topics": []}
    +3s
    < {}
    2< {}
    3< {}
    ```

    ## Look-alikes
    Requests that wait for replicas, and slow requests that are not answered together:
    ```story
    > Produce v8 {"acks": -1, "timeout_ms": 30000, "topic_data": []}
    2> Produce v8 {"acks": -1, "timeout_ms": 30000, "topic_data": []}
    3> OffsetCommit v7 {"group_id": "g", "topics": []}
    +3s
    < {}
    2< {}
    3< {}
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    2> Metadata v8 {"topics": []}
    3> ListOffsets v5 {"topics": []}
    +3s
    < {}
    +1s
    2< {}
    +1s
    3< {}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_session.timeout.ms
    https://kafka.apache.org/documentation/#java
    """
    request, message = event.request, event.message
    if request is None or message is None or message.api in _NOT_COUNTED:
        return
    waited = event.at - connection.state(InFlight).started_at - _allowed_ns(request.message.body, message.body)
    if waited < connection.run.limit(MIN_PAUSE) * SECOND:
        return
    state, server = connection.run.state(_Waits), connection.server
    waits = [wait for wait in state.by_server.get(server, ()) if event.at - wait.at <= _TOGETHER][-_MAX_WAITS:]
    waits.append(_Wait(event.at, connection.connection_id, message.api, waited))
    state.by_server[server] = waits
    if not _is_pause(waits):
        return
    connections = len({wait.connection_id for wait in waits})
    apis = ", ".join(sorted({wait.api for wait in waits}))
    longest = max(wait.waited for wait in waits)
    yield Problem(
        f"the server seems to have stood still for {duration(longest)}: at least {len(waits)} requests on "
        f"{connections} connections ({apis}) waited during this time, and were answered within "
        f"{duration(event.at - waits[0].at)} at its end",
        hint="look on the server at this time: garbage collection, disk, CPU steal, memory; then at the network to it",
        severity=None if longest >= _WARNING_FROM else Severity.INFO,
        once_per=(server, longest >= _WARNING_FROM),
    )


def _allowed_ns(request_body: dict[str, object], response_body: dict[str, object]) -> int:
    """Return how long the request allows the server to wait, and how long the server says it held the response back."""
    times = (request_body.get("max_wait_ms"), response_body.get("throttle_time_ms"))
    return sum(time for time in times if isinstance(time, int) and time > 0) * 1_000_000


def _is_pause(waits: list[_Wait]) -> bool:
    apis = {wait.api for wait in waits}
    return (
        len(waits) >= _MIN_REQUESTS
        and len(apis) >= _MIN_APIS
        and not apis.isdisjoint(_IMMEDIATE)
        and len({wait.connection_id for wait in waits}) >= _MIN_CONNECTIONS
    )
