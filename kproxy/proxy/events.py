"""The events that a relay reports to its user; `str` returns each as one sentence."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

_TOO_MANY_FILES: Final = os.strerror(errno.EMFILE).lower()


@dataclass(frozen=True, slots=True)
class UpstreamUnreachable:
    """A client was refused. Not repeated until the reason changes or the upstream answers."""

    upstream: str
    reason: str

    def __str__(self) -> str:
        return f"upstream {self.upstream} is unreachable: {self.reason}; refusing clients until it answers"


@dataclass(frozen=True, slots=True)
class UpstreamReachable:
    """A client was connected to an upstream that was unreachable before."""

    upstream: str

    def __str__(self) -> str:
        return f"upstream {self.upstream} is reachable again"


@dataclass(frozen=True, slots=True)
class UpstreamIsProxy:
    """An upstream is a listener of the same proxy, so its clients are refused. Not repeated until that changes."""

    upstream: str
    listener: str

    def __str__(self) -> str:
        return (
            f"upstream {self.upstream} leads back to this proxy (listener {self.listener}): refusing its clients; use "
            "the address of a broker"
        )


@dataclass(frozen=True, slots=True)
class OutOfResources:
    """File descriptors or memory are short. Reported once, and again only after a minute without a shortage."""

    reason: str

    def __str__(self) -> str:
        hint = "; raise the limit (ulimit -n)" if self.reason == _TOO_MANY_FILES else ""
        return f"cannot accept more connections for now: {self.reason}; open connections are not affected{hint}"


@dataclass(frozen=True, slots=True)
class InspectorLost:
    """Inspection has ended for good; the relay continues."""

    reason: str

    def __str__(self) -> str:
        return f"the inspector stopped ({self.reason}): traffic is still relayed, but no longer traced"


@dataclass(frozen=True, slots=True)
class InspectorRestarting:
    """The inspector has ended, and another one starts in `delay` seconds; the relay continues."""

    reason: str
    delay: float

    def __str__(self) -> str:
        return f"the inspector stopped ({self.reason}): traffic is still relayed; it restarts in {self.delay:g} s"


@dataclass(frozen=True, slots=True)
class SpawnerKilled:
    """The process that starts inspectors was killed; the current inspector continues."""

    def __str__(self) -> str:
        return (
            "the process that starts inspectors was killed: the current inspector continues, but no other one can "
            "follow it; restart kproxy when it suits"
        )


@dataclass(frozen=True, slots=True)
class InspectorResumed:
    """Another inspector has started. The counts cover the traffic that no inspector has seen so far."""

    seconds: float
    bytes: int
    frames: int
    connections: int

    def __str__(self) -> str:
        connections = f"{self.connections} connection{'' if self.connections == 1 else 's'}"
        missed = f"{self.bytes} bytes ({self.frames} frames) of {connections} were not inspected"
        return (
            f"the inspector runs again after {self.seconds:.1f} s: {missed if self.bytes else 'it missed no traffic'}"
        )


@dataclass(frozen=True, slots=True)
class InspectorNotResponding:
    """The inspector is stopped or busy. `connection` and `api` are those of its current frame, if known."""

    seconds: float
    connection: str | None = None
    api: str | None = None

    def __str__(self) -> str:
        frame_text = "a frame" if self.api is None else f"a frame of {self.api}"
        location = "" if self.connection is None else f" at {frame_text} of connection {self.connection}"
        return f"the inspector has not responded for {self.seconds:.0f} s{location}: traffic is relayed uninspected"


@dataclass(frozen=True, slots=True)
class InspectorResponds:
    """The inspector responds again after this time."""

    seconds: float

    def __str__(self) -> str:
        return f"the inspector responds again after {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class InspectorGivenUp:
    """The proxy was asked to end, but the inspector did not finish. Another one wrote gap lines.

    The counts cover the traffic that was not inspected; `trace` is the directory of the trace.
    """

    bytes: int
    frames: int
    connections: int
    trace: str | None

    def __str__(self) -> str:
        connections = f"{self.connections} connection{'' if self.connections == 1 else 's'}"
        trace_note = "" if self.trace is None else f"; the trace in {self.trace} has gap lines about them"
        return (
            f"the inspector did not finish in time: {self.bytes} bytes ({self.frames} frames) of "
            f"{connections} were not inspected{trace_note}"
        )


@dataclass(frozen=True, slots=True)
class InspectionBehind:
    """The inspector is too slow, so frames are dropped from the trace. Not repeated within a minute."""

    def __str__(self) -> str:
        return (
            "inspection cannot keep up and skips frames; the traffic is not delayed: inspect fewer connections "
            "(--sample 10%) or less of each frame (--detail summary)"
        )


@dataclass(frozen=True, slots=True)
class BrokerListening:
    """With ``--advertise``: a listener for a broker was opened."""

    node_id: int
    upstream: str
    listener: str

    def __str__(self) -> str:
        return f"listening on {self.listener} -> {self.upstream} (broker {self.node_id})"


@dataclass(frozen=True, slots=True)
class BrokerMoved:
    """With ``--advertise``: a broker has another address, which is now the upstream of its listener."""

    node_id: int
    before: str
    now: str

    def __str__(self) -> str:
        return f"broker {self.node_id} has moved from {self.before} to {self.now}"


@dataclass(frozen=True, slots=True)
class BrokerListenerClosed:
    """With ``--advertise``: the listener of a broker was closed."""

    node_id: int
    upstream: str
    reason: str

    def __str__(self) -> str:
        return f"closed the listener of broker {self.node_id} ({self.upstream}): {self.reason}"


@dataclass(frozen=True, slots=True)
class BrokerNotListening:
    """With ``--advertise``: no listener could be opened for a broker."""

    node_id: int
    upstream: str
    reason: str

    def __str__(self) -> str:
        return (
            f"no listener for broker {self.node_id} ({self.upstream}): {self.reason}; clients are directed past the "
            f"proxy: choose its port with --advertise HOST:{self.node_id}=PORT"
        )


@dataclass(frozen=True, slots=True)
class NewerVersion:
    """Responses of an API version without a schema may contain addresses, which are not rewritten."""

    api_key: int
    api_version: int

    def __str__(self) -> str:
        return (
            f"API key {self.api_key} version {self.api_version} is newer than this kproxy: addresses in its responses "
            "are not rewritten; --cap-versions limits clients to known versions"
        )


@dataclass(frozen=True, slots=True)
class FrameTooLarge:
    """A frame that may contain addresses was too large to hold and was forwarded unchanged. Reported once per API."""

    api_key: int
    size: int

    def __str__(self) -> str:
        return (
            f"a response of {self.size} bytes (API key {self.api_key}) was forwarded without rewriting addresses: "
            "it is too large"
        )


Event: TypeAlias = (
    UpstreamUnreachable
    | UpstreamReachable
    | UpstreamIsProxy
    | OutOfResources
    | InspectorLost
    | InspectorRestarting
    | SpawnerKilled
    | InspectorResumed
    | InspectorNotResponding
    | InspectorResponds
    | InspectorGivenUp
    | InspectionBehind
    | BrokerListening
    | BrokerMoved
    | BrokerListenerClosed
    | BrokerNotListening
    | NewerVersion
    | FrameTooLarge
)
Report: TypeAlias = Callable[[Event], None]
