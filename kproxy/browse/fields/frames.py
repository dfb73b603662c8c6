"""The frame of a line: its bytes, and the message that they are."""

from __future__ import annotations

import base64
import binascii

from dissectors.messages.message import Message, read_request, read_response
from kproxy.trace.lines import RequestLine, ResponseLine

FrameLine = RequestLine | ResponseLine


def frame_of(line: FrameLine) -> bytes | None:
    """The bytes of a frame, those of secrets zero; None if the trace has none."""
    if line.frame is None:
        return None
    try:
        return base64.b64decode(line.frame, validate=True)
    except (binascii.Error, ValueError):
        return None


def message_of(line: FrameLine) -> Message | None:
    """The frame of a line, as read by the right layout; None if there is none."""
    frame = frame_of(line)
    if frame is None or len(frame) < 4:
        return None
    if isinstance(line, RequestLine):
        return read_request(frame)
    if line.api_key is None or line.api_version is None:
        return None
    return read_response(frame, line.api_key, line.api_version)


def topic_names(line: FrameLine) -> dict[str, str | None]:
    """The names of the topic ids in a line, as far as it has them."""
    return {entry.topic_id: entry.topic for entry in line.topics if entry.topic_id}
