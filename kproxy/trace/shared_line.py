"""A line for several consumers (the trace, the terminal, viewers), for whom it is encoded only once."""

from __future__ import annotations

from copy import copy
from typing import Any, Final

import msgspec

from kproxy.trace.encoding import encode_line, parse_line
from kproxy.trace.lines import FRAME_LINES, Detail, FindingEntry, Line
from kproxy.trace.record_values import record_values

_SUMMARY: Final = Detail.SUMMARY
#: Detail -> other detail -> the lesser of the two.
_LESSER_DETAIL: Final = {
    detail: {other: min(detail, other, key=list(Detail).index) for other in Detail} for detail in Detail
}  # fmt: skip


class SharedLine:
    """A line and its encodings; each encoding is made when a consumer first needs it, and kept.

    Another process can make the encodings: only they are pickled, and `line` is parsed from them when it is needed.

    Attributes:
        content: The detail that the line has.
        frame: The frame (base64), if the line has it.
        in_group: Whether it is the line of a frame that names a consumer group, or may name one but is not decoded.
        is_received: Whether it was made by another process.
    """

    __slots__ = ("_encodings", "_line", "content", "frame", "in_group", "is_received")

    def __init__(self, line: Line | None, summary: bytes | None = None) -> None:
        """Share a line, which consumers must not change; or a received summary that is complete and names no group."""
        self._line = line
        self._encodings = {} if summary is None else {_SUMMARY: summary}
        self.content = _SUMMARY
        self.frame: str | None = None
        self.in_group = False
        self.is_received = line is None
        if isinstance(line, FRAME_LINES):
            self.in_group = line.group_id is not None or line.not_decoded is not None
            if line.frame is not None:
                self.frame, self.content = line.frame, Detail.RAW
            elif line.body is not None or (line.findings and _have_excerpts(line.findings)):
                self.content = Detail.FULL

    def __getstate__(self) -> tuple[Any, ...]:
        return self.content, self._encodings, self.frame, self.in_group

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.content, self._encodings, self.frame, self.in_group = state
        self._line, self.is_received = None, True

    @property
    def line(self) -> Line:
        """The complete line or, if it was received, everything that was encoded."""
        if self._line is None:
            self._line = parse_line(max(self._encodings.values(), key=len))
        return self._line

    def encoded(self, detail: Detail) -> bytes:
        """Return the line as in a trace with this detail, with its newline."""
        detail = _LESSER_DETAIL[self.content][detail]
        if (encoding := self._encodings.get(detail)) is None:
            line = self.line if detail is self.content else _with_less_detail(self.line, detail)
            encoding = self._encodings[detail] = encode_line(line)
        return encoding

    def for_viewer(self, *, payloads: bool, frames: bool) -> bytes:
        """Return the line for a viewer: a summary, optionally with its frame and with decoded records."""
        has_payloads = payloads and self.content is not Detail.SUMMARY and has_decoded_records(self.line)
        encoded = self.encoded(Detail.FULL if has_payloads else Detail.SUMMARY)
        return with_frame(encoded, self.frame) if frames and self.frame is not None else encoded


def has_decoded_records(line: Line) -> bool:
    """Whether the line has decoded keys, values or headers of records."""
    body = line.body if isinstance(line, FRAME_LINES) else None
    return next(record_values(body), None) is not None


def with_frame(line: bytes, frame: str) -> bytes:
    """Return an encoded line with its frame (base64) added as the last column; the order of columns is irrelevant."""
    return b'%b,"frame":"%b"}\n' % (line[:-2], frame.encode())


def _have_excerpts(findings: list[FindingEntry]) -> bool:
    return any(finding.excerpt is not None for finding in findings)


def _with_less_detail(line: Line, detail: Detail) -> Line:
    """Return a copy of the line of a frame with less detail than it has."""
    copied: Any = copy(line)
    copied.frame = None
    if detail is Detail.SUMMARY:
        copied.body = None
        if _have_excerpts(copied.findings):
            copied.findings = [msgspec.structs.replace(finding, excerpt=None) for finding in copied.findings]
    return copied  # type: ignore[no-any-return]
