"""AdvertisedAddresses: the brokers' addresses that each client was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonicalize_host, host_of, is_address, split
from dissectors.connections.events import ConnectFailed, ConnectFailure, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.brokers import AddressRoute, Brokers, Endpoint, endpoints

#: The number of client hosts, and of addresses per host, to remember.
MAX_CLIENTS = 1_000
MAX_ADDRESSES = 1_000

#: How many refused attempts make an address unreachable: a name may have several addresses, one of which may work.
MIN_REFUSED = 2


@dataclass(slots=True)
class AdvertisedAddress:
    """An address given to a client, and the state of the connection on which it was last given.

    `failure` is the latest failed attempt to connect to it; `failures` counts the failed attempts.
    """

    broker: Endpoint
    connection: Any
    failure: ConnectFailed | None = None
    failures: int = 0

    @property
    def is_unreachable(self) -> bool:
        """Whether the client cannot connect to it."""
        if self.failure is None:
            return False
        return self.failure.reason is not ConnectFailure.REFUSED or self.failures >= MIN_REFUSED


@tracker(
    events=(ResponseReceived, ConnectFailed), apis=("Metadata", "FindCoordinator", "DescribeCluster"), needs=(Brokers,)
)
class AdvertisedAddresses:
    """The addresses in responses, by the host of the client that received them, and failed attempts to reach them."""

    def __init__(self) -> None:
        self._clients: BoundedDict[str, BoundedDict[tuple[str, int], AdvertisedAddress]] = BoundedDict(MAX_CLIENTS)
        self._has_failures = False

    def observe(self, event: ResponseReceived | ConnectFailed, connection: Any) -> None:
        """Remember the addresses of a response, or a failed attempt."""
        if isinstance(event, ConnectFailed):
            if (address := self.find(event, connection.run.state(Brokers))) is not None:
                address.failure = event
                address.failures += event.attempts
                self._has_failures = True
        elif event.message is not None and event.message.diagnosis is None:
            addresses = self._clients.touch(host_of(connection.client), lambda: BoundedDict(MAX_ADDRESSES))
            for broker in endpoints(event.message.as_sent):
                key = canonicalize_host(broker.host), broker.port
                if (advertised := addresses.get(key)) is None:
                    addresses[key] = AdvertisedAddress(broker, connection)
                else:
                    advertised.connection = connection

    def find(self, event: ConnectFailed, brokers: Brokers) -> AdvertisedAddress | None:
        """Return the advertised address that a client failed to connect to; None if it was not advertised to it.

        An advertised host name matches any address with its port to which no client has ever connected, because it is
        not known to which address the name resolves.
        """
        addresses = self._clients.get(host_of(event.client))
        if addresses is None:
            return None
        if event.reason is ConnectFailure.NAME_NOT_FOUND:
            name = canonicalize_host(event.server)
            return next((address for (host, _), address in addresses.items() if host == name), None)
        server = split(event.server)
        if server is None or brokers.route(*server) is AddressRoute.HERE:
            return None
        matches = (address for (host, port), address in addresses.items() if port == server[1] and not is_address(host))
        return addresses.get(server) or next(matches, None)

    def unreachable(self, connection: Any) -> list[AdvertisedAddress]:
        """Return the addresses that a client was last given on this connection and cannot connect to."""
        if not self._has_failures:
            return []
        brokers = connection.run.state(Brokers)
        return [
            address
            for key, address in self._clients.get(host_of(connection.client), {}).items()
            if address.is_unreachable
            and address.connection is connection
            and brokers.route(*key) is not AddressRoute.HERE
        ]
