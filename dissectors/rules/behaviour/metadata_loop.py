"""S005: a client that requests the same Metadata repeatedly and does not act on it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dissectors.connections.addresses import canonicalize_host, split
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.behaviour.advertised_unreachable import cannot_reach_brokers
from dissectors.trackers.broker_lookups import BrokerLookups
from dissectors.trackers.brokers import endpoints
from dissectors.trackers.cluster_views import ClusterViews
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.state import ConnectionState

#: Reported after this many identical responses within `broker_lookups.WINDOW`, without other requests.
ANSWERS = 10

#: At most this many connections of a client are considered.
_MAX_CONNECTIONS = 100


@rule(
    "S005",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Metadata",),
    needs=(BrokerLookups, ClusterViews, ConnectionsByClient),
    since="0.1",
    blame="network",
)
def metadata_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client uses Metadata that names its topic's leader instead of requesting it ten times in a row.

    ## Why it matters
    The response has everything that the client needs, but the client asks again within a second: it cannot connect to
    the advertised address, or does not accept the response. Producers then time out and consumers hang, usually without
    an error.

    ## Usual cause
    The advertised host name does not resolve on the client, or a firewall blocks it. Or the client rejects a field of
    the response, such as a topic id or leader epoch: that must be the reason if it is already connected to every
    broker's address. S001 covers an address that clearly differs from the one dialled; S004, a leader that is not among
    the brokers.

    ## Example
    ```story
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    ```

    ## Look-alikes
    ```story
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    +100ms
    > Fetch v4 {}
    < {}
    > Metadata v1 {"topics": [{"name": "t"}]}
    < {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/7329
    https://github.com/confluentinc/cp-docker-images/issues/394
    """
    message = event.message
    if message is None or event.request is None or message.diagnosis is not None:
        return
    client_id = event.request.message.client_id
    lookup = connection.run.state(BrokerLookups).for_client(connection, client_id)
    if lookup.identical < ANSWERS or cannot_reach_brokers(lookup, event.at):
        return
    if connection.run.state(ClusterViews).contradicts_itself(connection.server, event.at):
        return  # S068 explains it
    brokers = list(endpoints(message.as_sent))
    if not brokers:
        return
    other_connections = connection.run.state(ConnectionsByClient).others(connection)
    reached_addresses = {
        split(connection_state.dialled)
        for connection_state in (connection, *islice(other_connections, _MAX_CONNECTIONS))
    }
    unreached_brokers = [
        broker for broker in brokers if (canonicalize_host(broker.host), broker.port) not in reached_addresses
    ]
    broker = (unreached_brokers or brokers)[0]
    text = (
        f"client {client_id!r} got the same Metadata {lookup.identical} times within "
        f"{(event.at - lookup.since) / 1e9:.1f} s without acting on it; it names a leader for its topic, and broker "
        f"{broker.node_id} at {broker.address}"
    )
    if unreached_brokers:
        hint = f"check whether the client can resolve and reach {broker.address}, and what it logs at debug level"
        yield Problem(text, hint=hint, cause=broker.address)
    else:
        yield Problem(
            f"{text}, to which it is connected",
            blame="client",
            hint="the client does not accept this response, or another one on this connection (its log at debug level "
            "says which): compare node ids, topic ids and leader epochs between the responses",
            cause=broker.address,
        )
