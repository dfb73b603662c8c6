"""Leaders: partitions whose supposed leader says that it is none, and what their clients were told after that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonical, host_of, is_fixed, split
from dissectors.connections.events import ResponseReceived
from dissectors.messages.message import Message
from dissectors.schemas.codes import Error
from dissectors.trackers import tracker
from dissectors.trackers.partitions import Place, refusals
from dissectors.trackers.triggers import FrameFlags, Trigger

NOT_LEADER = Error.NOT_LEADER_OR_FOLLOWER

MAX_CLIENTS = 1_000
MAX_DENIALS = 1_000

#: Denials belong together while they come within this time of each other (ns).
LULL = 30 * 1_000_000_000

#: API -> what it calls a topic's partitions and their number.
ROWS = {"Produce": ("partition_responses", "index"), "Fetch": ("partitions", "partition_index")}

_Client = tuple[str, str | None]


@dataclass(slots=True)
class Denial:
    """A server that says NOT_LEADER_OR_FOLLOWER of a partition to one client.

    `in_a_row` counts since `row_since` without Metadata between them; `rounds` counts those since `since` before which
    Metadata had named that server again. `named` is whether it did since the last one.
    """

    server: str
    since: int
    last: int
    row_since: int
    in_a_row: int = 1
    rounds: int = 1
    named: bool = False


@tracker(
    events=(ResponseReceived,),
    apis=("Metadata",),
    also=(Trigger((ResponseReceived,), tuple(ROWS), only=FrameFlags.REFUSED),),
)
class LeaderDenials:
    """The denials of a run, by client and partition."""

    def __init__(self) -> None:
        self._clients: BoundedDict[_Client, BoundedDict[Place, Denial]] = BoundedDict(MAX_CLIENTS)

    def of(self, event: ResponseReceived, connection: Any) -> BoundedDict[Place, Denial] | None:
        """The denials that the client of an exchange has met."""
        if not self._clients or event.request is None:
            return None
        return self._clients.get(_client(event, connection))

    def observe(self, event: ResponseReceived, connection: Any) -> None:
        """Take in denials, and what Metadata says after them."""
        message = event.message
        if message is None or event.request is None:
            return
        if message.api == "Metadata":
            denials = self.of(event, connection)
            if denials and message.diagnosis is None:
                _hear_metadata(denials, message)
            return
        for refused in refusals(message.body, *ROWS[message.api]):
            if refused.code == NOT_LEADER:
                denials = self._clients.touch(_client(event, connection), lambda: BoundedDict(MAX_DENIALS))
                _deny(denials, refused.place, event, connection.dialled)


def _client(event: ResponseReceived, connection: Any) -> _Client:
    assert event.request is not None
    return host_of(connection.client), event.request.message.client_id


def _deny(denials: BoundedDict[Place, Denial], place: Place, event: ResponseReceived, server: str) -> None:
    assert event.request is not None
    at = event.at
    known = denials.get(place)
    if known is None or known.server != server or at - known.last > LULL:
        denials[place] = Denial(server, at, at, at)
    elif event.request.at < known.last:
        return  # it was under way when the client was told
    elif known.named:
        known.rounds += 1
        known.in_a_row, known.row_since, known.last, known.named = 1, at, at, False
    else:
        known.in_a_row += 1
        known.last = at


def _hear_metadata(denials: BoundedDict[Place, Denial], message: Message) -> None:
    brokers = {each["node_id"]: (canonical(each["host"]), each["port"]) for each in message.body["brokers"] or ()}
    for topic in message.body["topics"] or ():
        for each in topic["partitions"] or ():
            for name in (topic.get("name"), topic.get("topic_id")):
                place = (name or "", each["partition_index"])
                if (denial := denials.get(place)) is None:
                    continue
                leader = brokers.get(each["leader_id"])
                if leader is not None and _is_at(leader, denial.server):
                    denial.named = True
                else:
                    del denials[place]


def _is_at(leader: tuple[str, int], server: str) -> bool:
    """Whether an address is the dialled one; a name may be any host."""
    dialled = split(server)
    return dialled is not None and leader[1] == dialled[1] and (leader == dialled or not is_fixed(leader[0]))
