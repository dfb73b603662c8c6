"""Connections on which a client did no more than get its bearings, one after the other."""

from __future__ import annotations

from collections import deque

from dissectors.conversation import Conversation
from dissectors.events import ConnectionEnded
from dissectors.ledgers import Bounded, ledger
from dissectors.ledgers.brokers import Way
from dissectors.ledgers.in_flight import InFlight
from dissectors.ledgers.seekers import Seekers
from dissectors.ledgers.served import BEARINGS, Served
from dissectors.ledgers.versions import client_of

MAX_CLIENTS = 10_000

#: Ends of such connections that are remembered of a client at a server.
REMEMBERED = 10


@ledger(events=(ConnectionEnded,))
class Visits:
    """`row` is when the latest such connections of the client ended whose connection has just ended.

    It is empty if this one did more, or if it ended because of something that another rule tells.
    """

    def __init__(self) -> None:
        self.row: deque[int] = deque()
        self._rows: Bounded[tuple[str, str | None, str], deque[int]] = Bounded(MAX_CLIENTS)

    def hear(self, event: ConnectionEnded, conversation: Conversation) -> None:
        """Take an end into its row, or end the row."""
        self.row = deque()
        flight = conversation.recall(InFlight)
        if event.by not in ("client", "server") or not flight.served or flight.explains(event.at):
            return
        seeker = conversation.cluster.recall(Seekers).of(conversation, conversation.client_id)
        if seeker.way is not Way.HERE and seeker.is_lost(event.at):
            return  # it is sent where nobody goes: S001
        client = client_of(conversation)
        key = *client, conversation.server
        if any(api not in BEARINGS for api, _ in flight.served):
            self._rows.pop(key, None)
            return
        row = self._rows.touch(key, lambda: deque(maxlen=REMEMBERED))
        if row and conversation.cluster.recall(Served).at_work(client) > row[0]:
            row.clear()
        row.append(event.at)
        self.row = row
