"""One decoded field with the bytes it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Node:
    """A field, its value and its half-open span in the frame.

    A struct, array or record batch has children and no value of its own. Children read from decompressed bytes
    carry the span of the compressed bytes that they came from. `meaning` says what a code stands for
    (``"NOT_LEADER_OR_FOLLOWER"``). Not frozen: hundreds are made per frame.
    """

    name: str
    start: int
    end: int
    value: Any = None
    children: list[Node] = field(default_factory=list)
    meaning: str | None = None
