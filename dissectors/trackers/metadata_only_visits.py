"""Connections on which a client did no more than get its bearings, one after the other."""

from __future__ import annotations

from collections import deque

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded
from dissectors.trackers import tracker
from dissectors.trackers.answered_apis import BEARINGS, AnsweredApis
from dissectors.trackers.broker_lookups import BrokerLookups
from dissectors.trackers.brokers import AddressRoute
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_of

MAX_CLIENTS = 10_000

#: Ends of such connections that are remembered of a client at a server.
REMEMBERED = 10


@tracker(
    events=(ConnectionEnded,),
    needs=(InFlight, BrokerLookups, AnsweredApis),
)
class MetadataOnlyVisits:
    """`row` is when the latest such connections of the client ended whose connection has just ended.

    It is empty if this one did more, or if it ended because of something that another rule tells.
    """

    def __init__(self) -> None:
        self.row: deque[int] = deque()
        self._rows: BoundedDict[tuple[str, str | None, str], deque[int]] = BoundedDict(MAX_CLIENTS)

    def observe(self, event: ConnectionEnded, connection: ConnectionState) -> None:
        """Take an end into its row, or end the row."""
        self.row = deque()
        flight = connection.state(InFlight)
        if event.by not in ("client", "server") or not flight.served or flight.explains(event.at):
            return
        seeker = connection.run.state(BrokerLookups).of(connection, connection.client_id)
        if seeker.way is not AddressRoute.HERE and seeker.is_lost(event.at):
            return  # it is sent where nobody goes
        client = client_of(connection)
        key = *client, connection.server
        if any(api not in BEARINGS for api, _ in flight.served):
            self._rows.pop(key, None)
            return
        row = self._rows.touch(key, lambda: deque(maxlen=REMEMBERED))
        if row and connection.run.state(AnsweredApis).at_work(client) > row[0]:
            row.clear()
        row.append(event.at)
        self.row = row
