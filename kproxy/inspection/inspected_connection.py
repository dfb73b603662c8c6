"""An inspected connection: its state, and what callers see of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dissectors.connections.connection import Connection
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from kproxy.trace.lines import OpenLine, RequestLine


class Progress(NamedTuple):
    """How far one direction of a connection was inspected: bytes up to the end of a frame, and whole frames."""

    bytes: int
    frames: int
    at_frame: bool = True  # the next byte is the first of a frame


class OpenConnection(NamedTuple):
    """An open connection: bytes and complete frames per direction; `waiting` yields its unanswered requests."""

    opened: OpenLine
    bytes: tuple[int, int]
    frames: tuple[int, int]
    in_flight: int
    waiting: Iterator[RequestLine]


@dataclass(slots=True)
class InspectedConnection:
    """The state of one connection in the inspector. Lists have an entry per direction.

    Attributes:
        opened: The line in the trace that opens it.
        number: The caller's number for it.
        received_at: When the last bytes of an incomplete frame were received (ns).
        reported: The offset of the last request that was reported as waiting, and the steps that had passed.
    """

    opened: OpenLine
    connection: Connection
    connection_state: ConnectionState
    number: int
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    frames: list[int] = field(default_factory=lambda: [0, 0])
    received_at: list[int] = field(default_factory=lambda: [0, 0])
    reported: tuple[int, int] = (-1, 0)

    # Every frame's line needs these three: as attributes of `opened` they would be properties, which are slower.
    connection_id: str = field(init=False)
    client: str = field(init=False)
    server: str = field(init=False)
    _authentication: Authentication = field(init=False)

    def __post_init__(self) -> None:
        self._authentication = self.connection_state.state(Authentication)
        self.connection_id, self.client, self.server = self.opened.connection_id, self.opened.client, self.opened.server

    @property
    def principal(self) -> str | None:
        """Who the client has logged in as."""
        return self._authentication.principal


def principal(connection_state: ConnectionState) -> str | None:
    """Return who the client of a connection has logged in as."""
    return connection_state.state(Authentication).principal
