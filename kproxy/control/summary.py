"""Trace lines for viewers: at detail `summary`, optionally with the `frame`."""

from __future__ import annotations

from kproxy.trace.lines import Line, RequestLine, ResponseLine


def strip(line: Line) -> str | None:
    """Remove from a line what `Detail.SUMMARY` does not have; return the frame (base64) that it had."""
    if not isinstance(line, RequestLine | ResponseLine):
        return None
    frame, line.frame, line.body = line.frame, None, None
    for finding in line.findings:
        finding.excerpt = None
    return frame


def with_frame(line: bytes, frame: str) -> bytes:
    """An encoded line with its frame (base64) added as the last column; columns have no order."""
    return b'%b,"frame":"%b"}\n' % (line[:-2], frame.encode())
