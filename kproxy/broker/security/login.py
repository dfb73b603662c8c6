"""Login: the SASL state of one connection: handshake, authentication, session expiry, re-authentication.

Source: Kafka's SaslServerAuthenticator, KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.security.credentials import SCRAM
from kproxy.broker.security.exchange import Identity, LoginFailed, SaslExchange
from kproxy.broker.security.oauthbearer import OAuthBearer
from kproxy.broker.security.plain import Plain
from kproxy.broker.security.scram import Scram

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.request import ClientSession

#: All supported mechanisms.
MECHANISMS: Final[Mapping[str, Callable[[Cluster], SaslExchange]]] = {
    "PLAIN": Plain,
    **{name: partial(Scram, mechanism=name) for name in SCRAM},
    "OAUTHBEARER": OAuthBearer,
}
_MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000  # between two re-authentications


class Login:
    """The state of a session's login.

    Attributes:
        raw: Whether the next frames are SASL messages without a header, as after SaslHandshake v0.
        by_token: Whether the client logged in with a delegation token.
        lifetime_ms: Lifetime of the session after the login; 0 for unlimited.
    """

    def __init__(self, cluster: Cluster, session: ClientSession) -> None:
        self._cluster = cluster
        self._session = session
        self._exchange: SaslExchange | None = None
        self._mechanism = ""
        self._last_login: tuple[str, str] | None = None  # mechanism and principal of the previous login
        self._reauthentication_started_at: int | None = None
        self._expires_at: int | None = None
        self.raw = False
        self.by_token = False
        self.lifetime_ms = 0

    @property
    def mechanisms(self) -> list[str]:
        """The enabled mechanisms."""
        return list(self._cluster.options.sasl)

    @property
    def expired(self) -> bool:
        """Whether the session has expired, so that the client can only log in again."""
        has_passed = self._expires_at is not None and self._cluster.clock.now() > self._expires_at
        return has_passed and self._session.authenticated

    def set_mechanism(self, mechanism: str, *, headers: bool) -> None:
        """Set the mechanism that the client has chosen.

        Args:
            mechanism: The name of the mechanism.
            headers: Whether the mechanism's messages will come in SaslAuthenticate.

        Raises:
            ApiError: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE.
        """
        if self._exchange is not None:
            self._session.closing = True
            raise ApiError(Error.ILLEGAL_SASL_STATE)
        if self._session.authenticated:
            self._start_reauthentication()
        if mechanism not in self._cluster.options.sasl:
            self._session.closing = True
            raise ApiError(Error.UNSUPPORTED_SASL_MECHANISM)
        self._mechanism, self._exchange = mechanism, MECHANISMS[mechanism](self._cluster)
        self.raw = not headers

    def step(self, message: bytes) -> bytes:
        """Process the client's next message; return the server's message.

        Raises:
            ApiError: SASL_AUTHENTICATION_FAILED, and the connection must be closed; ILLEGAL_SASL_STATE.
        """
        if (exchange := self._exchange) is None:
            self._session.closing = not self._session.authenticated
            raise ApiError(
                Error.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
            )
        try:
            if self._last_login is not None and self._last_login[0] != self._mechanism:
                raise LoginFailed(
                    f"SASL mechanism '{self._mechanism}' requested by client is not supported "
                    f"for re-authentication of mechanism '{self._last_login[0]}'"
                )
            response = exchange.step(message)
            if exchange.identity is not None:
                self._finish(exchange.identity)
        except LoginFailed as login_error:
            self._session.closing = True
            attempt = "authentication" if self._last_login is None else "re-authentication"
            generic_message = f"Authentication failed during {attempt} due to invalid credentials with SASL mechanism "
            raise ApiError(
                Error.SASL_AUTHENTICATION_FAILED, login_error.message or generic_message + self._mechanism
            ) from None
        return response

    def _start_reauthentication(self) -> None:
        now_ms = self._cluster.clock.now()
        is_too_soon = (
            self._reauthentication_started_at is not None
            and now_ms - self._reauthentication_started_at < _MIN_REAUTHENTICATION_INTERVAL_MS
        )
        if self._expires_at is None or is_too_soon:
            raise ApiError(Error.ILLEGAL_SASL_STATE)
        self._reauthentication_started_at = now_ms
        self._last_login = self._mechanism, self._session.principal
        self._session.authenticated = False

    def _finish(self, identity: Identity) -> None:
        principal = f"User:{identity.name}"
        if self._last_login is not None and self._last_login[1] != principal:
            raise LoginFailed(
                f"Cannot change principals during re-authentication from {self._last_login[1].replace(':', '.', 1)}: "
                f"{principal.replace(':', '.', 1)}"
            )
        now_ms = self._cluster.clock.now()
        max_lifetime_ms = int(self._cluster.part(Configs).broker("connections.max.reauth.ms"))
        limits = [max_lifetime_ms] if max_lifetime_ms > 0 else []
        if identity.expires_at is not None:
            limits.append(max(0, identity.expires_at - now_ms))
        self.lifetime_ms = min(limits, default=0)
        self._expires_at = now_ms + self.lifetime_ms if limits else None
        self.by_token, self.raw, self._exchange = identity.by_token, False, None
        self._session.principal, self._session.authenticated = principal, True
