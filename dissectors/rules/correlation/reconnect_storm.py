"""C017: a client that reconnects repeatedly without doing any work."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.refusals.refused_repeatedly import is_refused
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.metadata_only_visits import MAX_VISITS, MetadataOnlyVisits
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

CONNECTIONS = Limit("connections", 10, "connections", "so many in a row of a client only look up brokers", 2)
WITHIN = Limit("within", 30, "s", "within this time")


@rule(
    "C017",
    severity=Severity.WARNING,
    events=(ConnectionEnded,),
    needs=(MetadataOnlyVisits,),
    limits=(CONNECTIONS, WITHIN),
    complete_for=60,
    since="0.1",
)
def reconnect_storm(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client does not open connection after connection without doing any work.

    ## Why it matters
    Every connection costs the broker CPU, especially with TLS and SASL; many such clients can bring down a cluster.
    The client itself does no work: it only looks up brokers.

    ## Usual cause
    A client that cannot use the responses it gets, with a very short reconnect.backoff.ms. If kproxy knows the reason,
    it reports only that: an unreachable advertised address (S001), or a malformed response. Reported after 10
    consecutive connections of a client id and host within 30 s on which only ApiVersions, SASL, Metadata and
    FindCoordinator were answered.

    ## Example
    ```story
    open 1 client=10.0.0.9:50001
    1> Metadata v8 {"topics": []}
    1< {}
    1 close by=client how=fin
    open 2 client=10.0.0.9:50002
    2> Metadata v8 {"topics": []}
    2< {}
    2 close by=client how=fin
    open 3 client=10.0.0.9:50003
    3> Metadata v8 {"topics": []}
    3< {}
    3 close by=client how=fin
    open 4 client=10.0.0.9:50004
    4> Metadata v8 {"topics": []}
    4< {}
    4 close by=client how=fin
    open 5 client=10.0.0.9:50005
    5> Metadata v8 {"topics": []}
    5< {}
    5 close by=client how=fin
    open 6 client=10.0.0.9:50006
    6> Metadata v8 {"topics": []}
    6< {}
    6 close by=client how=fin
    open 7 client=10.0.0.9:50007
    7> Metadata v8 {"topics": []}
    7< {}
    7 close by=client how=fin
    open 8 client=10.0.0.9:50008
    8> Metadata v8 {"topics": []}
    8< {}
    8 close by=client how=fin
    open 9 client=10.0.0.9:50009
    9> Metadata v8 {"topics": []}
    9< {}
    9 close by=client how=fin
    open 10 client=10.0.0.9:50010
    10> Metadata v8 {"topics": []}
    10< {}
    10 close by=client how=fin
    ```

    ## Look-alikes
    Clients start with such a connection and then work on other connections; a health check every 5 s is slower:
    ```story
    open 1 client=10.0.0.9:50001
    1> Metadata v8 {"topics": []}
    1< {}
    1 close by=client how=fin
    open 2 client=10.0.0.9:50002
    2> Metadata v8 {"topics": []}
    2< {}
    2 close by=client how=fin
    open 3 client=10.0.0.9:50003
    3> Metadata v8 {"topics": []}
    3< {}
    3 close by=client how=fin
    open 4 client=10.0.0.9:50004
    4> Metadata v8 {"topics": []}
    4< {}
    4 close by=client how=fin
    open 5 client=10.0.0.9:50005
    5> Metadata v8 {"topics": []}
    5< {}
    5 close by=client how=fin
    open 6 client=10.0.0.9:50006
    6> Metadata v8 {"topics": []}
    6< {}
    6 close by=client how=fin
    open 7 client=10.0.0.9:50007
    7> Metadata v8 {"topics": []}
    7< {}
    7 close by=client how=fin
    open 8 client=10.0.0.9:50008
    8> Metadata v8 {"topics": []}
    8< {}
    8 close by=client how=fin
    open 9 client=10.0.0.9:50009
    9> Metadata v8 {"topics": []}
    9< {}
    9 close by=client how=fin
    open 10 client=10.0.0.9:50010
    10> ListGroups v2 {}
    10< {}
    10 close by=client how=fin
    open 11 client=10.0.0.9:50011
    11> Metadata v8 {"topics": []}
    11< {}
    11 close by=client how=fin
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_reconnect.backoff.ms
    https://github.com/confluentinc/librdkafka/issues/1389
    https://github.com/confluentinc/librdkafka/issues/5088
    """
    visits = connection.run.state(MetadataOnlyVisits).row
    count = min(int(connection.run.limit(CONNECTIONS)), MAX_VISITS)
    if len(visits) < count or event.at - visits[-count] > connection.run.limit(WITHIN) * SECOND:
        return
    if is_refused(connection):
        return  # librdkafka reconnects after each refusal by a coordinator
    host, client_id = client_key(connection)
    yield Problem(
        f"client {client_id!r} at {host} opened and closed {count} connections to {connection.server} within"
        f" {duration(event.at - visits[-count])} but only looked up brokers on them",
        hint="check how the client handles the last response on them, and whether it can reach the addresses that"
        " Metadata advertises",
        cause=f"{host} {client_id}",
    )
