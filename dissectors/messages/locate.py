"""Find the path and span of a field of a message."""

from __future__ import annotations

from typing import TypedDict

from dissectors.messages.message import Message, walk_message
from dissectors.wire.paths import render


class ProblemLocation(TypedDict, total=False):
    """Arguments for a `Problem`: ``Problem("...", **locate(message, "brokers", 1, "port"))``."""

    path: str
    start: int
    end: int


def locate(message: Message, *path: str | int) -> ProblemLocation:
    """Return the path and span of a field of the body, or of the header if the path begins with ``header``.

    A field that is not on the wire gets the span of the struct that would hold it. The first call for a message
    decodes its frame again, so call it only to report a problem.
    """
    if (tree := message.tree) is None:
        tree = message.tree = walk_message(message)
        message.spend(tree.size)
    names = [str(part) for part in path]
    siblings = tree.nodes
    start, end = 0, len(message.frame)
    for name in names if names[:1] == ["header"] else ("body", *names):
        if (node := tree.child(siblings, name)) is None:
            break
        start, end, siblings = node.start, node.end, node.children
    return ProblemLocation(path=render(names), start=start, end=end)
