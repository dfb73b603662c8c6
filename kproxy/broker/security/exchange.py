"""What a SASL mechanism is to a login: messages of the client in, answers out, in the end a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class LoginFailed(Exception):
    """The client is not who it says, or does not speak the mechanism.

    `message` is what it is told; None for what Kafka says of every mechanism alike.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "invalid credentials")
        self.message = message


@dataclass(frozen=True, slots=True)
class Identity:
    """Who has logged in.

    Attributes:
        name: Of the principal, whose type is User.
        expires_at: When what proved it expires, in ms since the epoch; None is never.
        by_token: It was a delegation token.
    """

    name: str
    expires_at: int | None = None
    by_token: bool = False


class SaslExchange(Protocol):
    """One login with one mechanism."""

    identity: Identity | None  # once it is over

    def step(self, message: bytes) -> bytes:
        """Take a message of the client; the answer.

        Raises:
            LoginFailed: See there.
        """
