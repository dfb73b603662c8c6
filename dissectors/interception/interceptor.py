"""Interceptor: what decides about frames on their way, and the decisions that it can take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from dissectors.connections.events import Direction


class RequestHeader(NamedTuple):
    """The start of a request's header, which is the same in all versions. A response is given that of its request."""

    api_key: int
    api_version: int
    correlation_id: int


@dataclass(frozen=True, slots=True)
class Forward:
    """Let the frame pass as it is."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Send this frame, length prefix included, instead."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Delay:
    """Let the frame, and what follows it in its direction, pass after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Send nothing instead."""


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Send nothing more, and close the connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Do not forward the request; send this response to the client when those to earlier requests are sent."""

    frame: bytes


Action: TypeAlias = Forward | Replace | Delay | Drop | CloseConnection | Answer

FORWARD = Forward()


class Interceptor(Protocol):
    """Decides about the frames of one connection.

    `answers` is whether `on_request` may return `Answer`: only then are requests tracked whose responses nobody wants.
    """

    answers: bool

    def wants(self, direction: Direction, api_key: int, api_version: int) -> bool:
        """Whether to be shown such frames.

        They are held back until they are whole; all others stream through. For a response, key and version are those
        of its request.
        """
        ...

    def on_request(self, frame: bytes, header: RequestHeader) -> Action:
        """Decide about a whole request; `frame` begins with the length prefix. Must not raise on any bytes."""
        ...

    def on_response(self, frame: bytes, header: RequestHeader) -> Action:
        """The same for a response; `Answer` is not possible."""
        ...
