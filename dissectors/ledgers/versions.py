"""Versions: what a connection has negotiated, and what its server has shown to serve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dissectors import addresses
from dissectors.conversation import Conversation
from dissectors.events import BytesSkipped, ConnectionEnded, FramingLost, RequestReceived, ResponseReceived
from dissectors.ledgers import Bounded, ledger
from dissectors.triggers import Only, Trigger

METADATA = 3
SASL_HANDSHAKE = 17
API_VERSIONS = 18
SASL_AUTHENTICATE = 36

#: APIs that come before a client is let in.
PRELUDE = frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})

MOST_SERVERS = 1_000
MOST_APIS = 1_000
MOST_CLIENTS = 10_000

#: Names come off the wire: of longer ones the beginning must do.
LONGEST_NAME = 100

#: A server that refuses a request closes at once; later there may be other reasons (ns).
AT_ONCE = 1_000_000_000

Ranges = dict[int, tuple[int, int]]


@dataclass(slots=True)
class Server:
    """What all connections to an address have learned.

    `ranges` is what it advertised last, `settled` whether it never said otherwise before. `answered` are the API keys
    and versions it answered, `answered_at` when it last did so for the first time on a connection; `lets_in` whether it
    answers more than the prelude without SASL.
    """

    ranges: Ranges | None = None
    settled: bool = True
    answered: set[tuple[int, int]] = field(default_factory=set)
    answered_at: int = 0
    lets_in: bool = False
    cluster_id: str | None = None


class Servers:
    """Every server of the run by its address, and the clients (host, client id) that ever asked for versions."""

    def __init__(self) -> None:
        self.known: Bounded[str, Server] = Bounded(MOST_SERVERS)
        self.askers: Bounded[tuple[str, str | None], None] = Bounded(MOST_CLIENTS)


@ledger(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost),
    broken=True,
    only=Only.FIRST,
    also=(Trigger((ResponseReceived,), ("ApiVersions", "Metadata"), broken=True),),
    per="connection",
)
class Versions:
    """A connection's negotiation.

    `negotiated` is what the server advertised here (API key -> lowest and highest version), `transaction_version` the
    level of that feature, 0 where it is not finalized, None if the server told of no features. `answers` counts the
    responses, those of an API and version that came before left out. `whole`: no byte of the connection went by unread.
    """

    def __init__(self) -> None:
        self.negotiated: Ranges | None = None
        self.transaction_version: int | None = None
        self.asked = False
        self.answers = 0
        self.whole = True
        self._server: Server | None = None

    def hear(self, event: Any, conversation: Conversation) -> None:
        """Take in what was asked and answered."""
        if isinstance(event, RequestReceived):
            if event.message.api_key == API_VERSIONS and not self.asked:
                self.asked = True
                conversation.cluster.recall(Servers).askers[client_of(conversation)] = None
        elif isinstance(event, ResponseReceived):
            if event.request is not None:
                self._answer(event, event.request, conversation)
        else:
            self.whole = False

    def server(self, conversation: Conversation) -> Server:
        """What is known of the server."""
        if self._server is None:
            self._server = conversation.cluster.recall(Servers).known.touch(conversation.server, Server)
        return self._server

    def ranges(self, conversation: Conversation) -> Ranges | None:
        """What the server advertises: as it said here, else as it has always said to others."""
        if self.negotiated is not None:
            return self.negotiated
        server = self.server(conversation)
        return server.ranges if server.settled else None

    def _answer(self, event: ResponseReceived, request: RequestReceived, conversation: Conversation) -> None:
        self.answers += 1
        asked, server = request.message, self.server(conversation)
        server.answered_at = event.at
        key = asked.api_key
        if asked.layout is not None:  # others could be any number
            server.answered.add((key, asked.version))
        if key not in PRELUDE and not server.lets_in:
            server.lets_in = conversation.sasl_mechanism is None
        if key in (METADATA, API_VERSIONS) and event.message is not None and event.message.reads_well:
            if key == API_VERSIONS:
                self._advertised(event.message.body, server)
            else:
                server.cluster_id = event.message.body.get("cluster_id") or server.cluster_id

    def _advertised(self, body: dict[str, Any], server: Server) -> None:
        ranges = {each["api_key"]: (each["min_version"], each["max_version"]) for each in body["api_keys"]}
        sane = len(ranges) == len(body["api_keys"]) and all(0 <= low <= high for low, high in ranges.values())
        # With error 35 comes the range of ApiVersions alone.
        if body["error_code"] or not sane or not 0 < len(ranges) <= MOST_APIS:
            return
        self.negotiated = ranges
        if body.get("finalized_features_epoch", -1) >= 0:
            features = {each["name"]: each["max_version_level"] for each in body.get("finalized_features", ())}
            self.transaction_version = features.get("transaction.version", 0)
        server.settled = server.settled and server.ranges in (None, ranges)
        server.ranges = ranges


def client_of(conversation: Conversation) -> tuple[str, str | None]:
    """What a client is known by over its connections: its host and client id."""
    return addresses.host_of(conversation.client), conversation.client_id


def software_of(conversation: Conversation) -> str:
    """What a client says it is, as well as it says it."""
    return (conversation.client_software or conversation.client_id or "a client without a name")[:LONGEST_NAME]


def span(version_range: tuple[int, int]) -> str:
    """A range of versions for people: ``v2-v9``."""
    lowest, highest = version_range
    return f"v{lowest}" if lowest == highest else f"v{lowest}-v{highest}"


def closed_on(event: ConnectionEnded, conversation: Conversation) -> RequestReceived | None:
    """The request that the server closed the connection on at once, instead of answering it."""
    if event.by != "server" or not event.unanswered or conversation.midstream:
        return None
    first = event.unanswered[0]
    if event.at - first.at > AT_ONCE or not conversation.recall(Versions).whole:
        return None
    return first
