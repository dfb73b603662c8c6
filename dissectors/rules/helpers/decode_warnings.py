"""Decode warnings and decode errors of a message, for the rules that report them."""

from __future__ import annotations

from collections.abc import Iterable

from dissectors.messages.locate import ProblemLocation
from dissectors.messages.message import Message
from dissectors.wire.layout import Field, Layout
from dissectors.wire.paths import render
from dissectors.wire.walk import MAX_WARNINGS, DecodeWarning

_WIDTHS = {"int16": 2, "int32": 4}
_MAX_VARINT_BYTES = 10


def warnings_of(message: Message, *kinds: str) -> list[DecodeWarning]:
    """Return the decode warnings of these kinds; none if a diagnosis already explains the frame."""
    if not message.decode_warnings or message.diagnosis is not None:
        return []
    return [warning for warning in message.decode_warnings if warning.kind in kinds]


def is_unexplained(message: Message, kind: str) -> bool:
    """Return whether decoding stopped with an error of this kind and no other layout explains the frame."""
    if message.error is None or message.error.kind != kind:
        return False
    return message.diagnosis is None or message.diagnosis.edit.kind == "truncated"


def warning_location(message: Message, warning: DecodeWarning) -> ProblemLocation:
    """Return the path and byte range of a decode warning."""
    return ProblemLocation(path=_path_text(message, warning.path), start=warning.start, end=warning.end)


def error_location(message: Message) -> ProblemLocation:
    """Return the path and byte range of the number (a length, count or tag) at which decoding stopped."""
    error = message.error
    assert error is not None
    start, frame = error.offset, message.frame
    if width := _WIDTHS.get(_encoding(message, error.path) or ""):
        end = start + width
    else:
        end = start
        while end < min(start + _MAX_VARINT_BYTES, len(frame)) and frame[end] >= 0x80:
            end += 1
        end += 1
    return ProblemLocation(path=_path_text(message, error.path), start=start, end=min(end, len(frame)))


def _path_text(message: Message, path: Iterable[str]) -> str:
    """Return a field path as text; header fields get the prefix ``header``."""
    names = list(path)
    in_header = bool(names) and any(names[0] == field.name for field in message.header_layout.fields)
    return render(["header", *names] if in_header else names)


def others_suffix(count: int) -> str:
    """Return the end of a message that reports only the first of `count` occurrences."""
    minimum = "at least " if count >= MAX_WARNINGS else ""
    return f", as are {minimum}{count - 1} more in this frame" if count > 1 else ""


def sender_of(message: Message) -> str:
    """Return the side that wrote the message, as a value of `Problem.blame`."""
    return "client" if message.is_request else "broker"


def _encoding(message: Message, path: tuple[str, ...]) -> str | None:
    """Return the encoding of the length at the end of a path, or None if it is unknown."""
    layout: Layout | None = message.layout
    if path and any(path[0] == field.name for field in message.header_layout.fields):
        layout = message.header_layout
    field: Field | None = None
    for name in path:
        if name.isdigit():
            continue
        field = (
            next((candidate for candidate in (*layout.fields, *layout.tagged) if candidate.name == name), None)
            if layout
            else None
        )
        if name != "_tags":
            layout = field.struct if field else None
    if field is None:
        return None
    return field.element_length if path[-1].isdigit() else field.length
