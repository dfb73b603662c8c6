"""S005: a client that asks for the same Metadata again and again and does nothing with it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.behaviour.advertised_unreachable import cannot_get_there
from dissectors.trackers.broker_lookups import BrokerLookups
from dissectors.trackers.brokers import endpoints
from dissectors.trackers.state import ConnectionState

#: The same answer so often within `seekers.WINDOW`, and nothing else.
ANSWERS = 10


@rule(
    "S005",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Metadata",),
    needs=(BrokerLookups,),
    since="0.1",
    blame="network",
)
def metadata_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client acts on Metadata that names a leader for its topic, and does not ask ten times in a row.

    ## Why it matters
    The answer has all that the client needs, and yet it asks again within a second: it cannot connect to what the
    answer names, or does not believe it. Producers then time out and consumers hang, mostly without an error.

    ## Usual cause
    The advertised host name does not resolve where the client is, or a firewall stands before it; or a field of the
    answer, such as a topic id or leader epoch, is not what the client takes. Where the address is plainly another than
    was dialled it is S001, and a leader that is not among the brokers is S004.

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

    ## Looks alike
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
    seeker = connection.run.state(BrokerLookups).of(connection, client_id)
    if seeker.same < ANSWERS or cannot_get_there(seeker, event.at):
        return
    named = next(endpoints(message), None)
    if named is None:
        return
    yield Problem(
        f"client {client_id!r} got the same Metadata {seeker.same} times within "
        f"{(event.at - seeker.since) / 1e9:.1f} s and did nothing with it; it names a leader for its topic, and broker "
        f"{named.node_id} at {named.address}",
        hint=f"see whether the client can resolve and reach {named.address}, and what it logs at debug level",
        cause=named.address,
    )
