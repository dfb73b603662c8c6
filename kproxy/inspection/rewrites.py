"""What a relay changed in a frame, value by value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from dissectors.messages.message import Message
from dissectors.wire.paths import render
from kproxy.trace.lines import RewrittenEntry

#: Values of one frame that are listed.
MAX_ENTRIES: Final = 1000


def rewritten_entries(message: Message) -> list[RewrittenEntry]:
    """The values that differ between a message and what was sent in its place, in wire order."""
    if message.replaced_by is None:
        return []
    return list(islice(_differences(message.body, message.replaced_by.body, ()), MAX_ENTRIES))


def _differences(was: Any, now: Any, path: tuple[str, ...]) -> Iterator[RewrittenEntry]:
    if isinstance(was, dict) and isinstance(now, dict):
        for name in was.keys() | now.keys() if was.keys() != now.keys() else was:
            yield from _differences(was.get(name), now.get(name), (*path, name))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (old, new) in enumerate(zip(was, now, strict=True)):
            if old is not new:
                yield from _differences(old, new, (*path, str(index)))
    elif was != now:
        yield RewrittenEntry(render(path), _text(was), _text(now))


def _text(value: Any) -> str | None:
    """A value as text; bytes and structs, which no interceptor changes by itself, are left out."""
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else "..."
