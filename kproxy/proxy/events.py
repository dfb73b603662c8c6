"""Events of a relay that its user should know about; each prints as one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class UpstreamUnreachable:
    """A client was turned away; not repeated until the reason changes or the upstream answers."""

    upstream: str
    reason: str

    def __str__(self) -> str:
        return f"upstream {self.upstream} is unreachable: {self.reason}; refusing clients until it answers"


@dataclass(frozen=True, slots=True)
class UpstreamReachable:
    """The upstream could not be reached before."""

    upstream: str

    def __str__(self) -> str:
        return f"upstream {self.upstream} is reachable again"


@dataclass(frozen=True, slots=True)
class AcceptPaused:
    """The system has nothing left for another connection; clients wait. Not repeated within a minute."""

    reason: str

    def __str__(self) -> str:
        return f"cannot accept more connections for now: {self.reason}; raise the limit (ulimit -n)"


@dataclass(frozen=True, slots=True)
class InspectorLost:
    """Nothing is inspected from here on; the relay goes on."""

    reason: str

    def __str__(self) -> str:
        return f"the inspector stopped ({self.reason}): traffic is still relayed, but no longer traced"


Event: TypeAlias = UpstreamUnreachable | UpstreamReachable | AcceptPaused | InspectorLost
Report: TypeAlias = Callable[[Event], None]
