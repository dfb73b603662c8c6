"""The events of a connection: frames, gaps, deadlines, its end. Times are nanoseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from dissectors.connections.tls_failures import TlsReason
from dissectors.failures import Failure
from dissectors.messages.message import Message
from dissectors.values import DecodedPart

#: The reason of gaps in a relay's connections: the inspector could not keep up.
INSPECTOR_WAS_BEHIND = "the inspector was behind"
INSPECTOR_WAS_RESTARTED = "the inspector was restarted"


#: A frame of which no more arrives for this long (ns) is reported as incomplete. Most frames that a chunk does not
#: complete are complete with the next one, so nothing looks at them before.
INCOMPLETE_AFTER = 30 * 1_000_000_000


class Direction(IntEnum):
    """REQUEST is client to server; RESPONSE is server to client."""

    REQUEST = 0
    RESPONSE = 1


@dataclass(slots=True)
class ConnectionOpened:
    """A connection was opened. Addresses are ``host:port``; `listener` is the relay's address, if a relay accepted it.

    `midstream`: the capture may begin in the middle of a frame. `resumed`: an earlier inspector has seen the beginning.
    `plaintext_upstream`: a relay ends the client's TLS and sends plaintext to the server.
    """

    at: int
    client: str
    server: str
    listener: str | None = None
    tls: bool = False
    midstream: bool = False
    resumed: bool = False
    plaintext_upstream: bool = False


class RequestReceived(Struct):
    """A whole request frame. `offset` is its position in the stream of its direction.

    `expects_response` is False for a Produce with acks=0. `damaged` is the reason why only part of the frame was
    captured. It is the one object of an exchange while its response is awaited: `line` and `attempt` are what the
    caller and `dissectors.trackers.producers` keep for the response.
    """

    at: int
    offset: int
    size: int
    message: Message
    expects_response: bool = True
    damaged: str | None = None
    line: Any = None
    attempt: Any = None


class ResponseReceived(Struct):
    """A whole response frame with its request, None if no request in flight has its correlation id.

    `overtaken` is the number of older requests still in flight: Kafka responds in order.
    """

    at: int
    offset: int
    size: int
    correlation_id: int
    message: Message | None
    request: RequestReceived | None
    overtaken: int = 0
    damaged: str | None = None

    @property
    def request_body(self) -> dict[str, Any] | None:
        """The body of the request; None if the request is unknown or not well-formed."""
        request = self.request
        return request.message.body if request is not None and request.message.well_formed else None


#: For `isinstance` on each event: `A | B` would create a new union each time.
FRAME_EVENTS: Final = (RequestReceived, ResponseReceived)


@dataclass(slots=True)
class RecordsDecoded:
    """The keys and values of the records in a frame were decoded; nulls are left out. It follows the frame's event.

    `offset` is that of the frame in its direction.

    `spans`, by path, are those of the keys and values in the frame, with their lengths; those of compressed records
    have the span of the compressed bytes. None until a rule needs them.
    """

    at: int
    offset: int
    message: Message
    parts: list[DecodedPart]
    spans: dict[str, tuple[int, int]] | None = None


@dataclass(slots=True)
class TokenReceived:
    """A SASL token outside Kafka's framing of requests (after SaslHandshake v0).

    `data` is a secret: nothing but `dissectors.sasl` may read it. `damaged` says why it is not whole.
    """

    at: int
    offset: int
    size: int
    direction: Direction
    data: bytes = field(default=b"", repr=False)
    damaged: str | None = None


@dataclass(slots=True)
class FramingLost:
    """No Kafka frame begins here; this direction yields no more events.

    `protocol` is the detected protocol, if any: ``TLS``, ``HTTP``, ``SSH``. `size` is the value of the length prefix;
    `start` are the first bytes, if frames came before.
    """

    direction: Direction
    offset: int
    at: int
    reason: str
    protocol: str | None = None
    hint: str | None = None
    size: int | None = None
    start: bytes = field(default=b"", repr=False, compare=False)  # it depends on the chunks


@dataclass(slots=True)
class ProxyHeaderReceived:
    """A PROXY protocol header (HAProxy's, v1 or v2) of `size` bytes before the first frame."""

    at: int
    size: int
    version: int


@dataclass(slots=True)
class TlsFailed:
    """TLS between a relay and one of its peers could not be established, or broke off.

    `side` is that peer (``client``, ``server``), `by` who gave up: it, or the relay (``proxy``). `name` is the host
    name that the certificate is for: SNI of a client, the relay's own for the server. `detail` is what the TLS library
    says, `remedy` the relay's advice.
    """

    at: int
    side: str
    by: str
    reason: TlsReason
    name: str | None = None
    detail: str = ""
    remedy: str | None = None


class ConnectFailure(StrEnum):
    """Why a client could not connect."""

    REFUSED = "refused"  # the host answers that nothing listens on the port
    NO_ANSWER = "no answer"  # SYN packets stay unanswered
    NAME_NOT_FOUND = "name not found"  # the client's name server does not know the host


@dataclass(slots=True)
class ConnectFailed:
    """A client could not connect. `server` is ``host:port``, or the name that it could not resolve.

    `attempts` counts the SYN packets of this connection, or 1.
    """

    at: int
    client: str
    server: str
    reason: ConnectFailure
    attempts: int = 1


@dataclass(slots=True)
class BytesSkipped:
    """Bytes that were not decoded: missing in the capture, or skipped while looking for a frame.

    `offset` is that of the first of `size` bytes in the stream of its direction; `frames` is the number of whole frames
    among them, 0 if unknown.
    """

    direction: Direction
    offset: int
    at: int
    size: int
    frames: int
    reason: str


@dataclass(slots=True)
class BytesDiffer:
    """TCP has sent bytes again, and `differing` of the packet's `size` bytes are not what they were.

    `offset` is that of the first such byte in the TCP stream of its direction. The first copy was decoded.
    """

    direction: Direction
    offset: int
    at: int
    size: int
    differing: int


@dataclass(slots=True)
class FrameIncomplete:
    """A frame is still incomplete `INCOMPLETE_AFTER` its last bytes: `have` of them were received.

    `size` is its total size, 0 while that is unknown. `nearly_whole` is the message in it if only a few
    bytes are missing.
    """

    at: int
    direction: Direction
    have: int
    size: int
    nearly_whole: Message | None = None

    @property
    def whole(self) -> Message | None:
        """The message that the bytes are already, to the last one, if any: the length prefix is wrong."""
        return self.nearly_whole if self.nearly_whole is not None and self.nearly_whole.well_formed else None


@dataclass(slots=True)
class ConnectionEnded:
    """The end of a connection. `unanswered` are the requests in flight, oldest first.

    `incomplete_frames` are the bytes of incomplete frames, by direction. `by` is the side that ended it (``client``,
    ``server``, ``proxy``) and `how` is ``fin``, ``reset`` or a description; both are None if unknown. `unacknowledged`:
    TCP has sent the last bytes of a direction so many times, and the other side has not acknowledged them.
    """

    at: int
    unanswered: list[RequestReceived] = field(default_factory=list)
    incomplete_frames: tuple[int, int] = (0, 0)
    by: str | None = None
    how: str | None = None
    unacknowledged: tuple[Direction, int] | None = None


@dataclass(slots=True)
class DeadlinePassed:
    """An expected event has not happened by `at`.

    `code` is the code of the rule, or the name that a tracker gave the deadline; `about` is the value given with it.
    """

    at: int
    code: str
    about: Any = None


@dataclass(slots=True)
class InspectionFailed:
    """A step of the inspection raised an unexpected exception: a bug in kproxy.

    `about` is the event being inspected, None if there was none yet.
    """

    at: int
    failure: Failure
    about: Any = None

    # Not called `message`: rules select events by that attribute, and a bug in kproxy is not a problem of that API.
    @property
    def frame_message(self) -> Message | None:
        """The message of the frame being inspected, if any."""
        message: Message | None = getattr(self.about, "message", None)
        return message


@dataclass(slots=True)
class JudgingLimited:
    """The rules have not reported all that is wrong with a frame, because that would take too long.

    `unfinished` are the codes of the rules that stopped when the work for the frame was used up. `withheld` counts,
    by code, the findings beyond the most that one rule reports for a frame.
    """

    at: int
    message: Message
    unfinished: tuple[str, ...] = ()
    withheld: Mapping[str, int] = field(default_factory=dict)


Event: TypeAlias = (
    ConnectionOpened
    | RequestReceived
    | ResponseReceived
    | RecordsDecoded
    | TokenReceived
    | FramingLost
    | ProxyHeaderReceived
    | TlsFailed
    | ConnectFailed
    | BytesSkipped
    | BytesDiffer
    | FrameIncomplete
    | ConnectionEnded
    | DeadlinePassed
    | InspectionFailed
    | JudgingLimited
)
