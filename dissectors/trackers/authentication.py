"""Authentication: the progress of SASL on a connection, and which listeners require it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionOpened,
    Direction,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

_MS = 1_000_000
_MOST_LISTENERS = 1000

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
    per="connection",
)
class Authentication:
    """The SASL exchange of one connection. It holds names and nonces from tokens; findings must not print them.

    `unauthenticated`: no authentication is known to have succeeded. `awaits_token`: the broker accepts only the next
    token now. `raw`: tokens have no Kafka header. `user` is the name in the token, which is verified only in phase
    `DONE`. `expires_at` is when the broker will close the connection (ns).
    """

    def __init__(self) -> None:
        self.phase = SaslPhase.NONE
        self.unauthenticated = True
        self.awaits_token = False
        self.mechanism = ""
        self.is_reauthentication = False
        self.raw = False
        self.tokens = 0
        self.started_at = 0
        self.restarted_after = 0
        self.user: str | None = None
        self.expires_at: int | None = None
        self.client_nonce: str | None = None
        self.server_nonce: str | None = None
        self.final_nonce: str | None = None

    @property
    def principal(self) -> str | None:
        """The client's principal by Kafka's default mapping; None unless it is authenticated."""
        return f"User:{self.user}" if self.phase is SaslPhase.DONE and self.user else None

    def observe(self, event: object, _: ConnectionState) -> None:
        """Update the phase."""
        if isinstance(event, RequestReceived):
            self._request(event)
        elif isinstance(event, ResponseReceived):
            self._response(event)
        elif isinstance(event, TokenReceived):
            self._raw_token(event)
        elif isinstance(event, BytesSkipped) or (isinstance(event, ConnectionOpened) and event.midstream):
            self.phase, self.expires_at = SaslPhase.UNKNOWN, None
        self.unauthenticated = self.phase not in (SaslPhase.DONE, SaslPhase.UNKNOWN)
        if self.phase is SaslPhase.HANDSHAKE:
            self.awaits_token = not self.tokens
        else:
            self.awaits_token = self.phase is SaslPhase.TOKENS and self.tokens < _token_count(self.mechanism)

    def _request(self, event: RequestReceived) -> None:
        message = event.message
        if event.damaged or not message.well_formed:
            self.phase, self.expires_at = SaslPhase.UNKNOWN, None
        elif message.api == "SaslHandshake":
            self.is_reauthentication = self.phase is SaslPhase.DONE
            self.restarted_after = event.at - self.started_at
            self.phase, self.mechanism, self.raw = (
                SaslPhase.HANDSHAKE,
                message.body.get("mechanism") or "",
                message.version == 0,
            )
            self.tokens, self.started_at = 0, event.at
            self.client_nonce = self.server_nonce = self.final_nonce = None
        elif self.phase is not SaslPhase.UNKNOWN:
            self.phase = SaslPhase.TOKENS
            self.tokens += 1
            self._read_token(message.body.get("auth_bytes") or b"")

    def _response(self, event: ResponseReceived) -> None:
        message = event.message
        if self.phase is SaslPhase.UNKNOWN:
            return
        if message is None or event.damaged or not message.well_formed:
            self.phase, self.expires_at = SaslPhase.UNKNOWN, None
        elif message.body.get("error_code"):
            self.phase = SaslPhase.FAILED
        elif message.api == "SaslHandshake":
            if self.phase is SaslPhase.HANDSHAKE:
                self.phase = SaslPhase.TOKENS
        else:
            self._answered(message.body, event.at)

    def _answered(self, body: dict[str, Any], at: int) -> None:
        token = body.get("auth_bytes") or b""
        if self.mechanism.startswith("SCRAM-") and self.tokens == 1:
            self.server_nonce = _attributes(token).get("r")
        # OAUTHBEARER answers an invalid token with an error message, and fails at the next one (RFC 7628).
        if self.tokens >= _token_count(self.mechanism) and not (self.mechanism == "OAUTHBEARER" and token):
            self.phase = SaslPhase.DONE
            lifetime = body.get("session_lifetime_ms", 0)
            self.expires_at = at + lifetime * _MS if lifetime > 0 else None

    def _raw_token(self, event: TokenReceived) -> None:
        if self.phase is SaslPhase.UNKNOWN:
            return
        if event.direction is Direction.REQUEST:
            self.phase = SaslPhase.TOKENS
            self.tokens += 1
        elif self.tokens >= _token_count(self.mechanism):
            self.phase = SaslPhase.DONE

    def _read_token(self, token: bytes) -> None:
        if self.mechanism == "PLAIN":
            parts = token.split(b"\0")
            self.user = parts[1].decode(errors="replace") if len(parts) == 3 else None
        elif self.mechanism.startswith("SCRAM-"):
            attributes = _attributes(token)
            if self.tokens == 1:
                self.client_nonce = attributes.get("r")
                name = attributes.get("n")
                self.user = name.replace("=2C", ",").replace("=3D", "=") if name else None
            elif self.tokens == 2:
                self.final_nonce = attributes.get("r")


@tracker(
    events=(ResponseReceived,),
    apis=("Metadata", "SaslAuthenticate"),
    also=(Trigger((TokenReceived,)),),
    needs=(Authentication,),
)
class Listeners:
    """Servers of a run that authenticated a client by SASL, and those that served data without it."""

    def __init__(self) -> None:
        self.sasl: BoundedDict[str, None] = BoundedDict(_MOST_LISTENERS)
        self.open: BoundedDict[str, None] = BoundedDict(_MOST_LISTENERS)

    def observe(self, event: ResponseReceived | TokenReceived, connection: ConnectionState) -> None:
        """Remember that a server served data, or authenticated a client."""
        phase, message = connection.state(Authentication).phase, getattr(event, "message", None)
        if message is not None and message.api == "Metadata":
            if phase is SaslPhase.NONE:
                self.open[connection.server] = None
        elif phase is SaslPhase.DONE and connection.server:
            self.sasl[connection.server] = None


def _token_count(mechanism: str) -> int:
    """The number of tokens that a client sends. It varies for GSSAPI, where each token may be the last."""
    return 2 if mechanism.startswith("SCRAM-") else 1


def _attributes(token: bytes) -> dict[str, str]:
    """The attributes of a SCRAM message (RFC 5802): ``n=user,r=nonce``. The first message has a ``n,,`` header."""
    parts = (part.partition("=") for part in token.decode(errors="replace").split(","))
    return {name: value for name, equals, value in parts if equals}
