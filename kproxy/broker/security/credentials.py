"""SCRAM credentials (RFC 5802): keys derived from the password, never the password itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kproxy.broker.errors import ApiError, Error

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.journal import Value

#: Mechanism -> (code on the wire, hash).
SCRAM: Final[Mapping[str, tuple[int, str]]] = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
_MAX_CREDENTIALS: Final = 10_000
_TABLE: Final = "scram credentials"


class Credential(NamedTuple):
    """A user's keys for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def from_salted_password(cls, digest: str, salt: bytes, salted_password: bytes, iterations: int) -> Self:
        """Derive the keys from a password that the client has salted and hashed."""
        client_key = hmac.digest(salted_password, b"Client Key", digest)
        server_key = hmac.digest(salted_password, b"Server Key", digest)
        return cls(salt, hashlib.new(digest, client_key).digest(), server_key, iterations)

    @classmethod
    def from_password(cls, digest: str, password: str) -> Self:
        """Derive the keys from a password, with a new salt."""
        salt = os.urandom(16)
        salted_password = hashlib.pbkdf2_hmac(digest, password.encode(), salt, MIN_ITERATIONS)
        return cls.from_salted_password(digest, salt, salted_password, MIN_ITERATIONS)


class Credentials:
    """The SCRAM credentials of a cluster: those in its options, plus administrators' changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._journal = cluster.journal
        self._credentials: dict[tuple[str, str], Credential] = {}  # (name, mechanism)
        for mechanism in cluster.options.sasl:
            if mechanism in SCRAM:
                for name, password in cluster.options.users.items():
                    self._credentials[name, mechanism] = Credential.from_password(SCRAM[mechanism][1], password)
        for key, value in self._journal.entries(_TABLE):
            name, mechanism = json.loads(key)
            self._credentials[name, mechanism] = _from_stored(value)

    def get(self, name: str, mechanism: str) -> Credential | None:
        """Return a user's credential for a mechanism."""
        return self._credentials.get((name, mechanism))

    def users(self) -> list[str]:
        """Return the names of users with credentials, without duplicates."""
        return list(dict.fromkeys(name for name, _ in self._credentials))

    def check_capacity(self, name: str, mechanism: str) -> None:
        """Raise `ApiError` with UNACCEPTABLE_CREDENTIAL if there is no room for a new credential."""
        if len(self._credentials) >= _MAX_CREDENTIALS and (name, mechanism) not in self._credentials:
            raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, f"there are {_MAX_CREDENTIALS} credentials already")

    def put(self, name: str, mechanism: str, credential: Credential) -> None:
        """Set a user's credential for a mechanism."""
        self._credentials[name, mechanism] = credential
        value = {key: _encode(data) for key, data in zip(_KEYS, credential[:3], strict=True)}
        self._journal.put(_TABLE, json.dumps([name, mechanism]), {**value, "iterations": credential.iterations})

    def delete(self, name: str, mechanism: str) -> None:
        """Delete a credential, if it exists."""
        self._credentials.pop((name, mechanism), None)
        self._journal.put(_TABLE, json.dumps([name, mechanism]), None)


_KEYS: Final = ("salt", "stored_key", "server_key")


def _from_stored(value: Value) -> Credential:
    salt, stored_key, server_key = (base64.b64decode(value[key]) for key in _KEYS)
    return Credential(salt, stored_key, server_key, value["iterations"])


def _encode(data: object) -> str:
    assert isinstance(data, bytes)
    return base64.b64encode(data).decode()
