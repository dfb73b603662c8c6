"""H007: a client with many connections at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key

CONNECTIONS = Limit("connections", 50, "connections", "a client has so many connections to one server at once", 2)

_MAX_CLIENTS = 10_000


class _OpenConnections(BoundedDict[tuple[str, str | None, str], int]):
    """The number of open connections of each client to a server."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


class _CountedConnection:
    """The client and server for which a connection has been counted."""

    key: tuple[str, str | None, str] | None = None


@rule(
    "H007",
    severity=Severity.WARNING,
    events=(ResponseReceived, ConnectionEnded),
    only=FrameFlags.FIRST,
    limits=(CONNECTIONS,),
    since="0.1",
    blame="client",
)
def many_connections(event: ResponseReceived | ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client has few connections to one broker: a Kafka client needs one or two, whatever the load.

    ## Why it matters
    Each connection costs the broker memory and, with TLS and SASL, a handshake after the broker restarts;
    `max.connections` and `max.connections.per.ip` shut other clients out.

    ## Usual cause
    Producers, consumers or admin clients that are created again and again and never closed; or a pool of producers
    where one would be enough. Clients are told apart by host and client id: processes that share an address and a
    client id count as one.

    ## Example
    ```story
    rule H007:connections=3
    open 1 client=10.0.0.9:50001
    1> ListGroups v2 {}
    1< {}
    open 2 client=10.0.0.9:50002
    2> ListGroups v2 {}
    2< {}
    open 3 client=10.0.0.9:50003
    3> ListGroups v2 {}
    3< {}
    ```

    ## Look-alikes
    Connections that are closed again:
    ```story
    rule H007:connections=3
    open 1 client=10.0.0.9:50001
    1> ListGroups v2 {}
    1< {}
    open 2 client=10.0.0.9:50002
    2> ListGroups v2 {}
    2< {}
    1 close by=client how=fin
    open 3 client=10.0.0.9:50003
    3> ListGroups v2 {}
    3< {}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_max.connections.per.ip
    """
    counted_connection, connections = connection.state(_CountedConnection), connection.run.state(_OpenConnections)
    if isinstance(event, ConnectionEnded):
        if counted_connection.key is not None and counted_connection.key in connections:
            connections[counted_connection.key] -= 1
        return
    if counted_connection.key is not None:
        return
    counted_connection.key = key = (*client_key(connection), connection.server)
    connections[key] = count = connections.get(key, 0) + 1
    if count == connection.run.limit(CONNECTIONS):
        yield Problem(
            f"{client_label(connection)} has {count} connections to {connection.server} at the same time",
            hint="create one client per process and share it, and close those that are no longer used",
            cause=str(key),
        )
