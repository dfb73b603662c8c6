"""Trace lines as a viewer gets them: at the detail `summary`, with the `frame` where it wants that."""

from __future__ import annotations

from kproxy.trace.lines import Line, RequestLine, ResponseLine


def strip(line: Line) -> str | None:
    """Take from a line what is not of `Detail.SUMMARY`; the frame that it had."""
    if not isinstance(line, RequestLine | ResponseLine):
        return None
    frame, line.frame, line.body = line.frame, None, None
    for finding in line.findings:
        finding.excerpt = None
    return frame


def with_frame(line: bytes, frame: str) -> bytes:
    """An encoded line and the base64 of its frame in one: columns have no order."""
    return b'%b,"frame":"%b"}\n' % (line[:-2], frame.encode())
