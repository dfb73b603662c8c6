"""The interface of interceptors: what they receive, and the actions that they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from dissectors.connections.events import Direction


class RequestHeader(NamedTuple):
    """The start of a request's header, the same in all versions. Responses come with their request's header."""

    api_key: int
    api_version: int
    correlation_id: int


@dataclass(frozen=True, slots=True)
class Forward:
    """Send the frame unchanged."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Send this frame instead; it begins with its size."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Delay:
    """Send the frame, and everything after it in its direction, after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Send nothing instead of the frame."""


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Send nothing more, and close the connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Do not forward the request; send this response to the client, after the responses to earlier requests."""

    frame: bytes


Action: TypeAlias = Forward | Replace | Delay | Drop | CloseConnection | Answer

FORWARD = Forward()


class Interceptor(Protocol):
    """Decides what happens to the frames of one connection.

    Attributes:
        answers: Whether `on_request` may return `Answer`. Otherwise, only requests with wanted responses are tracked.
    """

    answers: bool

    def wants(self, direction: Direction, api_key: int, api_version: int) -> bool:
        """Whether `on_request` or `on_response` gets the frames of this API version.

        These frames are held until they are complete; all others stream through. Must depend on nothing but the
        arguments: it is called once per connection and API version. A response has the key and version of its request.
        """
        ...

    def on_request(self, frame: bytes, header: RequestHeader) -> Action:
        """Decide what to do with a complete request; `frame` begins with its size. Must never raise."""
        ...

    def on_response(self, frame: bytes, header: RequestHeader) -> Action:
        """Decide what to do with a complete response. `Answer` is not allowed."""
        ...
