"""BrokerLookups: clients that look up a broker, and whether they ever use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.brokers import AddressRoute, Brokers, Endpoint, endpoints
from dissectors.trackers.triggers import UNKNOWN_API, FrameFlags, Trigger

#: The number of clients, and of addresses per client, to remember.
MAX_CLIENTS = 1_000
MAX_ADDRESSES = 100

#: Answers within this time (ns) are counted together.
WINDOW = 15 * 1_000_000_000

#: A request counts as a new lookup only this long (ns) after the last answer: clients send two requests at once, and
#: need a moment to connect.
MIN_INTERVAL = 50_000_000

#: After a response that deviates from its layout, the client's behaviour is not evaluated for this long (ns).
MISREAD_FOR = 60 * 1_000_000_000

#: APIs whose responses contain broker addresses.
ADDRESS_APIS = ("Metadata", "FindCoordinator")

#: APIs that clients use on any broker before they connect to a specific one.
LOOKUP_APIS = frozenset(("ApiVersions", *ADDRESS_APIS))

#: APIs that clients still use when they cannot reach the broker they need.
UNSPECIFIC_APIS = LOOKUP_APIS | {"SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry"}

#: APIs that clients use only on a specific broker: a partition leader, a group or transaction coordinator.
BROKER_APIS = frozenset((
    "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit",
    "OffsetFetch", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "StreamsGroupHeartbeat",
))  # fmt: skip


@dataclass(slots=True)
class BrokerLookup:
    """The lookups of one client since it last used the broker that it was looking for.

    `addresses` are the addresses it got, `example` is one of these brokers, and `route` is where its address leads.
    `answers` counts the answers within `WINDOW` of `since`, and `identical` the consecutive identical answers; `last`
    is the time of the last answer. `reached` are the addresses that the client had when it last used such a broker.
    """

    addresses: frozenset[tuple[str, int]] = frozenset()
    example: Endpoint | None = None
    route: AddressRoute = AddressRoute.HERE
    answers: int = 0
    identical: int = 0
    since: int = 0
    last: int = 0
    answer_hash: int = 0
    reached: frozenset[tuple[str, int]] | None = None
    undecodable_at: int = 0

    def is_lost(self, at: int) -> bool:
        """Whether the client has not used a broker that it looked up, although it can decode the responses."""
        return self.reached != self.addresses and at - self.undecodable_at > MISREAD_FOR


@tracker(
    events=(ResponseReceived,),
    apis=tuple(LOOKUP_APIS),
    broken=True,
    also=(
        Trigger((RequestReceived,), broken=True, only=FrameFlags.SUBSCRIBED),
        Trigger((ResponseReceived,), (UNKNOWN_API,), broken=True),
    ),
    needs=(Brokers,),
)
class BrokerLookups:
    """The clients of a run, by host and client id."""

    def __init__(self) -> None:
        self._clients: BoundedDict[tuple[str, str | None], BrokerLookup] = BoundedDict(MAX_CLIENTS)
        #: Clients with a pending lookup: requests are observed only while there are any.
        self._pending: BoundedDict[tuple[str, str | None], BrokerLookup] = BoundedDict(MAX_CLIENTS)

    def for_client(self, connection: Any, client_id: str | None) -> BrokerLookup:
        """Return the lookups of a connection's client."""
        return self._clients.touch((host_of(connection.client), client_id), BrokerLookup)

    def observe(self, event: RequestReceived | ResponseReceived, connection: Any) -> None:
        """Count a client's answers until it uses a broker that it looked for."""
        message = event.message
        if isinstance(event, RequestReceived):
            self._observe_request(event.message, connection)
        elif message is not None and message.api in LOOKUP_APIS and event.request is not None:
            lookup = self.for_client(connection, event.request.message.client_id)
            if message.diagnosis is not None or not message.well_formed:
                lookup.undecodable_at = event.at
                lookup.answers = lookup.identical = 0
            elif event.request_body is not None and message.api in ADDRESS_APIS:
                self._update_addresses(lookup, message, connection)
                if _names_target(message, event.request_body):
                    self._count_response(lookup, message, event.request.at, event.at)
                self._pending[host_of(connection.client), event.request.message.client_id] = lookup
                connection.run.subscribe("BrokerLookups")

    def _observe_request(self, message: Message, connection: Any) -> None:
        key = host_of(connection.client), connection.client_id
        if message.api in UNSPECIFIC_APIS or (lookup := self._pending.get(key)) is None:
            return
        lookup.identical = 0
        if message.api in BROKER_APIS:
            lookup.answers = 0
            lookup.reached = lookup.addresses
            del self._pending[key]
            if not self._pending:
                connection.run.unsubscribe("BrokerLookups")

    def _update_addresses(self, lookup: BrokerLookup, message: Message, connection: Any) -> None:
        endpoints_found = list(endpoints(message.as_sent))
        addresses = frozenset(sorted({(endpoint.host, endpoint.port) for endpoint in endpoints_found})[:MAX_ADDRESSES])
        if (
            message.api == "FindCoordinator"
            and lookup.addresses
            and (lookup.route is AddressRoute.HERE or not addresses <= lookup.addresses)
        ):
            return  # the coordinator may be another broker
        brokers = connection.run.state(Brokers)
        routes = [brokers.route(endpoint.host, endpoint.port) for endpoint in endpoints_found]
        route = next(
            (route for route in (AddressRoute.HERE, AddressRoute.UNCLEAR, AddressRoute.PAST) if route in routes),
            AddressRoute.HERE,
        )
        lookup.route, lookup.example = route, endpoints_found[routes.index(route)] if endpoints_found else None
        if message.api == "Metadata" or not lookup.addresses:
            lookup.addresses = addresses

    def _count_response(self, lookup: BrokerLookup, message: Message, requested_at: int, at: int) -> None:
        if requested_at - lookup.last < MIN_INTERVAL:
            return
        response_hash, lookup.last = hash(message.frame[8:]), at
        if at - lookup.since > WINDOW:
            lookup.since, lookup.answers, lookup.identical = at, 0, 0
        lookup.answers += 1
        lookup.identical = lookup.identical + 1 if response_hash == lookup.answer_hash else 1
        lookup.answer_hash = response_hash


def _names_target(message: Message, request_body: dict[str, Any]) -> bool:
    """Whether an answer names the broker the client is looking for: a requested topic's leader, or a coordinator."""
    if message.api == "FindCoordinator":
        return any(True for _ in endpoints(message.as_sent))
    brokers = {broker["node_id"] for broker in message.body["brokers"] or ()}
    return bool(request_body.get("topics")) and any(
        topic["error_code"] == 0 and any(partition["leader_id"] in brokers for partition in topic["partitions"] or ())
        for topic in message.body["topics"] or ()
    )
