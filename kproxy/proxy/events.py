"""What happens to a relay that its user should hear of; each prints as one sentence."""

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
        return f"upstream {self.upstream} cannot be reached: {self.reason}; clients are turned away until it can"


@dataclass(frozen=True, slots=True)
class UpstreamReachable:
    """The upstream could not be reached before."""

    upstream: str

    def __str__(self) -> str:
        return f"upstream {self.upstream} answers again"


@dataclass(frozen=True, slots=True)
class AcceptPaused:
    """The system has nothing left for another connection; clients wait. Not repeated within a minute."""

    reason: str

    def __str__(self) -> str:
        return f"no more connections can be accepted for now: {self.reason}; raise the limit (ulimit -n)"


@dataclass(frozen=True, slots=True)
class InspectorLost:
    """Nothing is inspected from here on; the relay goes on."""

    reason: str

    def __str__(self) -> str:
        return f"the inspector is gone ({self.reason}): traffic flows on, without a trace"


Event: TypeAlias = UpstreamUnreachable | UpstreamReachable | AcceptPaused | InspectorLost
Report: TypeAlias = Callable[[Event], None]
