"""Brokers: the addresses in responses, and whether clients connect to them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonicalize_host, is_address, is_specific_ip, split
from dissectors.connections.events import ConnectionOpened
from dissectors.messages.message import Message
from dissectors.trackers import tracker

#: The number of dialled addresses to remember.
MAX_DIALLED = 10_000

CLIENT_ENDPOINTS = 1

#: The longest host name (RFC 1035).
MAX_HOST_LENGTH = 255


class Endpoint(NamedTuple):
    """A broker's address in a response; `path` is the path of the struct that holds its host and port."""

    node_id: int
    host: str
    port: int
    path: tuple[str | int, ...]

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"


class AddressRoute(Enum):
    """Where an advertised address leads, as far as comparing text can tell."""

    #: An address that clients connect to.
    HERE = "here"
    #: A port that clients connect to, at a host that cannot be compared: a name, or loopback against another address.
    UNCLEAR = "unclear"
    #: An address that no client was observed to connect to.
    PAST = "past"


@tracker(events=(ConnectionOpened,))
class Brokers:
    """The addresses that the clients of this run connected to: listeners of a relay, or servers."""

    def __init__(self) -> None:
        self._dialled: BoundedDict[tuple[str, int], None] = BoundedDict(MAX_DIALLED)
        #: Port -> whether a client connected to it at a host that is not an IP address.
        self._ports: BoundedDict[int, bool] = BoundedDict(MAX_DIALLED)

    def observe(self, _: ConnectionOpened, connection: Any) -> None:
        """Remember the address that a client connected to."""
        if (address := split(connection.dialled)) is not None:
            host, port = address
            self._dialled[address] = None
            self._ports[port] = self._ports.get(port, False) or not is_specific_ip(host)

    def route(self, host: str, port: int) -> AddressRoute:
        """Return the route of an advertised address."""
        canonical_host = canonicalize_host(host)
        if (canonical_host, port) in self._dialled:
            return AddressRoute.HERE
        if port in self._ports and (self._ports[port] or not is_specific_ip(canonical_host)):
            return AddressRoute.UNCLEAR
        return AddressRoute.PAST


def is_relayed(connection: Any) -> bool:
    """Whether the connection goes through a relay, so that the dialled address is not the server's."""
    return bool(connection.dialled != connection.server)


def own_address(message: Message, connection: Any) -> Endpoint | None:
    """Return the endpoint of the server behind a relay in a response; None if any endpoint is a dialled address."""
    if not is_relayed(connection):
        return None
    server, brokers = split(connection.server), connection.run.state(Brokers)
    own_endpoint = None
    for endpoint in endpoints(message.as_sent):
        route = brokers.route(endpoint.host, endpoint.port)
        if route is AddressRoute.HERE:
            return None
        # A name may resolve to the relay, if the relay uses the same port.
        if (canonicalize_host(endpoint.host), endpoint.port) == server and (
            route is AddressRoute.PAST or is_address(endpoint.host)
        ):
            own_endpoint = own_endpoint or endpoint
    return own_endpoint


def endpoints(message: Message) -> Iterator[Endpoint]:
    """Yield the brokers' addresses in a response of any API that contains them.

    These are Metadata, FindCoordinator and DescribeCluster, and Produce, Fetch, ShareFetch and ShareAcknowledge with
    their `node_endpoints`. Error responses contain none; addresses of controllers are left out.
    """
    body = message.body
    if message.api == "FindCoordinator":
        for path, broker in _coordinators(body):
            if broker["error_code"] == 0 and len(broker["host"]) <= MAX_HOST_LENGTH:
                yield Endpoint(broker["node_id"], broker["host"], broker["port"], path)
        return
    if body.get("endpoint_type", CLIENT_ENDPOINTS) != CLIENT_ENDPOINTS:
        return
    field = "brokers" if message.api in ("Metadata", "DescribeCluster") else "node_endpoints"
    for index, broker in enumerate(body.get(field) or ()):
        if len(broker["host"]) > MAX_HOST_LENGTH:
            continue
        node_id = broker["broker_id"] if "broker_id" in broker else broker["node_id"]
        yield Endpoint(node_id, broker["host"], broker["port"], (field, index))


def _coordinators(body: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    if "coordinators" in body:  # version 4 and later
        for index, coordinator in enumerate(body["coordinators"] or ()):
            yield ("coordinators", index), coordinator
    else:
        yield (), body
