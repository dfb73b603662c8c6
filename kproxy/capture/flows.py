"""TCP connections as a capture shows them, and what happens on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from kproxy.capture.links import Endpoint

#: `replaced`: the same addresses and ports began another connection; `timeout`: pushed out by newer connections.
How: TypeAlias = Literal["fin", "reset", "replaced", "timeout", "end of capture"]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """One TCP connection.

    What `endpoints[0]` sends has direction 0, what `endpoints[1]` sends direction 1. The client is `endpoints[0]`,
    certainly if the handshake was captured; on a flow that was met `midstream` it is a guess by port numbers, and
    whoever can tell requests from responses knows better.
    """

    id: int
    endpoints: tuple[Endpoint, Endpoint]
    midstream: bool

    @property
    def client(self) -> Endpoint:
        return self.endpoints[0]

    @property
    def server(self) -> Endpoint:
        return self.endpoints[1]


class FlowOpened(NamedTuple):
    """A connection is seen for the first time."""

    flow: Flow
    at: int


class BytesCaptured(NamedTuple):
    """The next bytes of one direction; `at` is when the packet came that made them readable."""

    flow: Flow
    direction: int
    at: int
    data: bytes


class BytesLost(NamedTuple):
    """The next `size` bytes of one direction travelled but are not in the capture."""

    flow: Flow
    direction: int
    at: int
    size: int


class FlowEnded(NamedTuple):
    """Nothing follows on this flow. `by` is the direction that first sent a FIN, or the reset; None for other ends."""

    flow: Flow
    at: int
    how: How
    by: int | None


Event: TypeAlias = FlowOpened | BytesCaptured | BytesLost | FlowEnded
