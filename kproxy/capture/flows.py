"""TCP connections in a capture, and their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from kproxy.capture.links import Endpoint

#: `replaced`: the same addresses and ports started a new connection; `timeout`: evicted by newer connections;
#: `refused`, `no answer`: the connection was never established.
How: TypeAlias = Literal["fin", "reset", "replaced", "timeout", "end of capture", "refused", "no answer"]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """One TCP connection.

    Bytes from `endpoints[0]` have direction 0, bytes from `endpoints[1]` direction 1. `endpoints[0]` is the client. If
    the handshake was not captured (`midstream`), this is a guess from the port numbers, and the content may show that
    it is wrong.
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
    """A connection was seen for the first time."""

    flow: Flow
    at: int


class BytesCaptured(Struct):
    """The next bytes of one direction. `at` is the time (ns) of the packet that completed them."""

    flow: Flow
    direction: int
    at: int
    data: bytes


class BytesLost(NamedTuple):
    """The next `size` bytes of one direction are missing from the capture."""

    flow: Flow
    direction: int
    at: int
    size: int


class SegmentDiffers(NamedTuple):
    """A packet repeats bytes, `differing` of which have changed; the first copy was delivered.

    `offset` is the offset of the first changed byte in its direction, and `size` the number of bytes in the packet.
    """

    flow: Flow
    direction: int
    at: int
    offset: int
    size: int
    differing: int


class Unacknowledged(NamedTuple):
    """Bytes at the end of a direction that TCP has sent `times` times without an acknowledgement."""

    direction: int
    times: int


class FlowEnded(NamedTuple):
    """The flow ended. `by` is the direction that sent the first FIN or the reset, None if it ended otherwise.

    `attempts` is the number of SYN packets of a connection that was never established; it was given up at `at`.
    """

    flow: Flow
    at: int
    how: How
    by: int | None
    attempts: int = 0
    unacknowledged: Unacknowledged | None = None


class NameNotFound(NamedTuple):
    """A name server answered that a host name does not exist."""

    at: int
    client: Endpoint
    name: str


Event: TypeAlias = FlowOpened | BytesCaptured | BytesLost | SegmentDiffers | FlowEnded | NameNotFound
