"""C018: a client that opens a connection, and often creates a whole client, for every one or two requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.rules.refusals.refused_repeatedly import is_refused
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

CONNECTIONS = Limit("connections", 20, "connections", "a client ends so many connections to a server", 2)
REQUESTS = Limit("requests", 2, "requests", "with one to so many requests besides log-in and Metadata on each")
WITHIN = Limit("within", 300, "s", "opened within this time")

#: The maximum number of connections with more requests, as a share of those with few.
_MAX_LONG_SHARE = 0.1

_MAX_CLIENTS = 10_000


@dataclass(slots=True)
class _ConnectionCount:
    """A client's ended connections with few (`short`) or more requests (`long`), opened since `since` (ns)."""

    since: int
    until: int = 0
    short: int = 0
    work_requests: int = 0
    long: int = 0
    apis: set[int] = field(default_factory=set)


class _ShortConnections(BoundedDict[tuple[str, str | None, str], _ConnectionCount]):
    """The ended connections, by client and server."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "C018",
    severity=Severity.WARNING,
    events=(ConnectionEnded,),
    needs=(InFlight,),
    limits=(CONNECTIONS, REQUESTS, WITHIN),
    complete_for=60,
    since="0.1",
    blame="client",
)
def connection_per_request(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that clients reuse connections: a new one for every one or two requests costs a handshake each time.

    ## Why it matters
    Each connection costs the broker a handshake (much more than the request itself with TLS and SASL) and the client
    several round trips before its first record is sent.

    ## Usual cause
    A program that creates a producer, consumer or admin client for each message or call, and closes or forgets it.
    Up to a tenth of the connections may have more requests.

    ## Example
    ```story
    rule C018:connections=3
    open 1 client=10.0.0.9:50001
    1> Metadata v8 {"topics": []}
    1< {}
    1> Produce v7 {"acks": 1, "topic_data": []}
    1< {}
    1 close by=client how=fin
    open 2 client=10.0.0.9:50002
    2> Metadata v8 {"topics": []}
    2< {}
    2> Produce v7 {"acks": 1, "topic_data": []}
    2< {}
    2 close by=client how=fin
    open 3 client=10.0.0.9:50003
    3> Metadata v8 {"topics": []}
    3< {}
    3> Produce v7 {"acks": 1, "topic_data": []}
    3< {}
    3 close by=client how=fin
    ```

    ## Look-alikes
    A client that restarts occasionally; other clients on the same host have their own client ids:
    ```story
    rule C018:connections=3
    open 1 client=10.0.0.9:50001
    1> Metadata v8 {"topics": []}
    1< {}
    1> Produce v7 {"acks": 1, "topic_data": []}
    1< {}
    1 close by=client how=fin
    +3m
    open 2 client=10.0.0.9:50002
    2> Metadata v8 {"topics": []}
    2< {}
    2> Produce v7 {"acks": 1, "topic_data": []}
    2< {}
    2 close by=client how=fin
    +3m
    open 3 client=10.0.0.9:50003
    3> Metadata v8 {"topics": []}
    3< {}
    3> Produce v7 {"acks": 1, "topic_data": []}
    3< {}
    3 close by=client how=fin
    ```

    ## Sources
    https://kafka.apache.org/43/javadoc/org/apache/kafka/clients/producer/KafkaProducer.html
    """
    flight, run = connection.state(InFlight), connection.run
    if connection.midstream or event.by not in ("client", "server") or not flight.work_requests:
        return  # C017 and C019 cover connections that do no work
    counts = run.state(_ShortConnections)
    client = (*client_key(connection), connection.server)
    count = counts.touch(client, lambda: _ConnectionCount(connection.opened_at))
    opened_at = connection.opened_at
    if abs(opened_at - count.since) > run.limit(WITHIN) * SECOND:
        count = counts[client] = _ConnectionCount(opened_at)
    count.since, count.until = min(count.since, opened_at), max(count.until, opened_at)
    if flight.work_requests > run.limit(REQUESTS):
        count.long += 1
        return
    count.short += 1
    count.work_requests += flight.work_requests
    count.apis |= {api for api, _ in flight.served}
    if count.short >= run.limit(CONNECTIONS) and count.long <= _MAX_LONG_SHARE * count.short:
        if is_refused(connection):
            return  # it reconnects because of the error
        del counts[client]
        kind = "producer" if ApiKey.PRODUCE in count.apis else "consumer" if ApiKey.FETCH in count.apis else "client"
        yield Problem(
            f"{client_label(connection)} opened {count.short} connections to {connection.server} within"
            f" {duration(count.until - count.since)} for {count.work_requests} requests",
            hint=f"create one {kind} per process, and share it; do not create one for each message or call",
            cause=str(client),
        )
