"""What a relay changed in a frame, value by value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from dissectors.messages.message import Message
from dissectors.wire.paths import render
from kproxy.trace.lines import RewrittenEntry

#: The maximum number of values listed for one frame.
MAX_ENTRIES: Final = 1000


def rewritten_entries(message: Message) -> list[RewrittenEntry]:
    """Return the values that differ between a message and the one sent in its place, in wire order."""
    if message.replaced_by is None:
        return []
    return list(islice(_differences(message.body, message.replaced_by.body, ()), MAX_ENTRIES))


def _differences(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[RewrittenEntry]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys() if before.keys() != after.keys() else before:
            yield from _differences(before.get(name), after.get(name), (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if old is not new:
                yield from _differences(old, new, (*path, str(index)))
    elif before != after:
        yield RewrittenEntry(render(path), _value_text(before), _value_text(after))


def _value_text(value: Any) -> str | None:
    """Return a value as text; bytes and structs, which no interceptor changes on its own, become ``...``."""
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else "..."
