"""What a connection tells: frames, and what became of bytes that are none. Times are nanoseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

from dissectors.connections.tls_failures import TlsReason
from dissectors.failures import Failure
from dissectors.messages.message import Message

#: Why frames went by a relay unseen: its inspector could not keep up.
BEHIND = "the inspector was behind"


class Direction(IntEnum):
    """Which way bytes travel: from the client, or to it."""

    REQUEST = 0
    RESPONSE = 1


@dataclass(slots=True)
class ConnectionOpened:
    """A connection begins. Addresses are ``host:port``; `listener` is where a relay took it.

    `midstream`: its first bytes may be the middle of a frame.
    """

    at: int
    client: str
    server: str
    listener: str | None = None
    tls: bool = False
    midstream: bool = False


@dataclass(slots=True)
class RequestReceived:
    """A whole request frame. `offset` counts the bytes of its direction before it.

    `expects_response` is false for a Produce with acks=0; `damaged` says why a frame could not be had whole. `note` is
    for whoever watches: it stays with the request and comes back with its response.
    """

    at: int
    offset: int
    size: int
    message: Message
    expects_response: bool = True
    damaged: str | None = None
    note: Any = None


@dataclass(slots=True)
class ResponseReceived:
    """A whole response frame with the request that it answers, None if nobody asked.

    `passed_over` counts the requests that are older and still wait: Kafka answers in order.
    """

    at: int
    offset: int
    size: int
    correlation_id: int
    message: Message | None
    request: RequestReceived | None
    passed_over: int = 0
    damaged: str | None = None

    @property
    def asked(self) -> dict[str, Any] | None:
        """The body of the request, None if it is not known or does not read well."""
        request = self.request
        return request.message.body if request is not None and request.message.reads_well else None


@dataclass(slots=True)
class TokenReceived:
    """A SASL token outside Kafka's framing of requests (after SaslHandshake v0). Its bytes are a secret."""

    at: int
    offset: int
    size: int
    direction: Direction


@dataclass(slots=True)
class FramingLost:
    """No Kafka frame begins here; nothing more is said of this direction.

    `protocol` names what it is instead, if that is known: ``TLS``, ``HTTP``, ``SSH``; `size` is what the length prefix
    says.
    """

    direction: Direction
    offset: int
    at: int
    reason: str
    protocol: str | None = None
    hint: str | None = None
    size: int | None = None


@dataclass(slots=True)
class ProxyHeaderReceived:
    """A PROXY protocol header (HAProxy's, v1 or v2) before the first frame; `size` bytes were passed over."""

    at: int
    size: int
    version: int


@dataclass(slots=True)
class TlsFailed:
    """TLS between a relay and one of its peers could not be established, or broke off.

    `side` is that peer (``client``, ``server``), `by` who gave up: it, or the relay (``proxy``). `name` is the host
    name that the certificate is for: SNI of a client, the relay's own for the server. `detail` is what the TLS library
    says.
    """

    at: int
    side: str
    by: str
    reason: TlsReason
    name: str | None = None
    detail: str = ""


@dataclass(slots=True)
class BytesSkipped:
    """Bytes that were not decoded: lost by the capture, or passed over while looking for a frame."""

    direction: Direction
    offset: int
    at: int
    size: int
    frames: int
    reason: str


@dataclass(slots=True)
class FrameInPart:
    """A frame is under way: `have` of its bytes are here, and it says to have `size` (0 as long as that is not known).

    Told where a chunk ends inside a frame, so unlike other events it depends on how a stream is cut. With `have` 0 no
    frame is under way any more.
    """

    at: int
    direction: Direction
    have: int
    size: int


@dataclass(slots=True)
class ConnectionEnded:
    """The end of a connection; `unanswered` in the order they were asked.

    `half_frames` are the bytes of a frame that never became whole, by direction. `by` is who ended it (``client``,
    ``server``, ``proxy``) and `how` (``fin``, ``reset``, or in words), None if that is not known.
    """

    at: int
    unanswered: list[RequestReceived] = field(default_factory=list)
    half_frames: tuple[int, int] = (0, 0)
    by: str | None = None
    how: str | None = None


@dataclass(slots=True)
class DeadlinePassed:
    """What was expected has not happened by `at`.

    `code` is the rule that waited for it, or the name that a tracker gave the deadline; `about` was put down with it.
    """

    at: int
    code: str
    about: Any = None


@dataclass(slots=True)
class InspectionFailed:
    """A step of the inspection has raised an unexpected exception: a bug in kproxy.

    `about` is the event that was looked at, None where there was none yet.
    """

    at: int
    failure: Failure
    about: Any = None

    # Not called `message`: a finding of ours is not one about that API.
    @property
    def frame_message(self) -> Message | None:
        """The message of the frame, if there is one."""
        found: Message | None = getattr(self.about, "message", None)
        return found


Event: TypeAlias = (
    ConnectionOpened
    | RequestReceived
    | ResponseReceived
    | TokenReceived
    | FramingLost
    | ProxyHeaderReceived
    | TlsFailed
    | BytesSkipped
    | FrameInPart
    | ConnectionEnded
    | DeadlinePassed
    | InspectionFailed
)
