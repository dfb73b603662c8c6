"""The frame of a trace line: its bytes and the decoded message."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from dissectors import embedded
from dissectors.messages.message import Message, read_request, read_response
from kproxy.trace.lines import RequestLine, ResponseLine

FrameLine = RequestLine | ResponseLine


def frame_of(line: FrameLine) -> bytes | None:
    """Return the frame's bytes with secrets zeroed; None if the trace lacks them."""
    if line.frame is None:
        return None
    try:
        return base64.b64decode(line.frame, validate=True)
    except (binascii.Error, ValueError):
        return None


def message_of(line: FrameLine) -> Message | None:
    """Return the decoded message of a line; None if the trace lacks its bytes."""
    frame = frame_of(line)
    if frame is None or len(frame) < 4:
        return None
    if isinstance(line, RequestLine):
        return read_request(frame)
    if line.api_key is None or line.api_version is None:
        return None
    return read_response(frame, line.api_key, line.api_version)


def topic_names(line: FrameLine) -> dict[str, str | None]:
    """Return the topic names in a line by topic id."""
    return {entry.topic_id: entry.topic for entry in line.topics if entry.topic_id}


def body_of(line: FrameLine) -> dict[str, Any] | None:
    """Return the decoded body, as in a trace at full detail; None if the line has neither the body nor the bytes."""
    if line.body is not None or line.not_decoded:
        return line.body
    message = message_of(line)
    return None if message is None else embedded.presentable_body(message, topic_names(line).get)
