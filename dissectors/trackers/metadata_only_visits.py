"""MetadataOnlyVisits: consecutive connections on which a client used only discovery APIs."""

from __future__ import annotations

from collections import deque

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded
from dissectors.trackers import tracker
from dissectors.trackers.answered_apis import DISCOVERY_APIS, AnsweredApis
from dissectors.trackers.broker_lookups import BrokerLookups
from dissectors.trackers.brokers import AddressRoute
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.version_refusals import VersionRefusals
from dissectors.trackers.versions import client_key

MAX_CLIENTS = 10_000

#: The number of such connections to remember for a client at a server.
MAX_VISITS = 100


@tracker(
    events=(ConnectionEnded,),
    needs=(InFlight, BrokerLookups, AnsweredApis, VersionRefusals),
)
class MetadataOnlyVisits:
    """The latest connections on which a client used only discovery APIs, by client and server.

    `row` has the end times (ns) of the latest such connections of the client whose connection has just ended. It is
    empty if that connection did more, or if another rule explains its end, e.g. because the server closed it after a
    request.
    """

    def __init__(self) -> None:
        self.row: deque[int] = deque()
        self._rows: BoundedDict[tuple[str, str | None, str], deque[int]] = BoundedDict(MAX_CLIENTS)

    def observe(self, event: ConnectionEnded, connection: ConnectionState) -> None:
        """Add the end of a connection to its row, or reset the row."""
        self.row = deque()
        in_flight = connection.state(InFlight)
        if event.by not in ("client", "server") or not in_flight.served or in_flight.explains_problems(event.at):
            return
        if event.by == "server" and in_flight.waiting:
            return  # it closed because of a request
        if connection.state(VersionRefusals).ignored_refusal(connection):
            return
        lookup = connection.run.state(BrokerLookups).for_client(connection, connection.client_id)
        if lookup.route is not AddressRoute.HERE and lookup.is_lost(event.at):
            return  # it was sent to an address that it cannot reach
        client = client_key(connection)
        key = *client, connection.server
        if any(api not in DISCOVERY_APIS for api, _ in in_flight.served):
            self._rows.pop(key, None)
            return
        row = self._rows.touch(key, lambda: deque(maxlen=MAX_VISITS))
        if row and connection.run.state(AnsweredApis).last_work_at(client) > row[0]:
            row.clear()
        row.append(event.at)
        self.row = row
