"""Field paths as people read them."""

from __future__ import annotations

from collections.abc import Iterable


def render(path: Iterable[str]) -> str:
    """``("topics", "2", "name")`` -> ``topics[2].name``."""
    text = ""
    for part in path:
        if part.isdigit():
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
