"""Versions: what a connection has negotiated, and what its server has shown to serve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections import addresses
from dissectors.connections.events import BytesSkipped, ConnectionEnded, FramingLost, RequestReceived, ResponseReceived
from dissectors.schemas.codes import ApiKey
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

METADATA = ApiKey.METADATA
SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE
API_VERSIONS = ApiKey.API_VERSIONS
SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE

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
class ServerVersions:
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
        self.known: BoundedDict[str, ServerVersions] = BoundedDict(MOST_SERVERS)
        self.askers: BoundedDict[tuple[str, str | None], None] = BoundedDict(MOST_CLIENTS)


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost),
    broken=True,
    only=FrameFlags.FIRST,
    also=(Trigger((ResponseReceived,), ("ApiVersions", "Metadata"), broken=True),),
    keeps=(Servers,),
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
        self._server: ServerVersions | None = None

    def observe(self, event: Any, connection: ConnectionState) -> None:
        """Take in what was asked and answered."""
        if isinstance(event, RequestReceived):
            if event.message.api_key == API_VERSIONS and not self.asked:
                self.asked = True
                connection.run.state(Servers).askers[client_of(connection)] = None
        elif isinstance(event, ResponseReceived):
            if event.request is not None:
                self._answer(event, event.request, connection)
        else:
            self.whole = False

    def server(self, connection: ConnectionState) -> ServerVersions:
        """What is known of the server."""
        if self._server is None:
            self._server = connection.run.state(Servers).known.touch(connection.server, ServerVersions)
        return self._server

    def ranges(self, connection: ConnectionState) -> Ranges | None:
        """What the server advertises: as it said here, else as it has always said to others."""
        if self.negotiated is not None:
            return self.negotiated
        server = self.server(connection)
        return server.ranges if server.settled else None

    def _answer(self, event: ResponseReceived, request: RequestReceived, connection: ConnectionState) -> None:
        self.answers += 1
        asked, server = request.message, self.server(connection)
        server.answered_at = event.at
        key = asked.api_key
        if asked.layout is not None:  # others could be any number
            server.answered.add((key, asked.version))
        if key not in PRELUDE and not server.lets_in:
            server.lets_in = connection.sasl_mechanism is None
        if key in (METADATA, API_VERSIONS) and event.message is not None and event.message.well_formed:
            if key == API_VERSIONS:
                self._advertised(event.message.body, server)
            else:
                server.cluster_id = event.message.body.get("cluster_id") or server.cluster_id

    def _advertised(self, body: dict[str, Any], server: ServerVersions) -> None:
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


def client_of(connection: ConnectionState) -> tuple[str, str | None]:
    """What a client is known by over its connections: its host and client id."""
    return addresses.host_of(connection.client), connection.client_id


def software_of(connection: ConnectionState) -> str:
    """What a client says it is, as well as it says it."""
    return (connection.client_software or connection.client_id or "a client without a name")[:LONGEST_NAME]


def span(version_range: tuple[int, int]) -> str:
    """A range of versions for people: ``v2-v9``."""
    lowest, highest = version_range
    return f"v{lowest}" if lowest == highest else f"v{lowest}-v{highest}"


def closed_on(event: ConnectionEnded, connection: ConnectionState) -> RequestReceived | None:
    """The request that the server closed the connection on at once, instead of answering it."""
    if event.by != "server" or not event.unanswered or connection.midstream:
        return None
    first = event.unanswered[0]
    if event.at - first.at > AT_ONCE or not connection.state(Versions).whole:
        return None
    return first
