"""Brokers: the addresses that responses name, and whether they are those that clients dial."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonical, is_address, is_fixed, split
from dissectors.connections.events import ConnectionOpened
from dissectors.messages.message import Message
from dissectors.trackers import tracker

#: Dialled addresses that are remembered.
MAX_DIALLED = 10_000

CLIENT_ENDPOINTS = 1

#: What is longer is no host's name (RFC 1035).
LONGEST_HOST = 255


class Endpoint(NamedTuple):
    """A broker's address in a response; `path` is the struct that holds its host and port."""

    node_id: int
    host: str
    port: int
    path: tuple[str | int, ...]

    @property
    def address(self) -> str:
        """As ``host:port``."""
        return f"{self.host}:{self.port}"


class AddressRoute(Enum):
    """Where an advertised address leads, as far as text can tell."""

    #: To an address that clients dial.
    HERE = "here"
    #: To a port that clients dial, at a host that cannot be compared: a name, or loopback beside another address.
    UNCLEAR = "unclear"
    #: To an address that nobody was seen to dial.
    PAST = "past"


@tracker(events=(ConnectionOpened,))
class Brokers:
    """The addresses that clients of this run dialled: listeners of a relay, else servers."""

    def __init__(self) -> None:
        self._dialled: BoundedDict[tuple[str, int], None] = BoundedDict(MAX_DIALLED)
        #: Port -> whether somebody dialled it at a host that is not a plain IP address.
        self._ports: BoundedDict[int, bool] = BoundedDict(MAX_DIALLED)

    def observe(self, _: ConnectionOpened, connection: Any) -> None:
        """Take note of the address that a connection dialled."""
        if (address := split(connection.dialled)) is not None:
            host, port = address
            self._dialled[address] = None
            self._ports[port] = self._ports.get(port, False) or not is_fixed(host)

    def way(self, host: str, port: int) -> AddressRoute:
        """Where a client gets that follows an advertised address."""
        known = canonical(host)
        if (known, port) in self._dialled:
            return AddressRoute.HERE
        if port in self._ports and (self._ports[port] or not is_fixed(known)):
            return AddressRoute.UNCLEAR
        return AddressRoute.PAST


def relayed(connection: Any) -> bool:
    """Whether a relay took the connection, so that the address dialled is not the server's."""
    return bool(connection.dialled != connection.server)


def own_address(message: Message, connection: Any) -> Endpoint | None:
    """The endpoint in a response that is the server behind a relay, if none leads to where clients dial."""
    if not relayed(connection):
        return None
    server, brokers = split(connection.server), connection.run.state(Brokers)
    own = None
    for each in endpoints(message.as_sent):
        way = brokers.way(each.host, each.port)
        if way is AddressRoute.HERE:
            return None
        # A name may be made to lead to the relay, if that has the same port.
        if (canonical(each.host), each.port) == server and (way is AddressRoute.PAST or is_address(each.host)):
            own = own or each
    return own


def endpoints(message: Message) -> Iterator[Endpoint]:
    """The brokers' addresses in a response of any API that carries them.

    Those are Metadata, FindCoordinator and DescribeCluster, and Produce, Fetch, ShareFetch and ShareAcknowledge with
    their `node_endpoints`. Answers that are errors have none, and controllers are left out.
    """
    body = message.body
    if message.api == "FindCoordinator":
        for path, each in _coordinators(body):
            if each["error_code"] == 0 and len(each["host"]) <= LONGEST_HOST:
                yield Endpoint(each["node_id"], each["host"], each["port"], path)
        return
    if body.get("endpoint_type", CLIENT_ENDPOINTS) != CLIENT_ENDPOINTS:
        return
    field = "brokers" if message.api in ("Metadata", "DescribeCluster") else "node_endpoints"
    for index, each in enumerate(body.get(field) or ()):
        if len(each["host"]) > LONGEST_HOST:
            continue
        node_id = each["broker_id"] if "broker_id" in each else each["node_id"]
        yield Endpoint(node_id, each["host"], each["port"], (field, index))


def _coordinators(body: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    if "coordinators" in body:  # version 4 and later
        for index, each in enumerate(body["coordinators"] or ()):
            yield ("coordinators", index), each
    else:
        yield (), body
