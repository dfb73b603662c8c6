"""Node: a decoded field and the span of its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Node:
    """A field, its value and its half-open span in the frame.

    A struct, array or record batch has children and no value. Children read from decompressed bytes have the span of
    the compressed bytes. `meaning` is the annotation of the value (``"NOT_LEADER_OR_FOLLOWER"``). Not frozen: a frame
    has hundreds of nodes, and frozen ones are slower to create.
    """

    name: str
    start: int
    end: int
    value: Any = None
    children: list[Node] = field(default_factory=list)
    meaning: str | None = None
