"""Authentication: the progress of SASL on a connection, and which listeners require it."""

from __future__ import annotations

from enum import Enum

from dissectors import sasl
from dissectors.bounded import BoundedDict
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionOpened,
    Direction,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)
from dissectors.sasl.messages import (
    ClientName,
    GssapiKind,
    GssapiToken,
    OAuthBearerClientFirst,
    SaslMessage,
    ScramClientFinal,
    ScramClientFirst,
    ScramServerFirst,
    ServerRefusal,
)
from dissectors.trackers import tracker
from dissectors.trackers.delegation_tokens import DelegationTokens
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_MS = 1_000_000
_MAX_LISTENERS = 1000

#: The APIs that a broker serves before authentication.
BEFORE_LOGIN = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"})


class SaslPhase(Enum):
    """The state of a connection. `UNKNOWN`: the capture lacks its beginning, or bytes were lost."""

    NONE = "no SASL yet"
    UNKNOWN = "unknown"
    HANDSHAKE = "SaslHandshake sent"
    TOKENS = "tokens are exchanged"
    DONE = "authenticated"
    FAILED = "refused"


@tracker(
    events=(ConnectionOpened, RequestReceived, ResponseReceived, TokenReceived, BytesSkipped),
    apis=("SaslHandshake", "SaslAuthenticate"),
    broken=True,
    needs=(DelegationTokens,),
    per="connection",
)
class Authentication:
    """The SASL exchange of one connection. It holds names and nonces from tokens; findings must not print them.

    Attributes:
        unauthenticated: Whether no login has succeeded, as far as is known.
        awaits_token: Whether the broker now accepts nothing but the next token.
        is_reauthentication: Whether the connection was authenticated before this exchange.
        raw: Whether the tokens have no request header.
        without_handshake: Whether the tokens follow requests other than SaslHandshake.
        tokens: How many tokens the client has sent in this exchange.
        client, server: The last message from each side, as far as `dissectors.sasl` reads it.
        user: The user that the tokens name; not verified before the phase is `DONE`.
        bearer: The message with the client's bearer token; the token itself is not kept.
        by_token: Whether the user is the id of a delegation token (KIP-48).
        principal: The client's identity at the broker since its last successful login, by Kafka's default mapping
            (``User:alice``). None if the protocol does not reveal it, as with GSSAPI or an opaque bearer token. Lost
            bytes do not reset it: Kafka does not let a re-authentication change it.
        authenticated_at: When that login succeeded (ns).
        lifetime_ms: How long the session lasts; 0 if it has no limit. `expires_at` is when it ends (ns).
        reauthentications: The number of logins that succeeded on this connection after the first one (KIP-368).
    """

    def __init__(self) -> None:
        self.phase = SaslPhase.NONE
        self.unauthenticated = True
        self.awaits_token = False
        self.mechanism = ""
        self.is_reauthentication = False
        self.without_handshake = False
        self.raw = False
        self.tokens = 0
        self.started_at = 0
        self.restarted_after = 0
        self.last_token_at = 0
        self.client = self.server = SaslMessage()
        self.user: str | None = None
        self.by_token = False
        self.bearer: OAuthBearerClientFirst | None = None
        self.principal: str | None = None
        self.authenticated_at: int | None = None
        self.reauthentications = 0
        self.lifetime_ms = 0
        self.expires_at: int | None = None
        self.client_nonce: str | None = None
        self.server_nonce: str | None = None
        self.final_nonce: str | None = None

    @property
    def refusal(self) -> ServerRefusal | None:
        """The mechanism's error that the server has sent, if any."""
        return self.server if isinstance(self.server, ServerRefusal) else None

    def observe(self, event: object, connection: ConnectionState) -> None:
        """Process an event."""
        if isinstance(event, RequestReceived):
            self._observe_request(event)
        elif isinstance(event, ResponseReceived):
            self._observe_response(event, connection)
        elif isinstance(event, TokenReceived):
            self._observe_raw_token(event, connection)
        elif isinstance(event, BytesSkipped) or (isinstance(event, ConnectionOpened) and event.midstream):
            self._mark_unknown()
        self.unauthenticated = self.phase not in (SaslPhase.DONE, SaslPhase.UNKNOWN)
        if self.phase is SaslPhase.HANDSHAKE:
            self.awaits_token = not self.tokens
        else:
            self.awaits_token = self.phase is SaslPhase.TOKENS and not self._client_is_done

    @property
    def nonces_differ(self) -> bool:
        """Whether one side of a SCRAM login does not use the other side's nonce; a strict peer ends such a login."""
        client, server = self.client_nonce, self.server_nonce
        if server is None:
            return False
        if self.final_nonce is not None and self.final_nonce != server:
            return True
        return client is not None and (not server.startswith(client) or server == client)

    @property
    def _client_is_done(self) -> bool:
        """Whether the client has sent its last message, provided that the server accepts it."""
        if isinstance(self.client, GssapiToken) and self.client.kind in (GssapiKind.INITIAL, GssapiKind.EMPTY):
            return False
        return self.tokens >= (2 if self.mechanism.startswith("SCRAM-") else 1)

    def _mark_unknown(self) -> None:
        self.phase, self.expires_at = SaslPhase.UNKNOWN, None

    def _observe_request(self, event: RequestReceived) -> None:
        message = event.message
        if event.damaged or not message.well_formed:
            self._mark_unknown()
        elif message.api == "SaslHandshake":
            self.is_reauthentication = self.phase is SaslPhase.DONE or (
                self.phase is SaslPhase.UNKNOWN and self.authenticated_at is not None
            )
            self.restarted_after = event.at - self.started_at
            self.without_handshake = False
            self.phase, self.mechanism, self.raw = (
                SaslPhase.HANDSHAKE,
                message.body.get("mechanism") or "",
                message.version == 0,
            )
            self.tokens, self.started_at = 0, event.at
            self.client = self.server = SaslMessage()
            self.user, self.by_token, self.bearer = None, False, None
            self.client_nonce = self.server_nonce = self.final_nonce = None
        elif self.phase is not SaslPhase.UNKNOWN:
            self._observe_client_token(message.body.get("auth_bytes") or b"", event.at)

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        message = event.message
        if self.phase is SaslPhase.UNKNOWN:
            return
        if message is None or event.damaged or not message.well_formed:
            self._mark_unknown()
        elif message.body.get("error_code"):
            self._mark_failed()
        elif message.api == "SaslHandshake":
            if self.phase is SaslPhase.HANDSHAKE:
                self.phase = SaslPhase.TOKENS
        else:
            lifetime_ms = max(message.body.get("session_lifetime_ms", 0), 0)
            self._observe_server_token(message.body.get("auth_bytes") or b"", event.at, lifetime_ms, connection)

    def _observe_raw_token(self, event: TokenReceived, connection: ConnectionState) -> None:
        if self.phase is SaslPhase.UNKNOWN:
            return
        if event.damaged:
            self._mark_unknown()
        elif event.direction is Direction.REQUEST:
            if self.phase is SaslPhase.NONE:  # without SaslHandshake, as clients of 0.9 do
                self.mechanism, self.raw, self.started_at = "GSSAPI", True, event.at
                self.without_handshake = event.offset > 0
            self._observe_client_token(event.data, event.at)
        else:
            self._observe_server_token(event.data, event.at, 0, connection)

    def _observe_client_token(self, token: bytes, at: int) -> None:
        self.phase = SaslPhase.TOKENS
        self.tokens += 1
        self.last_token_at = at
        message = self.client = sasl.read_client(self.mechanism, self.tokens, token)
        if isinstance(message, ClientName):
            self.user = message.authorization_id or message.username
        if isinstance(message, ScramClientFirst):
            self.client_nonce, self.by_token = message.nonce, message.by_token
        elif isinstance(message, ScramClientFinal):
            self.final_nonce = message.nonce
        elif isinstance(message, OAuthBearerClientFirst):
            self.bearer = message

    def _observe_server_token(self, token: bytes, at: int, lifetime_ms: int, connection: ConnectionState) -> None:
        if self.refusal:  # the login has failed, whatever the server answers now
            self._mark_failed()
            return
        message = self.server = sasl.read_server(self.mechanism, self.tokens, token)
        if isinstance(message, ScramServerFirst):
            self.server_nonce = message.nonce
        if isinstance(message, ServerRefusal):
            # OAUTHBEARER: the client acknowledges the error, then the login fails (RFC 7628, section 3.2.3).
            if self.mechanism != "OAUTHBEARER":
                self._mark_failed()
        elif self._client_is_done:
            self._mark_succeeded(at, lifetime_ms, connection)

    def _mark_succeeded(self, at: int, lifetime_ms: int, connection: ConnectionState) -> None:
        self.phase = SaslPhase.DONE
        self.reauthentications += self.is_reauthentication
        self.authenticated_at, self.lifetime_ms = at, lifetime_ms
        self.expires_at = at + lifetime_ms * _MS if lifetime_ms else None
        if self.user is None:
            self.principal = None
        elif self.by_token:
            self.principal = connection.run.state(DelegationTokens).owners.get(self.user)
        else:
            self.principal = f"User:{self.user}"

    def _mark_failed(self) -> None:
        self.phase, self.principal = SaslPhase.FAILED, None


@tracker(
    events=(ResponseReceived,),
    only=FrameFlags.FIRST,
    also=(Trigger((ResponseReceived,), ("SaslAuthenticate",)), Trigger((TokenReceived,))),
    needs=(Authentication,),
)
class Listeners:
    """The servers in a run that authenticated a client with SASL, and the servers that served a client without it."""

    def __init__(self) -> None:
        self.sasl: BoundedDict[str, None] = BoundedDict(_MAX_LISTENERS)
        self.open: BoundedDict[str, None] = BoundedDict(_MAX_LISTENERS)

    def observe(self, event: ResponseReceived | TokenReceived, connection: ConnectionState) -> None:
        """Remember that a server served data or authenticated a client."""
        phase, message = connection.state(Authentication).phase, getattr(event, "message", None)
        if message is not None and message.api not in BEFORE_LOGIN:
            if phase is SaslPhase.NONE:
                self.open[connection.server] = None
        elif phase is SaslPhase.DONE and connection.server:
            self.sasl[connection.server] = None
