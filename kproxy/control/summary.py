"""Trace lines for viewers: at detail `summary`, optionally with the `frame` and with decoded records."""

from __future__ import annotations

from kproxy.trace.lines import FRAME_LINES, Line
from kproxy.trace.record_values import record_values


def take_frame(line: Line) -> str | None:
    """Remove the frame (base64) from a line, and return it."""
    if not isinstance(line, FRAME_LINES):
        return None
    frame, line.frame = line.frame, None
    return frame


def strip(line: Line) -> str | None:
    """Remove from a line what `Detail.SUMMARY` does not have; return the frame (base64) that it had."""
    if not isinstance(line, FRAME_LINES):
        return None
    line.body = None
    for finding in line.findings:
        finding.excerpt = None
    frame, line.frame = line.frame, None
    return frame


def has_decoded_records(line: Line) -> bool:
    """Whether the line has decoded keys, values or headers of records."""
    body = line.body if isinstance(line, FRAME_LINES) else None
    return next(record_values(body), None) is not None


def with_frame(line: bytes, frame: str) -> bytes:
    """An encoded line with its frame (base64) added as the last column; columns have no order."""
    return b'%b,"frame":"%b"}\n' % (line[:-2], frame.encode())
