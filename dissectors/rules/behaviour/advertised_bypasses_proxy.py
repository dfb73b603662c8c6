"""S002: clients leave the proxy after their first request."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.behaviour.advertised_unreachable import is_new_cause
from dissectors.trackers.broker_lookups import WINDOW, BrokerLookups
from dissectors.trackers.brokers import AddressRoute, Brokers, is_relayed, own_address
from dissectors.trackers.state import ConnectionState


@rule(
    "S002",
    severity=Severity.ERROR,
    events=(ResponseReceived, DeadlinePassed),
    apis=("Metadata",),
    needs=(Brokers, BrokerLookups),
    since="0.1",
    blame="network",
)
def advertised_bypasses_proxy(
    event: ResponseReceived | DeadlinePassed, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that clients keep using the proxy after they learn the brokers' addresses.

    ## Why it matters
    If nothing rewrites addresses, brokers advertise their own. Clients then connect to the brokers directly, and the
    proxy sees only their first requests, none of the data.

    ## Usual cause
    `advertised.listeners` does not name the proxy, and the proxy does not rewrite addresses. If the advertised address
    is clearly that of the server behind the proxy, S001 reports it at once; this rule covers other addresses.

    ## Example
    ```story
    open 1 server=10.0.0.1:19092 listener=10.0.0.5:9092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "b1.example.com", "port": 19092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    +20s
    ```

    ## Look-alikes
    The advertised address leads to another listener of the proxy:
    ```story
    open 1 server=10.0.0.1:19092 listener=10.0.0.5:9092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "b1.example.com", "port": 9093}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    open 2 server=10.0.0.1:19092 listener=10.0.0.5:9093
    2> Produce v8 {"acks": -1}
    2< {}
    +20s
    ```
    There is no proxy; other connections are not in the capture:
    ```story
    open 1 server=10.0.0.1:9092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "b1.example.com", "port": 19092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    +20s
    ```

    ## Sources
    https://github.com/Shopify/toxiproxy/issues/171
    https://github.com/envoyproxy/envoy/issues/23185
    https://github.com/testcontainers/testcontainers-java/issues/8669
    """
    lookups = connection.run.state(BrokerLookups)
    if isinstance(event, ResponseReceived):
        if is_relayed(connection) and event.request is not None and event.message is not None:
            client_id = event.request.message.client_id
            lookup = lookups.for_client(connection, client_id)
            if lookup.route is AddressRoute.PAST and lookup.answers and not own_address(event.message, connection):
                connection.set_deadline("S002", (connection.client, client_id), by=event.at + WINDOW, about=client_id)
        return
    lookup = lookups.for_client(connection, event.about)
    if (broker := lookup.example) is None or not lookup.is_lost(event.at):
        return
    brokers = connection.run.state(Brokers)
    if any(brokers.route(*address) is not AddressRoute.PAST for address in lookup.addresses):
        return
    if not is_new_cause(connection, event.at):
        return
    yield Problem(
        f"client {event.about!r} was directed past the proxy to {broker.address} and did not return within "
        f"{WINDOW // 10**9} s; clients dial {connection.dialled}",
        hint=f"set advertised.listeners of broker {broker.node_id} to the proxy's listener, {connection.dialled} as "
        "clients reach it; one listener for each broker",
        expected=connection.dialled,
        got=broker.address,
        cause=connection.dialled,
    )
