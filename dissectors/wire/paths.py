"""Field paths as text."""

from __future__ import annotations

import re
from collections.abc import Iterable


def render(path: Iterable[str]) -> str:
    """Render a path as text: ``("topics", "2", "name")`` -> ``topics[2].name``."""
    text = ""
    for part in path:
        if part.isdigit():
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def parts(path: str) -> list[str]:
    """Split a path, the inverse of `render`: ``topics[2].name`` -> ``["topics", "2", "name"]``."""
    return re.findall(r"[^.\[\]]+", path)


def schema_path(path: Iterable[str]) -> str:
    """Render the path in the schema: ``("topics", "2", "name")`` -> ``topics[].name``."""
    text = ""
    for part in path:
        if part.isdigit():
            text += "[]"
        else:
            text += f".{part}" if text else part
    return text
