"""Clients that look up a broker, and whether they ever connect to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.brokers import AddressRoute, Brokers, Endpoint, endpoints
from dissectors.trackers.triggers import FrameFlags, Trigger

#: Clients that are remembered, and addresses that each was sent to.
MAX_SEEKERS = 1_000
MAX_ADDRESSES = 100

#: Answers count together while they come within this time (ns).
WINDOW = 15 * 1_000_000_000

#: A question counts as another one from this long after the last answer (ns): clients ask two things at once, and need
#: a moment to dial.
MOMENT = 50_000_000

#: After an answer that departs from its layout, what its client does says nothing of addresses for this long (ns).
MISLED = 60 * 1_000_000_000

#: Where clients learn of addresses.
QUESTIONS = ("Metadata", "FindCoordinator")

#: What clients ask any broker before they go to a certain one.
LOOKING = frozenset(("ApiVersions", *QUESTIONS))

#: What clients do by themselves while they get nowhere.
ANYWHERE = LOOKING | {"SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry"}

#: What clients ask a certain broker only: the leader of a partition, the coordinator of a group or transaction.
ERRANDS = frozenset((
    "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit",
    "OffsetFetch", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "StreamsGroupHeartbeat",
))  # fmt: skip


@dataclass(slots=True)
class BrokerLookup:
    """One client, and what became of its search since it last got anywhere.

    `told` is where it was sent, `example` one of these addresses, `way` where that leads. `answers` says how often it
    was sent there within `WINDOW` of `since`, `same` how often in a row with the very same answer, `last` when.
    `arrived_at` is where it had been sent when it was last seen at work.
    """

    told: frozenset[tuple[str, int]] = frozenset()
    example: Endpoint | None = None
    way: AddressRoute = AddressRoute.HERE
    answers: int = 0
    same: int = 0
    since: int = 0
    last: int = 0
    answer: int = 0
    arrived_at: frozenset[tuple[str, int]] | None = None
    departed_at: int = 0

    def is_lost(self, at: int) -> bool:
        """Whether it was not seen at work where it was sent to, and can read what it is told."""
        return self.arrived_at != self.told and at - self.departed_at > MISLED


@tracker(
    events=(ResponseReceived,),
    apis=tuple(LOOKING),
    broken=True,
    also=(
        Trigger((RequestReceived,), broken=True, only=FrameFlags.SUBSCRIBED),
        Trigger((ResponseReceived,), broken=True, only=FrameFlags.IRREGULAR),  # of versions that no schema has
    ),
    needs=(Brokers,),
)
class BrokerLookups:
    """The clients of a run, told apart by their host and client id."""

    def __init__(self) -> None:
        self._seekers: BoundedDict[tuple[str, str | None], BrokerLookup] = BoundedDict(MAX_SEEKERS)
        #: Those who were told something since they were last seen at work: only then requests are looked at.
        self._sent: BoundedDict[tuple[str, str | None], BrokerLookup] = BoundedDict(MAX_SEEKERS)

    def of(self, connection: Any, client_id: str | None) -> BrokerLookup:
        """The client of a connection."""
        return self._seekers.touch((host_of(connection.client), client_id), BrokerLookup)

    def observe(self, event: RequestReceived | ResponseReceived, connection: Any) -> None:
        """Count the answers that let a client go on, until it is seen to do so."""
        message = event.message
        if isinstance(event, RequestReceived):
            self._request(event.message, connection)
        elif message is not None and message.api in LOOKING and event.request is not None:
            seeker = self.of(connection, event.request.message.client_id)
            if message.diagnosis is not None or not message.reads_well:
                seeker.departed_at = event.at
                seeker.answers = seeker.same = 0
            elif event.asked is not None and message.api in QUESTIONS:
                self._answer(seeker, message, connection)
                if _lets_go_on(message, event.asked):
                    self._count(seeker, message, event.request.at, event.at)
                self._sent[host_of(connection.client), event.request.message.client_id] = seeker
                connection.run.subscribe("BrokerLookups")

    def _request(self, message: Message, connection: Any) -> None:
        key = host_of(connection.client), message.client_id
        if message.api in ANYWHERE or (seeker := self._sent.get(key)) is None:
            return
        seeker.same = 0
        if message.api in ERRANDS:
            seeker.answers = 0
            seeker.arrived_at = seeker.told
            del self._sent[key]
            if not self._sent:
                connection.run.unsubscribe("BrokerLookups")

    def _answer(self, seeker: BrokerLookup, message: Message, connection: Any) -> None:
        named = list(endpoints(message.as_sent))
        told = frozenset(sorted({(each.host, each.port) for each in named})[:MAX_ADDRESSES])
        if (
            message.api == "FindCoordinator"
            and seeker.told
            and (seeker.way is AddressRoute.HERE or not told <= seeker.told)
        ):
            return  # the coordinator may well be a broker that was not dialled yet
        brokers = connection.run.state(Brokers)
        ways = [brokers.way(each.host, each.port) for each in named]
        way = next(
            (way for way in (AddressRoute.HERE, AddressRoute.UNCLEAR, AddressRoute.PAST) if way in ways),
            AddressRoute.HERE,
        )
        seeker.way, seeker.example = way, named[ways.index(way)] if named else None
        if message.api == "Metadata" or not seeker.told:
            seeker.told = told

    def _count(self, seeker: BrokerLookup, message: Message, asked_at: int, at: int) -> None:
        if asked_at - seeker.last < MOMENT:
            return
        answer, seeker.last = hash(message.frame[8:]), at
        if at - seeker.since > WINDOW:
            seeker.since, seeker.answers, seeker.same = at, 0, 0
        seeker.answers += 1
        seeker.same = seeker.same + 1 if answer == seeker.answer else 1
        seeker.answer = answer


def _lets_go_on(message: Message, asked: dict[str, Any]) -> bool:
    """Whether an answer names the broker that its client looks for: the leader of a topic asked for, a coordinator."""
    if message.api == "FindCoordinator":
        return any(True for _ in endpoints(message.as_sent))
    brokers = {each["node_id"] for each in message.body["brokers"] or ()}
    return bool(asked.get("topics")) and any(
        topic["error_code"] == 0 and any(each["leader_id"] in brokers for each in topic["partitions"] or ())
        for topic in message.body["topics"] or ()
    )
