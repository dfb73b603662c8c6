"""C019: a client that requests metadata and disconnects."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.answered_apis import AnsweredApis
from dissectors.trackers.metadata_only_visits import MetadataOnlyVisits
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

CONNECTIONS = Limit("connections", 5, "connections", "so many in a row of a client only look up brokers", 2)
OVER = Limit("over", 30, "s", "over at least this time")


@rule(
    "C019",
    severity=Severity.INFO,
    events=(ConnectionEnded,),
    needs=(AnsweredApis, MetadataOnlyVisits),
    limits=(
        CONNECTIONS,
        OVER,
    ),
    complete_for=60,
    since="0.1",
)
def metadata_only_connection(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients that connect repeatedly but only ever request metadata.

    ## Why it matters
    Such a client is either a health check, which is fine, or it cannot continue after the metadata request.

    ## Usual cause
    A probe or an exporter. Otherwise, the client cannot reach the addresses that Metadata advertises, or they lead
    past kproxy, so that its other connections are not visible. Reported at the fifth consecutive connection of a
    client id and host, over 30 s or more; C017 covers faster reconnects.

    ## Example
    ```story
    open 1 client=10.0.0.9:50001
    1> Metadata v8 {"topics": []}
    1< {}
    1 close by=client how=fin
    +10s
    open 2 client=10.0.0.9:50002
    2> Metadata v8 {"topics": []}
    2< {}
    2 close by=client how=fin
    +10s
    open 3 client=10.0.0.9:50003
    3> Metadata v8 {"topics": []}
    3< {}
    3 close by=client how=fin
    +10s
    open 4 client=10.0.0.9:50004
    4> Metadata v8 {"topics": []}
    4< {}
    4 close by=client how=fin
    +10s
    open 5 client=10.0.0.9:50005
    5> Metadata v8 {"topics": []}
    5< {}
    5 close by=client how=fin
    ```

    ## Look-alikes
    The bootstrap connections of a client that then works on other connections:
    ```story
    open 9 client=10.0.0.9:50009
    9> Fetch v11 {"topics": []}
    9< {}
    open 1 client=10.0.0.9:50001
    1> Metadata v8 {"topics": []}
    1< {}
    1 close by=client how=fin
    +10s
    open 2 client=10.0.0.9:50002
    2> Metadata v8 {"topics": []}
    2< {}
    2 close by=client how=fin
    +10s
    open 3 client=10.0.0.9:50003
    3> Metadata v8 {"topics": []}
    3< {}
    3 close by=client how=fin
    +10s
    open 4 client=10.0.0.9:50004
    4> Metadata v8 {"topics": []}
    4< {}
    4 close by=client how=fin
    +10s
    open 5 client=10.0.0.9:50005
    5> Metadata v8 {"topics": []}
    5< {}
    5 close by=client how=fin
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_advertised.listeners
    """
    run = connection.run
    visits = run.state(MetadataOnlyVisits).row
    if len(visits) < run.limit(CONNECTIONS) or event.at - visits[0] < run.limit(OVER) * SECOND:
        return
    client = client_key(connection)
    if run.state(AnsweredApis).last_work_at(client):
        return
    host, client_id = client
    yield Problem(
        f"client {client_id!r} at {host} only ever requests metadata: {len(visits)} connections to {connection.server}"
        " in a row",
        hint="fine for a health check; otherwise check that it can reach the addresses that Metadata advertises, and"
        " that they lead through kproxy",
        cause=f"{host} {client_id}",
    )
