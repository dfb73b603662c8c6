"""Versions: the API versions that a connection negotiated, and those that its server has served."""

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

#: APIs that are used before authentication.
PRE_LOGIN_APIS = frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})

MAX_SERVERS = 1_000
MAX_APIS = 1_000
MAX_CLIENTS = 10_000

#: The longest client name in a finding; longer ones, which come off the wire, are truncated.
MAX_NAME_SHOWN = 100

#: How soon (ns) a server closes the connection because of a request; later there may be other reasons.
MAX_CLOSE_DELAY = 1_000_000_000

Ranges = dict[int, tuple[int, int]]


@dataclass(slots=True)
class ServerVersions:
    """The versions of a server, from all connections to its address.

    `ranges` is what it advertised last; `is_consistent` is whether it never advertised anything else. `answered` are
    the API keys and versions that it answered; `answered_at` is when it last answered one for the first time on a
    connection. `serves_without_sasl` is whether it answers APIs outside `PRE_LOGIN_APIS` without SASL.
    """

    ranges: Ranges | None = None
    is_consistent: bool = True
    answered: set[tuple[int, int]] = field(default_factory=set)
    answered_at: int = 0
    serves_without_sasl: bool = False
    cluster_id: str | None = None


class Servers:
    """The servers of a run by address, and the clients (host, client id) that sent ApiVersions."""

    def __init__(self) -> None:
        self.by_address: BoundedDict[str, ServerVersions] = BoundedDict(MAX_SERVERS)
        self.version_clients: BoundedDict[tuple[str, str | None], None] = BoundedDict(MAX_CLIENTS)


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost),
    broken=True,
    only=FrameFlags.FIRST,
    also=(Trigger((ResponseReceived,), ("ApiVersions", "Metadata"), broken=True),),
    keeps=(Servers,),
    per="connection",
)
class Versions:
    """The version negotiation of a connection.

    `negotiated` is what the server advertised here (API key -> lowest and highest version). `transaction_version` is
    the level of that feature: 0 if it is not finalized, None if the server sent no features. `answers` counts the
    responses, one for each API and version. `is_complete`: no bytes of the connection were lost.
    """

    def __init__(self) -> None:
        self.negotiated: Ranges | None = None
        self.transaction_version: int | None = None
        self.requested = False
        self.answers = 0
        self.is_complete = True
        self._server: ServerVersions | None = None

    def observe(self, event: Any, connection: ConnectionState) -> None:
        """Update the negotiation."""
        if isinstance(event, RequestReceived):
            if event.message.api_key == API_VERSIONS and not self.requested:
                self.requested = True
                connection.run.state(Servers).version_clients[client_key(connection)] = None
        elif isinstance(event, ResponseReceived):
            if event.request is not None:
                self._observe_response(event, event.request, connection)
        else:
            self.is_complete = False

    def server(self, connection: ConnectionState) -> ServerVersions:
        """Return the state of the server."""
        if self._server is None:
            self._server = connection.run.state(Servers).by_address.touch(connection.server, ServerVersions)
        return self._server

    def ranges(self, connection: ConnectionState) -> Ranges | None:
        """Return the versions that the server advertises: on this connection, or else on all others if they agree."""
        if self.negotiated is not None:
            return self.negotiated
        server = self.server(connection)
        return server.ranges if server.is_consistent else None

    def _observe_response(self, event: ResponseReceived, request: RequestReceived, connection: ConnectionState) -> None:
        self.answers += 1
        request_message, server = request.message, self.server(connection)
        server.answered_at = event.at
        key = request_message.api_key
        if request_message.layout is not None:  # other keys are unbounded numbers off the wire
            server.answered.add((key, request_message.version))
        if key not in PRE_LOGIN_APIS and not server.serves_without_sasl:
            server.serves_without_sasl = connection.sasl_mechanism is None
        if key in (METADATA, API_VERSIONS) and event.message is not None and event.message.well_formed:
            if key == API_VERSIONS:
                self._learn_ranges(event.message.body, server)
            else:
                server.cluster_id = event.message.body.get("cluster_id") or server.cluster_id

    def _learn_ranges(self, body: dict[str, Any], server: ServerVersions) -> None:
        ranges = {key["api_key"]: (key["min_version"], key["max_version"]) for key in body["api_keys"]}
        is_valid = len(ranges) == len(body["api_keys"]) and all(0 <= low <= high for low, high in ranges.values())
        # A response with error 35 has only the range of ApiVersions.
        if body["error_code"] or not is_valid or not 0 < len(ranges) <= MAX_APIS:
            return
        self.negotiated = ranges
        if body.get("finalized_features_epoch", -1) >= 0:
            features = {feature["name"]: feature["max_version_level"] for feature in body.get("finalized_features", ())}
            self.transaction_version = features.get("transaction.version", 0)
        server.is_consistent = server.is_consistent and server.ranges in (None, ranges)
        server.ranges = ranges


def client_key(connection: ConnectionState) -> tuple[str, str | None]:
    """Return the identity of a client across connections: its host and client id."""
    return addresses.host_of(connection.client), connection.client_id


def client_text(connection: ConnectionState) -> str:
    """Return the client's software or client id, for use in findings."""
    return (connection.client_software or connection.client_id or "a client without a name")[:MAX_NAME_SHOWN]


def range_text(version_range: tuple[int, int]) -> str:
    """Format a version range: ``v2-v9``."""
    lowest, highest = version_range
    return f"v{lowest}" if lowest == highest else f"v{lowest}-v{highest}"


def closing_request(event: ConnectionEnded, connection: ConnectionState) -> RequestReceived | None:
    """Return the request that made the server close the connection at once instead of answering; None if none did."""
    if event.by != "server" or not event.unanswered or connection.midstream:
        return None
    first = event.unanswered[0]
    if event.at - first.at > MAX_CLOSE_DELAY or not connection.state(Versions).is_complete:
        return None
    return first
