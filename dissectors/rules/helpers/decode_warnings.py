"""The decode warnings of a message, for rules that report them."""

from __future__ import annotations

from collections.abc import Iterable

from dissectors.messages.locate import ProblemPlace
from dissectors.messages.message import Message
from dissectors.wire.layout import Field, Layout
from dissectors.wire.paths import render
from dissectors.wire.walk import DecodeWarning

_WIDTHS = {"int16": 2, "int32": 4}
_VARINT_MOST = 10


def noted(message: Message, *kinds: str) -> list[DecodeWarning]:
    """The warnings of these kinds; none if a diagnosis explains the frame, so that a root cause is reported once."""
    if not message.decode_warnings or message.diagnosis is not None:
        return []
    return [each for each in message.decode_warnings if each.kind in kinds]


def unexplained(message: Message, kind: str) -> bool:
    """Whether the reading of a message stopped at something of this kind, and no other layout explains it."""
    if message.error is None or message.error.kind != kind:
        return False
    return message.diagnosis is None or message.diagnosis.edit.kind == "truncated"


def place(message: Message, warning: DecodeWarning) -> ProblemPlace:
    """The place of a warning."""
    return ProblemPlace(path=rooted(message, warning.path), start=warning.start, end=warning.end)


def error_place(message: Message) -> ProblemPlace:
    """Where the number stands at which the reading of a message stopped: a length, a count or a tag."""
    error = message.error
    assert error is not None
    start, frame = error.offset, message.frame
    if width := _WIDTHS.get(_encoding(message, error.path) or ""):
        end = start + width
    else:
        end = start
        while end < min(start + _VARINT_MOST, len(frame)) and frame[end] >= 0x80:
            end += 1
        end += 1
    return ProblemPlace(path=rooted(message, error.path), start=start, end=min(end, len(frame)))


def rooted(message: Message, path: Iterable[str]) -> str:
    """A path of the walk as people read it; a field of the header says so."""
    names = list(path)
    in_header = bool(names) and any(names[0] == one.name for one in message.header_layout.fields)
    return render(["header", *names] if in_header else names)


def more(count: int) -> str:
    """How a sentence about the first of several goes on."""
    return f", as are {count - 1} more in this frame" if count > 1 else ""


def side(message: Message) -> str:
    """Who wrote a message, as `Problem.blame` has it."""
    return "client" if message.is_request else "broker"


def _encoding(message: Message, path: tuple[str, ...]) -> str | None:
    """How the length that a path ends at is written."""
    layout: Layout | None = message.layout
    if path and any(path[0] == one.name for one in message.header_layout.fields):
        layout = message.header_layout
    field: Field | None = None
    for name in path:
        if name.isdigit():
            continue
        field = next((one for one in (*layout.fields, *layout.tagged) if one.name == name), None) if layout else None
        if name != "_tags":
            layout = field.struct if field else None
    if field is None:
        return None
    return field.element_length if path[-1].isdigit() else field.length
