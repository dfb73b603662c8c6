"""Pieces of text with the styles of kproxy's text output, as the terminal's widgets take them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from kproxy.outputs.text import STYLES, Piece


def painted(pieces: Iterable[Piece]) -> Text:
    """One row."""
    text = Text(no_wrap=True)
    for piece, style in pieces:
        text.append(piece, STYLES[style])
    return text
