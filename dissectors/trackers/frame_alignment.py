"""Whether the two directions of a connection are in step: what length prefixes that cannot be one may come from."""

from __future__ import annotations

from typing import Any

from dissectors.connections.connection import LEAST_REQUEST, LEAST_RESPONSE
from dissectors.connections.events import BytesSkipped, Direction, FramingLost, RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.triggers import FrameFlags

#: By direction: what a frame is, who writes it, and its shortest length prefix.
KINDS = ("request", "response")
WRITERS = ("client", "broker")
LEAST = (LEAST_REQUEST, LEAST_RESPONSE)

#: What is wrong with a length prefix: too large, negative, too small, or kproxy does not know where frames begin.
OVER_MAX, NEGATIVE, TINY, OUT_OF_STEP = "over max", "negative", "tiny", "out of step"


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped), broken=True, only=FrameFlags.IRREGULAR, per="connection"
)
class FrameAlignment:
    """Where the latest frame that did not read well ended, and whether bytes went unseen, in each direction."""

    def __init__(self) -> None:
        self._misread_to = [-1, -1]
        self._unseen = [False, False]

    def observe(self, event: RequestReceived | ResponseReceived | BytesSkipped, _: Any) -> None:
        """Take a frame or a gap."""
        if isinstance(event, BytesSkipped):
            self._unseen[event.direction] = True
            return
        if event.damaged:
            return
        message = event.message
        if message is None or message.error or message.trailing or message.diagnosis:
            direction = Direction.REQUEST if isinstance(event, RequestReceived) else Direction.RESPONSE
            self._misread_to[direction] = event.offset + 4 + event.size

    def follows_misread(self, event: FramingLost) -> bool:
        """Whether the frame before did not read well either."""
        return self._misread_to[event.direction] == event.offset

    def verdict(self, event: FramingLost, *, midstream: bool) -> str | None:
        """What is wrong with this length prefix, None for another protocol.

        `midstream`: the connection was open before it was seen.
        """
        if event.protocol is not None or event.size is None:
            return None
        if midstream or self._unseen[event.direction] or self.follows_misread(event):
            return OUT_OF_STEP
        if event.size < 0:
            return NEGATIVE
        return TINY if event.size < LEAST[event.direction] else OVER_MAX
