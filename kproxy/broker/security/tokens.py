"""Delegation tokens, which let others log in as their owner (KIP-48).

Source: DelegationTokenControlManager.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from kproxy.broker.cluster import new_uuid
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

_MAX_TOKENS: Final = 10_000
_MAX_TIME_MS: Final = 2**63 - 1
_TABLE: Final = "delegation tokens"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals look like ``User:alice``; times are in ms since the epoch.

    Attributes:
        id: The token id.
        owner: The principal that it authenticates.
        requester: The principal that requested it.
        renewers: Other principals that may renew it.
        issued_at: When it was created.
        expires_at: When it expires, unless it is renewed.
        max_at: The latest time to which it can be renewed.
    """

    id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    issued_at: int
    expires_at: int
    max_at: int

    def belongs_to(self, principal: str) -> bool:
        """Whether the principal is the owner or a renewer of the token."""
        return principal == self.owner or principal in self.renewers

    def is_expired(self, now: int) -> bool:
        """Whether the token has expired."""
        return self.expires_at < now or self.max_at < now


class Tokens:
    """The delegation tokens of a cluster; they are enabled by ``delegation.token.secret.key``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._configs = cluster.part(Configs)
        self._secret = cluster.options.configs.get("delegation.token.secret.key")
        self._by_id = {token_id: DelegationToken(**value) for token_id, value in cluster.journal.entries(_TABLE)}

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._by_id.values())

    def check_enabled(self) -> None:
        """Raise `ApiError` with DELEGATION_TOKEN_AUTH_DISABLED if tokens are disabled."""
        if self._secret is None:
            raise ApiError(Error.DELEGATION_TOKEN_AUTH_DISABLED)

    def find_usable(self, token_id: str) -> DelegationToken | None:
        """Return the token with that id if it is valid for login; else None."""
        token = self._by_id.get(token_id)
        return None if self._secret is None or token is None or token.is_expired(self._cluster.clock.now()) else token

    def hmac_of(self, token: DelegationToken) -> bytes:
        """Return a token's HMAC, which serves as the password for logging in with it."""
        assert self._secret is not None
        return hmac.digest(self._secret.encode(), token.id.encode(), hashlib.sha512)

    def create(self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int) -> DelegationToken:
        """Create a token with a maximum lifetime; zero or less means the longest that the brokers allow.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTH_DISABLED, INVALID_REQUEST if there are too many tokens.
        """
        self.check_enabled()
        now_ms = self._cluster.clock.now()
        self._delete_expired(now_ms)
        if len(self._by_id) >= _MAX_TOKENS:
            raise ApiError(Error.INVALID_REQUEST, f"there are {_MAX_TOKENS} tokens already")
        allowed_lifetime_ms = int(self._configs.broker("delegation.token.max.lifetime.ms"))
        max_at = now_ms + (min(allowed_lifetime_ms, max_lifetime_ms) if max_lifetime_ms > 0 else allowed_lifetime_ms)
        expires_at = min(max_at, now_ms + int(self._configs.broker("delegation.token.expiry.time.ms")))
        token = DelegationToken(
            new_uuid(),
            owner,
            requester,
            list(renewers),
            now_ms,
            min(expires_at, _MAX_TIME_MS),
            min(max_at, _MAX_TIME_MS),
        )
        self._put(token)
        return token

    def renew(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Renew a token for a period from now; return the new expiry time.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
                DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        token = self._find_by_hmac(hmac)
        now_ms = self._cluster.clock.now()
        if token.is_expired(now_ms):
            raise ApiError(Error.DELEGATION_TOKEN_EXPIRED)
        if not token.belongs_to(principal):
            raise ApiError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)
        max_period_ms = int(self._configs.broker("delegation.token.expiry.time.ms"))
        return self._expire_at(token, now_ms + (min(max_period_ms, period_ms) if period_ms > 0 else max_period_ms))

    def expire(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Expire a token after a period, or immediately if the period is negative; return the new expiry time.

        Raises:
            ApiError: See `renew`.
        """
        token = self._find_by_hmac(hmac)
        now_ms = self._cluster.clock.now()
        if not token.belongs_to(principal):
            raise ApiError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)
        if period_ms < 0:
            self._forget(token)
            return now_ms
        if token.is_expired(now_ms):
            raise ApiError(Error.DELEGATION_TOKEN_EXPIRED)
        return self._expire_at(token, now_ms + period_ms)

    def _find_by_hmac(self, requested_hmac: bytes) -> DelegationToken:
        self.check_enabled()
        for token in self:
            if hmac.compare_digest(self.hmac_of(token), requested_hmac):
                return token
        raise ApiError(Error.DELEGATION_TOKEN_NOT_FOUND)

    def _expire_at(self, token: DelegationToken, requested_ms: int) -> int:
        expires_at = min(token.max_at, requested_ms)
        self._put(replace(token, expires_at=expires_at))
        return expires_at

    def _put(self, token: DelegationToken) -> None:
        self._by_id[token.id] = token
        self._cluster.journal.put(_TABLE, token.id, asdict(token))

    def _forget(self, token: DelegationToken) -> None:
        del self._by_id[token.id]
        self._cluster.journal.put(_TABLE, token.id, None)

    def _delete_expired(self, now_ms: int) -> None:
        retention_ms = int(self._configs.broker("delegation.token.expiry.check.interval.ms"))
        for token in [token for token in self if token.is_expired(now_ms - retention_ms)]:
            self._forget(token)
