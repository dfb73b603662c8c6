"""FrameAlignment: whether framing was already doubtful before an invalid length prefix."""

from __future__ import annotations

from typing import Any

from dissectors.connections.connection import MIN_REQUEST, MIN_RESPONSE
from dissectors.connections.events import BytesSkipped, Direction, FramingLost, RequestReceived, ResponseReceived
from dissectors.messages.message import Message, read_request, read_response
from dissectors.trackers import tracker
from dissectors.trackers.triggers import FrameFlags

#: The largest frame that is kept to be read again.
_MAX_KEPT = 64 << 10

#: By direction: the kind of frame, its writer, and its smallest length prefix.
FRAME_KINDS = ("request", "response")
WRITERS = ("client", "broker")
MIN_SIZES = (MIN_REQUEST, MIN_RESPONSE)

#: The problem with a length prefix: too large, negative, too small, or the start of the frame is unknown.
OVER_MAX, NEGATIVE, TINY, OUT_OF_STEP = "over max", "negative", "tiny", "out of step"


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped), broken=True, only=FrameFlags.IRREGULAR, per="connection"
)
class FrameAlignment:
    """The end of the latest frame that did not decode, and whether bytes were lost, by direction."""

    def __init__(self) -> None:
        self._misread_ends = [-1, -1]
        self._misread_messages: list[Message | None] = [None, None]
        self._has_gap = [False, False]
        self._explained_end = -1

    def observe(self, event: RequestReceived | ResponseReceived | BytesSkipped, _: Any) -> None:
        """Observe a frame or a gap."""
        if isinstance(event, BytesSkipped):
            self._has_gap[event.direction] = True
            return
        if event.damaged:
            return
        message = event.message
        if message is None or message.error or message.trailing or message.diagnosis:
            direction = Direction.REQUEST if isinstance(event, RequestReceived) else Direction.RESPONSE
            self._misread_ends[direction] = event.offset + 4 + event.size
            self._misread_messages[direction] = (
                message if message is not None and len(message.frame) <= _MAX_KEPT else None
            )

    def note_explained(self, event: RequestReceived) -> None:
        """Record that a rule has reported why no request begins after this one."""
        self._explained_end = event.offset + 4 + event.size

    def follows_misread(self, event: FramingLost) -> bool:
        """Whether the previous frame did not decode either."""
        return self._misread_ends[event.direction] == event.offset

    def frame_with_next_bytes(self, event: FramingLost) -> tuple[Message, int] | None:
        """Return the previous frame, extended by bytes beyond its length prefix, and the number of these bytes.

        Return None if no number of these bytes makes the frame decode to its last byte.
        """
        misread = self._misread_messages[event.direction]
        if misread is None or not self.follows_misread(event):
            return None
        for surplus in range(1, len(event.start) + 1):
            frame = misread.frame + event.start[:surplus]
            message = (
                read_request(frame) if misread.is_request else read_response(frame, misread.api_key, misread.version)
            )
            if message.well_formed and not message.unusual:
                return message, surplus
        return None

    def classify(self, event: FramingLost, *, midstream: bool) -> str | None:
        """Return the problem with this length prefix; None for another protocol, or if a rule has explained it.

        `midstream`: the connection was open before the capture began.
        """
        if event.protocol is not None or event.size is None:
            return None
        if event.direction is Direction.REQUEST and event.offset == self._explained_end:
            return None
        if midstream or self._has_gap[event.direction] or self.follows_misread(event):
            return OUT_OF_STEP
        if event.size < 0:
            return NEGATIVE
        return TINY if event.size < MIN_SIZES[event.direction] else OVER_MAX
