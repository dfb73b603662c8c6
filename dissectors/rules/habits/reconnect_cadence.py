"""H008: successive connections of a client end after the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

CONNECTIONS = Limit("connections", 10, "connections", "so many connections of a client to a server in a row end", 3)
DIFFERENCE = Limit("difference", 5, "%", "after times that differ by at most this share")
MIN_INTERVAL = Limit("least", 1, "s", "and that are at least so long", 0.001)

#: A client that sends only one or two requests on each connection has another habit (C018).
_MIN_WORK_REQUESTS = 3
_MAX_CLIENTS = 10_000

_HINTS = {
    "server": "compare it with connections.max.idle.ms and connections.max.reauth.ms of the broker, and with idle and"
    " session times of load balancers and proxies before it",
    "client": "find out what restarts the client, or closes and reopens it, on that schedule",
}  # fmt: skip


@dataclass(slots=True)
class _ConnectionLifetimes:
    """The shortest and longest lifetime (ns) of consecutive connections that the same side ended.

    `ended_at` is when the last of them ended: connections that were open at the same time are not consecutive.
    """

    by: str
    shortest: int
    longest: int
    ended_at: int = 0
    count: int = 0


class _Clients(BoundedDict[tuple[str, str | None, str], _ConnectionLifetimes]):
    """The lifetimes by client and server."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "H008",
    severity=Severity.WARNING,
    events=(ConnectionEnded,),
    needs=(InFlight,),
    limits=(CONNECTIONS, DIFFERENCE, MIN_INTERVAL),
    since="0.1",
)
def reconnect_cadence(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients whose connections end again and again after the same time, although they are used.

    ## Why it matters
    The connections are closed on a schedule. Requests in flight then fail, and each new connection costs a handshake.

    ## Usual cause
    A load balancer, proxy or firewall that limits the lifetime of a connection, not its idle time; a client that cannot
    re-authenticate (X010); a job that starts every minute. The finding says which side closes the connections.

    ## Example
    ```story
    rule H008:connections=3
    open 1 client=10.0.0.9:50001
    1> ListGroups v2 {}
    1< {}
    1> ListGroups v2 {}
    1< {}
    1> ListGroups v2 {}
    1< {}
    +60s
    1 close by=server how=fin
    open 2 client=10.0.0.9:50002
    2> ListGroups v2 {}
    2< {}
    2> ListGroups v2 {}
    2< {}
    2> ListGroups v2 {}
    2< {}
    +60s
    2 close by=server how=fin
    open 3 client=10.0.0.9:50003
    3> ListGroups v2 {}
    3< {}
    3> ListGroups v2 {}
    3< {}
    3> ListGroups v2 {}
    3< {}
    +60s
    3 close by=server how=fin
    ```

    ## Look-alikes
    Occasional restarts:
    ```story
    rule H008:connections=3
    open 1 client=10.0.0.9:50001
    1> ListGroups v2 {}
    1< {}
    1> ListGroups v2 {}
    1< {}
    1> ListGroups v2 {}
    1< {}
    +60s
    1 close by=client how=fin
    open 2 client=10.0.0.9:50002
    2> ListGroups v2 {}
    2< {}
    2> ListGroups v2 {}
    2< {}
    2> ListGroups v2 {}
    2< {}
    +75s
    2 close by=client how=fin
    open 3 client=10.0.0.9:50003
    3> ListGroups v2 {}
    3< {}
    3> ListGroups v2 {}
    3< {}
    3> ListGroups v2 {}
    3< {}
    +40s
    3 close by=client how=fin
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_connections.max.idle.ms
    """
    flight, run = connection.state(InFlight), connection.run
    lifetime = event.at - connection.opened_at
    if connection.midstream or event.by not in _HINTS or flight.work_requests < _MIN_WORK_REQUESTS:
        return
    if lifetime < run.limit(MIN_INTERVAL) * SECOND:
        return
    clients, key = run.state(_Clients), (*client_key(connection), connection.server)
    lifetimes = clients.touch(key, lambda: _ConnectionLifetimes(event.by or "", lifetime, lifetime))
    if connection.opened_at < lifetimes.ended_at:
        return
    shortest, longest = min(lifetimes.shortest, lifetime), max(lifetimes.longest, lifetime)
    if lifetimes.by != event.by or (longest - shortest) * 100 > longest * run.limit(DIFFERENCE):
        clients[key] = _ConnectionLifetimes(event.by, lifetime, lifetime, event.at, 1)
        return
    lifetimes.shortest, lifetimes.longest, lifetimes.ended_at = shortest, longest, event.at
    lifetimes.count += 1
    if lifetimes.count >= run.limit(CONNECTIONS):
        del clients[key]
        yield Problem(
            f"{lifetimes.count} connections in a row of {client_label(connection)} to {connection.server} were closed "
            f"by the {event.by} after the same time, {duration(shortest)} to {duration(longest)}",
            hint=_HINTS[event.by],
            blame="client" if event.by == "client" else None,
            cause=str(key),
        )
