"""ConnectionsByClient: the open connections of each client."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import ConnectionEnded, ConnectionOpened
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState


@tracker(events=(ConnectionOpened, ConnectionEnded))
class ConnectionsByClient:
    """The open connections of a run, by the host of the client."""

    def __init__(self) -> None:
        self._hosts: dict[str, dict[int, ConnectionState]] = {}

    def observe(self, event: ConnectionOpened | ConnectionEnded, connection: ConnectionState) -> None:
        """Add or remove a connection."""
        host = host_of(connection.client)
        if isinstance(event, ConnectionOpened):
            self._hosts.setdefault(host, {})[id(connection)] = connection
        elif (connections := self._hosts.get(host)) is not None:
            connections.pop(id(connection), None)
            if not connections:
                del self._hosts[host]

    def others(self, connection: ConnectionState) -> Iterator[ConnectionState]:
        """Yield the other connections from the same host with the same client id."""
        for other in self._hosts.get(host_of(connection.client), {}).values():
            if other is not connection and other.client_id == connection.client_id:
                yield other
