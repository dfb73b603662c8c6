"""A line on its way to several consumers: the trace, the terminal, viewers. What they need of it is encoded once."""

from __future__ import annotations

from copy import copy
from typing import Any

import msgspec

from kproxy.trace.encoding import encode_line, parse_line
from kproxy.trace.lines import FRAME_LINES, Detail, FindingEntry, Line
from kproxy.trace.record_values import record_values


class SharedLine:
    """A line, and its encodings: each is made when a consumer first asks for it, and kept.

    Another process can make the encodings that are needed: pickled, it is its encodings, and `line` is parsed from them
    if a consumer asks for it.

    Attributes:
        frame: The frame (base64), if the line has it.
        in_group: Whether the line names a consumer group.
        is_received: Whether another process has made it.
    """

    __slots__ = ("_content", "_full", "_line", "_raw", "_summary", "frame", "in_group", "is_received")

    def __init__(self, line: Line) -> None:
        """Consumers must not change the line."""
        self._line: Line | None = line
        self._summary: bytes | None = None
        self._full: bytes | None = None
        self._raw: bytes | None = None
        self.frame: str | None = None
        self.is_received = self.in_group = False
        self._content = Detail.SUMMARY
        if isinstance(line, FRAME_LINES):
            self.in_group = line.group_id is not None
            if line.frame is not None:
                self.frame, self._content = line.frame, Detail.RAW
            elif line.body is not None or (line.findings and _have_excerpts(line.findings)):
                self._content = Detail.FULL

    @classmethod
    def received(cls, summary: bytes) -> SharedLine:
        """A line without more than a summary, which another process has encoded. It names no group."""
        made = cls.__new__(cls)
        made.__setstate__((Detail.SUMMARY, summary, None, None, None, False))
        return made

    def __getstate__(self) -> tuple[Any, ...]:
        return self._content, self._summary, self._full, self._raw, self.frame, self.in_group

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._content, self._summary, self._full, self._raw, self.frame, self.in_group = state
        self._line, self.is_received = None, True

    @property
    def content(self) -> Detail:
        """The detail that the line has."""
        return self._content

    @property
    def line(self) -> Line:
        """The line with all that it has; if it was received, with all that was encoded."""
        if self._line is None:
            self._line = parse_line(self._raw or self._full or self._summary or b"")
        return self._line

    def encoded(self, detail: Detail) -> bytes:
        """The line as in a trace of this detail, with its newline."""
        content = self._content
        if detail is Detail.SUMMARY or content is Detail.SUMMARY:
            if self._summary is None:
                self._summary = encode_line(self.line if content is Detail.SUMMARY else _reduced(self.line, detail))
            return self._summary
        if detail is Detail.FULL or content is Detail.FULL:
            if self._full is None:
                self._full = encode_line(self.line if content is Detail.FULL else _reduced(self.line, detail))
            return self._full
        if self._raw is None:
            self._raw = encode_line(self.line)
        return self._raw

    def for_viewer(self, *, payloads: bool, frames: bool) -> bytes:
        """The line as a viewer wants it: a summary, optionally with its frame and with decoded records."""
        has_payloads = payloads and self._content is not Detail.SUMMARY and has_decoded_records(self.line)
        encoded = self.encoded(Detail.FULL if has_payloads else Detail.SUMMARY)
        return with_frame(encoded, self.frame) if frames and self.frame is not None else encoded


def has_decoded_records(line: Line) -> bool:
    """Whether the line has decoded keys, values or headers of records."""
    body = line.body if isinstance(line, FRAME_LINES) else None
    return next(record_values(body), None) is not None


def with_frame(line: bytes, frame: str) -> bytes:
    """An encoded line with its frame (base64) added as the last column; columns have no order."""
    return b'%b,"frame":"%b"}\n' % (line[:-2], frame.encode())


def _have_excerpts(findings: list[FindingEntry]) -> bool:
    return any(finding.excerpt is not None for finding in findings)


def _reduced(line: Line, detail: Detail) -> Line:
    """A copy of a line of a frame without what a trace of this detail does not have; it is not `Detail.RAW`."""
    made: Any = copy(line)
    made.frame = None
    if detail is Detail.SUMMARY:
        made.body = None
        if _have_excerpts(made.findings):
            made.findings = [msgspec.structs.replace(each, excerpt=None) for each in made.findings]
    return made  # type: ignore[no-any-return]
