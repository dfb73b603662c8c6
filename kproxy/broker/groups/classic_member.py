"""ClassicMember: a member of a classic group."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from kproxy.broker.groups.group import Respond


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The contents of a JoinGroup. `protocols` maps names to metadata, in order of preference.

    `learns_id`: a new member first gets an id, then joins with it (since version 4).
    `skips`: the response tells a returning static leader to skip the assignment (since version 9).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    learns_id: bool = True
    skips: bool = True

    def to_journal(self) -> Mapping[str, Any]:
        """Return the state to store for a restart."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "protocols": _encode_protocols(self.protocols),
        }

    @classmethod
    def from_journal(cls, stored: Mapping[str, Any]) -> Self:
        """Return the stored request."""
        return cls(**{**stored, "protocols": _decode_protocols(stored["protocols"])})

    def create_member(self, member_id: str, respond: Respond | None) -> ClassicMember:
        """Return the member that this request describes; with `respond`, it is new and waits for its first response."""
        return ClassicMember(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            is_new=respond is not None,
            join=respond,
        )


@dataclass(slots=True)
class ClassicMember:
    """A member. `join` and `sync` send its pending responses; `is_new` is true until its first join is complete."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    is_new: bool = False
    join: Respond | None = None
    sync: Respond | None = None

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return 500 + len(self.assignment) + sum(len(name) + len(data) for name, data in self.protocols.items())

    @property
    def is_waiting(self) -> bool:
        """Whether the member is waiting for a response, and therefore need not send heartbeats."""
        return self.join is not None or self.sync is not None

    def has_protocols(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether these are the member's protocols, in the same order."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that the member prefers."""
        return next(protocol for protocol in self.protocols if protocol in candidates)

    def respond_to_join(self, body: Mapping[str, Any]) -> None:
        """Respond to the member's JoinGroup, if one is pending."""
        if self.join is not None:
            self.join(body)
            self.join = None

    def respond_to_sync(self, body: Mapping[str, Any]) -> bool:
        """Respond to the member's SyncGroup, if one is pending; return whether one was."""
        if self.sync is None:
            return False
        self.sync(body)
        self.sync = None
        return True

    def to_journal(self) -> Mapping[str, Any]:
        """Return the state to store for a restart."""
        return {
            "id": self.id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocols": _encode_protocols(self.protocols),
            "assignment": _encode_bytes(self.assignment),
        }

    @classmethod
    def from_journal(cls, stored: Mapping[str, Any]) -> Self:
        """Return the stored member."""
        assignment = base64.b64decode(stored["assignment"])
        return cls(**{**stored, "protocols": _decode_protocols(stored["protocols"]), "assignment": assignment})


def _encode_bytes(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _encode_protocols(protocols: Mapping[str, bytes]) -> dict[str, str]:
    return {name: _encode_bytes(data) for name, data in protocols.items()}


def _decode_protocols(protocols: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(data) for name, data in protocols.items()}
