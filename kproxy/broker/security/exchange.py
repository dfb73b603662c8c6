"""The interface of a SASL mechanism, which answers the client's messages and finally yields an identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class LoginFailed(Exception):
    """Raised when authentication fails, or the client violates the mechanism.

    `message` is sent to the client; None means Kafka's generic message.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "invalid credentials")
        self.message = message


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated user.

    Attributes:
        name: Name of the principal, whose type is User.
        expires_at: When the credential expires, in ms since the epoch; None means never.
        by_token: Whether the credential was a delegation token.
    """

    name: str
    expires_at: int | None = None
    by_token: bool = False


class SaslExchange(Protocol):
    """A login with one mechanism."""

    identity: Identity | None  # set when the login is complete

    def step(self, message: bytes) -> bytes:
        """Process a client message; return the server's message.

        Raises:
            LoginFailed: The login failed.
        """
