"""The path and span of a field of a message."""

from __future__ import annotations

from typing import TypedDict

from dissectors.messages.message import Message, walk_message
from dissectors.wire.paths import render


class ProblemPlace(TypedDict, total=False):
    """Arguments for a `Problem`: ``Problem("...", **locate(message, "brokers", 1, "port"))``."""

    path: str
    start: int
    end: int


def locate(message: Message, *path: str | int) -> ProblemPlace:
    """The path and span of a field of the body, or of the header if the path begins with ``header``.

    A field that is not on the wire gets the span of the struct that would hold it. Each call decodes the frame again,
    so call it only to report a problem.
    """
    names = [str(part) for part in path]
    roots = walk_message(message).nodes
    target = names if names[:1] == ["header"] else ["body", *names]
    start, end = 0, len(message.frame)
    for name in target:
        node = next((node for node in roots if node.name == name), None)
        if node is None:
            break
        start, end, roots = node.start, node.end, node.children
    return ProblemPlace(path=render(names), start=start, end=end)
