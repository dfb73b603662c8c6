"""The events of a connection: frames, gaps, deadlines, and its end. Times are nanoseconds since the epoch."""

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

#: The reasons for gaps in a relay's connections: the inspector could not keep up, or was restarted.
INSPECTOR_WAS_BEHIND = "the inspector was behind"
INSPECTOR_WAS_RESTARTED = "the inspector was restarted"


#: A frame is reported as incomplete if none of its bytes arrive for this long (ns). The next chunk usually completes a
#: frame, so incomplete frames are not examined earlier.
INCOMPLETE_AFTER = 30 * 1_000_000_000


class Direction(IntEnum):
    """The direction of bytes: REQUEST is client to server, RESPONSE is server to client."""

    REQUEST = 0
    RESPONSE = 1


@dataclass(slots=True)
class ConnectionOpened:
    """A connection was opened. Addresses are ``host:port``; `listener` is the relay's address, if a relay accepted it.

    `midstream`: the capture may begin in the middle of a frame. `resumed`: an earlier inspector has seen the beginning.
    `plaintext_upstream`: a relay terminates the client's TLS and sends plaintext to the server.
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
    captured. While the response is awaited, this object represents the exchange: in `line` and `attempt`, the caller
    and `dissectors.trackers.producers` keep what they need when the response comes.
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
    """A whole response frame with its request; None if no request in flight has its correlation id.

    `overtaken` is the number of older requests still in flight, although Kafka responds in order.
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
        """The body of the request, or None if the request is unknown or not well-formed."""
        request = self.request
        return request.message.body if request is not None and request.message.well_formed else None


#: For `isinstance` on each event: `A | B` would create a new union each time.
FRAME_EVENTS: Final = (RequestReceived, ResponseReceived)


@dataclass(slots=True)
class RecordsDecoded:
    """The keys and values of the records in a frame were decoded; nulls are left out. Follows the event of the frame.

    `offset` is the position of the frame in its direction.

    `spans`, by path, are the positions of the keys and values in the frame, including their lengths; for compressed
    records, they are the span of the compressed bytes. It is None until a rule needs it.
    """

    at: int
    offset: int
    message: Message
    parts: list[DecodedPart]
    spans: dict[str, tuple[int, int]] | None = None


@dataclass(slots=True)
class TokenReceived:
    """A SASL token outside Kafka's framing of requests (after SaslHandshake v0).

    `data` is a secret: only `dissectors.sasl` may read it. `damaged` is the reason if it is not whole.
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

    `protocol` is the detected protocol, if any: ``TLS``, ``HTTP``, ``SSH``. `size` is the value of the length prefix.
    `start` are the first bytes, if frames preceded them.
    """

    direction: Direction
    offset: int
    at: int
    reason: str
    protocol: str | None = None
    hint: str | None = None
    size: int | None = None
    start: bytes = field(default=b"", repr=False, compare=False)  # its length depends on the chunks


@dataclass(slots=True)
class ProxyHeaderReceived:
    """A PROXY protocol header (HAProxy's, v1 or v2) of `size` bytes before the first frame."""

    at: int
    size: int
    version: int


@dataclass(slots=True)
class TlsFailed:
    """TLS between a relay and one of its peers could not be established, or broke off.

    `side` is that peer (``client``, ``server``), `by` is the side that gave up: the peer, or the relay (``proxy``).
    `name` is the host name requested: by a client in SNI, or by the relay from the server. `detail` is the message of
    the TLS library, `remedy` the relay's advice.
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

    REFUSED = "refused"  # the host answers that nothing is listening on the port
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
    """Bytes that were not decoded: missing from the capture, or skipped while looking for a frame.

    `offset` is the position of the first of the `size` bytes in the stream of their direction; `frames` is the number
    of whole frames among them, 0 if unknown.
    """

    direction: Direction
    offset: int
    at: int
    size: int
    frames: int
    reason: str


@dataclass(slots=True)
class BytesDiffer:
    """TCP retransmitted bytes, and `differing` of the packet's `size` bytes differ from the first copy.

    `offset` is the position of the first such byte in the TCP stream of its direction. The first copy was decoded.
    """

    direction: Direction
    offset: int
    at: int
    size: int
    differing: int


@dataclass(slots=True)
class FrameIncomplete:
    """A frame is still incomplete `INCOMPLETE_AFTER` ns after its last bytes; `have` bytes were received.

    `size` is its total size, 0 while that is unknown. `nearly_whole` is the message in it if only a few bytes are
    missing. `is_final` tells that there are no more bytes: the frame was given as a whole, not received. `offset` is
    its first byte in its direction of the stream, set if `is_final`.
    """

    at: int
    direction: Direction
    have: int
    size: int
    nearly_whole: Message | None = None
    is_final: bool = False
    offset: int = 0

    @property
    def whole(self) -> Message | None:
        """The message, if the bytes received already form a whole message: then the length prefix must be wrong."""
        return self.nearly_whole if self.nearly_whole is not None and self.nearly_whole.well_formed else None


@dataclass(slots=True)
class ConnectionEnded:
    """The end of a connection. `unanswered` are the requests in flight, oldest first.

    `incomplete_frames` are the sizes of incomplete frames, by direction. `by` is the side that ended the connection
    (``client``, ``server``, ``proxy``) and `how` is ``fin``, ``reset`` or a description; both are None if unknown.
    `unacknowledged` is a direction and the number of times that TCP sent its last bytes without an acknowledgement.
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

    `code` is the code of the rule, or the name that a tracker gave to the deadline; `about` is the value given with it.
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

    # Not called `message`: rules select events by that attribute, and a bug in kproxy is not a problem with that API.
    @property
    def frame_message(self) -> Message | None:
        """The message of the frame being inspected, if any."""
        message: Message | None = getattr(self.about, "message", None)
        return message


@dataclass(slots=True)
class JudgingLimited:
    """The rules have not reported everything that is wrong with a frame, because that would take too long.

    `unfinished` are the codes of the rules that stopped because the work limit for the frame was reached. `withheld`
    counts, by code, the findings beyond the maximum that a rule reports for one frame.
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
