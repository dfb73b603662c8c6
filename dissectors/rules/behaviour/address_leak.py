"""S003: a response gives a different address for a broker than Metadata does."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonicalize_host
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.brokers import Endpoint, endpoints
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

#: Limit on remembered brokers, counted per dialled address.
MAX_BROKERS = 10_000


class _Addresses:
    """Broker addresses from Metadata, and differing addresses from other responses."""

    def __init__(self) -> None:
        #: (address dialled, node) -> (host, port, time) of the last Metadata response.
        self.metadata: BoundedDict[tuple[str, int], tuple[str, int, int]] = BoundedDict(MAX_BROKERS)
        #: (address dialled, node, host, port) -> when the difference was first observed.
        self.first_differences: BoundedDict[tuple[str, int, str, int], int] = BoundedDict(MAX_BROKERS)


@rule(
    "S003",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Metadata", "FindCoordinator", "DescribeCluster", "ShareFetch", "ShareAcknowledge"),
    also=(Trigger((ResponseReceived,), ("Produce", "Fetch"), only=FrameFlags.TAGGED),),  # few of them have endpoints
    since="0.1",
    blame="proxy",
)
def address_leak(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that every response gives the same broker address as the Metadata responses before and after it.

    ## Why it matters
    Seven kinds of responses carry addresses: Metadata, FindCoordinator, DescribeCluster, and the `node_endpoints` of
    Produce, Fetch, ShareFetch and ShareAcknowledge. A client uses the latest one. An address that the proxy did not
    rewrite leads the client past the proxy, or to an unreachable host.

    ## Usual cause
    A proxy that rewrites Metadata but misses another response, usually FindCoordinator or `node_endpoints` (Produce
    v10, Fetch v16 and later).

    ## Example
    ```story
    > Metadata v9 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "proxy.example.com", "port": 9092}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1.internal", "port": 9092}
    > Metadata v9 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "proxy.example.com", "port": 9092}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1.internal", "port": 9092}
    ```

    ## Look-alikes
    The broker has moved, and Metadata also has the new address:
    ```story
    > Metadata v9 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.1.0.1", "port": 9092}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 1, "host": "10.1.0.2", "port": 9092}
    > Metadata v9 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.1.0.2", "port": 9092}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 1, "host": "10.1.0.2", "port": 9092}
    ```

    ## Sources
    https://github.com/kroxylicious/kroxylicious (BrokerAddressFilter)
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-951%3A+Leader+discovery+optimisations+for+the+client
    """
    message = event.message
    if message is None or event.request is None:
        return
    if message.diagnosis is not None:
        return
    addresses, dialled = connection.run.state(_Addresses), connection.dialled
    for endpoint in endpoints(message):
        if message.api == "Metadata":
            addresses.metadata[dialled, endpoint.node_id] = (endpoint.host, endpoint.port, event.at)
        elif (advertised := addresses.metadata.get((dialled, endpoint.node_id))) is not None and not _is_same_address(
            endpoint, advertised
        ):
            first_seen_at = addresses.first_differences.setdefault(
                (dialled, endpoint.node_id, endpoint.host, endpoint.port), event.at
            )
            if first_seen_at < advertised[2]:  # and Metadata has given the old address since
                yield Problem(
                    f"broker {endpoint.node_id} has the address {endpoint.address} in {message.api}, "
                    f"but {advertised[0]}:{advertised[1]} in Metadata before and after",
                    **locate(
                        message,
                        *endpoint.path,
                        "host" if canonicalize_host(endpoint.host) != canonicalize_host(advertised[0]) else "port",
                    ),
                    hint=f"make the proxy rewrite addresses in {message.api} too, or in no response at all",
                    expected=f"{advertised[0]}:{advertised[1]}",
                    got=endpoint.address,
                    cause=f"{endpoint.node_id}",
                )


def _is_same_address(endpoint: Endpoint, advertised: tuple[str, int, int]) -> bool:
    return (canonicalize_host(endpoint.host), endpoint.port) == (canonicalize_host(advertised[0]), advertised[1])
