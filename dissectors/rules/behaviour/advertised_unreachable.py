"""S001: brokers advertise an address that clients cannot reach."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import LOOPBACK, canonicalize_host, host_of, is_specific_ip, split
from dissectors.connections.events import (
    ConnectFailed,
    ConnectFailure,
    ConnectionEnded,
    DeadlinePassed,
    ResponseReceived,
)
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.trackers.advertised_addresses import AdvertisedAddress, AdvertisedAddresses
from dissectors.trackers.broker_lookups import BrokerLookup, BrokerLookups
from dissectors.trackers.brokers import AddressRoute, Brokers, Endpoint, endpoints, own_address
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

CODE = "S001"

#: How many consecutive responses the client must ignore within seconds: if the advertised address clearly differs from
#: the dialled one, and if the two cannot be compared.
BYPASS_THRESHOLD = 3
UNCLEAR_THRESHOLD = 5
#: How long a client that cannot connect may take to look up the addresses again (ns).
LOOKUP_AGAIN = 5_000_000_000


@rule(
    CODE,
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Metadata", "FindCoordinator", "DescribeCluster", "ShareFetch", "ShareAcknowledge"),
    also=(
        Trigger((ResponseReceived,), ("Produce", "Fetch"), only=FrameFlags.TAGGED),  # almost none have endpoints
        Trigger((ConnectFailed, DeadlinePassed, ConnectionEnded)),
    ),
    needs=(Brokers, BrokerLookups, AdvertisedAddresses),
    since="0.1",
    blame="network",
)
def advertised_unreachable(
    event: ResponseReceived | ConnectFailed | DeadlinePassed | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that clients can reach the addresses that brokers advertise.

    In a capture, connection attempts that are refused, go unanswered, or fail because the name is unknown are reported
    with their reason. A refused attempt counts only once it is repeated, because a name may have a second address.

    ## Why it matters
    A client uses its bootstrap address only to look up the cluster's addresses, and sends everything else to those. If
    it cannot reach them, it retries or times out, rarely with a clear error. If they lead past a proxy, the proxy sees
    nothing but the first request.

    ## Usual cause
    `advertised.listeners` names `localhost`, a container's name, or a port other than the mapped or forwarded one. Or a
    proxy or tunnel in front of the broker is not advertised.

    ## Example
    The client dials port 29092, gets port 9092, and repeats the lookup on port 29092:
    ```story
    open 1 client=10.0.0.9:50001 server=10.0.0.1:29092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "localhost", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    +100ms
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "localhost", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    +100ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "localhost", "port": 9092}
    ```
    The client tries the advertised address, and nothing listens there:
    ```story
    open 1 client=10.0.0.9:50001 server=10.0.0.1:29092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    unreachable client=10.0.0.9:50002 server=10.0.0.1:9092 reason=REFUSED
    +100ms
    unreachable client=10.0.0.9:50003 server=10.0.0.1:9092 reason=REFUSED
    +6s
    ```
    It cannot resolve the advertised name:
    ```story
    open 1 client=10.0.0.9:50001 server=10.0.0.1:29092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "kafka-1", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    unreachable client=10.0.0.9:53101 server=kafka-1 reason=NAME_NOT_FOUND
    +6s
    ```
    The broker behind the proxy advertises its own address:
    ```story
    open 1 server=localhost:19092 listener=127.0.0.1:9092
    > Metadata v1 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 19092}]}
    ```

    ## Look-alikes
    Another broker's address is advertised, and the client goes there:
    ```story
    open 1 client=10.0.0.9:50001 server=10.0.0.1:9092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"host": "10.0.0.11", "port": 9092}, {"node_id": 2, "host": "10.0.0.12", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 2}]}]}
    open 2 client=10.0.0.9:50002 server=10.0.0.12:9092
    2> Metadata v8 {"topics": [{"name": "orders"}]}
    2< {"brokers": [{"host": "10.0.0.11", "port": 9092}, {"node_id": 2, "host": "10.0.0.12", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 2}]}]}
    2> Produce v8 {"acks": -1}
    2< {}
    ```
    A broker to which clients were connected is restarted:
    ```story
    open 1 client=10.0.0.9:50001 server=10.0.0.1:9092
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    close by=server how=fin
    unreachable client=10.0.0.9:50002 server=10.0.0.1:9092 reason=REFUSED
    unreachable client=10.0.0.9:50003 server=10.0.0.1:9092 reason=REFUSED
    +6s
    ```
    The proxy's own address is advertised:
    ```story
    open 1 server=10.0.0.1:9092 listener=127.0.0.1:9092
    > Metadata v1 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "localhost", "port": 9092}]}
    ```

    ## Sources
    https://github.com/provectus/kafka-ui/issues/2021
    https://github.com/confluentinc/cp-docker-images/issues/796
    https://github.com/wurstmeister/kafka-docker/issues/417
    https://github.com/tulios/kafkajs/issues/769
    https://kafka.apache.org/documentation/#brokerconfigs_advertised.listeners
    """
    unreachable = connection.run.state(AdvertisedAddresses).unreachable(connection)
    if not isinstance(event, ResponseReceived):
        yield from _unreachable_problem(event, unreachable, connection)
        return
    if (message := event.message) is None or message.diagnosis is not None or event.request is None:
        return
    if (bypass := own_address(message, connection)) is not None:
        yield from _problem_if_new(message, bypass, connection, event.at, _bypass_text(bypass, connection))
        return
    unreachable_by_address = {(failure.broker.host, failure.broker.port): failure for failure in unreachable}
    for endpoint in endpoints(message) if unreachable_by_address else ():
        if (advertised := unreachable_by_address.get(endpoint[1:3])) is not None:
            yield from _problem_if_new(message, endpoint, connection, event.at, _failure_text(advertised))
            return
    client_id = event.request.message.client_id
    lookup = connection.run.state(BrokerLookups).for_client(connection, client_id)
    if not cannot_reach_brokers(lookup, event.at):
        return
    broker = next(
        (endpoint for endpoint in endpoints(message) if lookup.example and endpoint[1:3] == lookup.example[1:3]), None
    )
    if broker is None:
        return
    text = (
        f"broker {broker.node_id} is advertised as {broker.address}, but client {client_id!r} dialled "
        f"{connection.dialled}, was directed there {lookup.answers} times within "
        f"{(event.at - lookup.since) / 1e9:.1f} s, but never connected to it"
    )
    yield from _problem_if_new(message, broker, connection, event.at, text)


def _unreachable_problem(
    event: ConnectFailed | DeadlinePassed | ConnectionEnded,
    unreachable: list[AdvertisedAddress],
    connection: ConnectionState,
) -> Iterator[Problem]:
    """Report a client that cannot connect and does not look up brokers again, so that no frame shows the address."""
    if not unreachable:
        return
    if isinstance(event, ConnectFailed) and not connection.ended:
        connection.set_deadline(CODE, (connection.connection_id,), by=event.at + LOOKUP_AGAIN)
    elif is_new_cause(connection, event.at):
        broker = unreachable[0].broker
        yield Problem(
            _failure_text(unreachable[0]),
            hint=_hint(connection),
            expected=connection.dialled,
            got=broker.address,
            cause=connection.dialled,
        )


def _failure_text(advertised: AdvertisedAddress) -> str:
    broker, connection, failure = advertised.broker, advertised.connection, advertised.failure
    assert failure is not None
    server_note = "" if failure.server in (broker.host, broker.address) else f" ({failure.server})"
    return (
        f"broker {broker.node_id} is advertised as {broker.address}, but client {host_of(failure.client)}, which "
        f"dialled {connection.dialled}, cannot connect to it: {_OUTCOMES[failure.reason]}{server_note}"
    )


_OUTCOMES = {
    ConnectFailure.REFUSED: "the connection is refused, so nothing listens there",
    ConnectFailure.NO_ANSWER: "there is no answer, so no machine has that address or a firewall drops the packets",
    ConnectFailure.NAME_NOT_FOUND: "its name server does not know that name",
}


def cannot_reach_brokers(lookup: BrokerLookup, at: int) -> bool:
    """Whether a client keeps looking up brokers because it cannot connect to the advertised addresses."""
    if lookup.example is None or lookup.route is AddressRoute.HERE or not lookup.is_lost(at):
        return False
    if lookup.route is AddressRoute.PAST:
        return lookup.answers >= BYPASS_THRESHOLD
    return lookup.answers >= UNCLEAR_THRESHOLD and _is_local_name(lookup.example.host)


def _bypass_text(broker: Endpoint, connection: ConnectionState) -> str:
    return (
        f"broker {broker.node_id} is advertised as {broker.address}, which leads past the proxy: clients dialled "
        f"{connection.dialled} but send all later requests to that address, unseen by the proxy"
    )


def _is_local_name(host: str) -> bool:
    """Whether a host name resolves only on its own machine or network: loopback, or a name without a dot."""
    name = canonicalize_host(host)
    return name == LOOPBACK or ("." not in name and not is_specific_ip(name))


def is_new_cause(connection: ConnectionState, at: int) -> bool:
    """Whether neither S001 nor S002 has reported yet that clients dialling this address are sent elsewhere."""
    return connection.run.is_new_cause((CODE, connection.dialled), at)


def _problem_if_new(
    message: Message, broker: Endpoint, connection: ConnectionState, at: int, text: str
) -> Iterator[Problem]:
    if not is_new_cause(connection, at):
        connection.repeated[CODE, "advertised-unreachable"] += 1
        return
    dialled = split(connection.dialled)
    same_host = dialled is not None and canonicalize_host(broker.host) == dialled[0]
    yield Problem(
        text,
        **locate(message, *broker.path, "port" if same_host else "host"),
        hint=_hint(connection),
        expected=connection.dialled,
        got=broker.address,
        cause=connection.dialled,
    )


def _hint(connection: ConnectionState) -> str:
    return (
        f"set the broker's advertised.listeners to an address that this client can reach, here {connection.dialled}, "
        f"or a name for it; behind a proxy, use the proxy's listener"
    )
