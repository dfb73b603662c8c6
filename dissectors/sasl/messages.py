"""What is kept from a SASL message: names and numbers, but no secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

#: Longer names are not kept, because a principal appears on every line of its connection.
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslMessage:
    """A message of a SASL mechanism. An instance of this base class means that nothing more is known.

    `problem` completes "the message ...": how it deviates from the mechanism's grammar, without quoting it.
    """

    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientName(SaslMessage):
    """A message with the client's name. `authorization_id` is the user that the client wants to act as, or ""."""

    username: str | None = None
    authorization_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramClientFirst(ClientName):
    """``n,,n=user,r=nonce``. With `by_token`, the user name is the id of a delegation token (KIP-48).

    `channel_binding` is the gs2 flag: ``n`` (none), ``y``, or ``p=`` with the name of the binding.
    """

    nonce: str | None = field(default=None, repr=False)
    channel_binding: str = "n"
    extensions: tuple[str, ...] = ()
    by_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramServerFirst(SaslMessage):
    """``r=nonce,s=salt,i=iterations``."""

    nonce: str | None = field(default=None, repr=False)
    iterations: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramClientFinal(SaslMessage):
    """``c=biws,r=nonce,p=proof``."""

    nonce: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerClientFirst(ClientName):
    """``n,,^Aauth=Bearer token^A^A``. `username` is the ``sub`` claim if the token is a JWT that can be read.

    `expires_at`, `issued_at` and `not_before` are the claims ``exp``, ``iat`` and ``nbf``, in seconds since the epoch.
    `is_opaque`: the token is not a JWT.
    """

    extensions: tuple[str, ...] = ()
    is_opaque: bool = False
    expires_at: float | None = None
    issued_at: float | None = None
    not_before: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRefusal(SaslMessage):
    """An error of the mechanism, sent by the server; `reason` is its code, None if it cannot be shown."""

    reason: str | None = None


class GssapiKind(Enum):
    """The kind of a GSSAPI token (RFC 4121, RFC 4752). After the client's `WRAP`, only the server's answer follows."""

    INITIAL = "AP-REQ"
    REPLY = "AP-REP"
    ERROR = "KRB-ERROR"
    WRAP = "wrap"
    EMPTY = "empty"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class GssapiToken(SaslMessage):
    """A Kerberos token. The client's name in it is encrypted."""

    kind: GssapiKind = GssapiKind.OTHER


def showable_name(text: str) -> str | None:
    """Return the name if it may be shown, i.e. if it is neither blank nor too long; otherwise None."""
    return text if text.strip() and len(text) <= LONGEST_NAME else None
