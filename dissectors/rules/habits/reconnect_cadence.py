"""H008: connections that end after the same time, one after the other."""

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

#: A client of one or two requests for each connection (C018) is another habit.
_ERRANDS = 3
_MAX_CLIENTS = 10_000

_HINTS = {
    "server": "compare it with connections.max.idle.ms and connections.max.reauth.ms of the broker, and with idle and"
    " session times of load balancers and proxies before it",
    "client": "find out what restarts the client, or closes and reopens it, on that schedule",
}  # fmt: skip


@dataclass(slots=True)
class _ConnectionLives:
    """Connections in a row that the same side ended: the shortest and longest time (ns) that they existed.

    `ended_at` is when the last of them ended: those that were open at the same time are not in a row.
    """

    by: str
    shortest: int
    longest: int
    ended_at: int = 0
    count: int = 0


class _Clients(BoundedDict[tuple[str, str | None, str], _ConnectionLives]):
    """By client and server."""

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
    Someone closes them on a schedule. What is in flight then fails, and each new connection costs a handshake.

    ## Usual cause
    A load balancer, proxy or firewall that limits the time of a connection, not its idle time; a client that cannot
    re-authenticate (X010); a job that starts every minute. The finding says which side closes.

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

    ## Looks alike
    Restarts now and then:
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
    life = event.at - connection.opened_at
    if connection.midstream or event.by not in _HINTS or flight.work_requests < _ERRANDS:
        return
    if life < run.limit(MIN_INTERVAL) * SECOND:
        return
    clients, key = run.state(_Clients), (*client_key(connection), connection.server)
    lives = clients.touch(key, lambda: _ConnectionLives(event.by or "", life, life))
    if connection.opened_at < lives.ended_at:
        return
    shortest, longest = min(lives.shortest, life), max(lives.longest, life)
    if lives.by != event.by or (longest - shortest) * 100 > longest * run.limit(DIFFERENCE):
        clients[key] = _ConnectionLives(event.by, life, life, event.at, 1)
        return
    lives.shortest, lives.longest, lives.ended_at = shortest, longest, event.at
    lives.count += 1
    if lives.count >= run.limit(CONNECTIONS):
        del clients[key]
        yield Problem(
            f"{lives.count} connections in a row of {client_label(connection)} to {connection.server} were closed by "
            f"the {event.by} after the same time, {duration(shortest)} to {duration(longest)}",
            hint=_HINTS[event.by],
            blame="client" if event.by == "client" else None,
            cause=str(key),
        )
