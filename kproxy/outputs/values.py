"""Decoded keys, values and headers of records as text, below an explained frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from kproxy.outputs.decoded_text import TOMBSTONE, data_text, facts, is_tombstone, problem
from kproxy.outputs.text import Piece, painter
from kproxy.trace.formatting import safe
from kproxy.trace.record_values import is_decoded

_MAX_CHARACTERS = 10_000


def write_values(body: dict[str, Any], file: TextIO) -> None:
    """Write a row for each decoded key, value and header: its path, its format and schema, and its data as JSON."""
    paint = painter(file)
    for path, value in _values(body, ""):
        name: Piece = (f"{safe(path)}  ", "name")
        if value is None:
            file.write(paint([name, (TOMBSTONE, "dim")]) + "\n")
            continue
        data = data_text(value["data"], _MAX_CHARACTERS)
        file.write(paint([name, (f"{facts(value)}  ", "topic"), (data, "")]) + "\n")
        if sentence := problem(value):
            file.write(paint([(f"    {sentence}", "warning")]) + "\n")


def _values(item: Any, path: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield each decoded key, value and header with its path; None for tombstones."""
    if isinstance(item, list):
        for index, element in enumerate(item):
            yield from _values(element, f"{path}[{index}]")
    elif isinstance(item, dict):
        if is_decoded(item):
            yield path, item
            return
        for name, inner in item.items():
            if name == "value" and is_tombstone(item):
                yield f"{path}.value", None
            yield from _values(inner, f"{path}.{name}" if path else name)
