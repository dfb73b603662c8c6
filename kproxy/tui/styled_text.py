"""Pieces of text with the styles of kproxy's text output, as the terminal's widgets take them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kproxy.outputs.findings import full_rows
from kproxy.outputs.text import STYLES, Piece
from kproxy.trace.formatting import safe
from kproxy.trace.lines import FindingEntry

#: The terminal's colours on a dark ground: light, for with NO_COLOR they become greys. Black to white, then brighter.
DARK = TerminalTheme(
    (30, 30, 30), (224, 224, 224),
    [(30, 30, 30), (255, 122, 144), (138, 212, 161), (255, 196, 115), (124, 183, 255), (214, 164, 240), (111, 211, 227),
     (224, 224, 224)],
    [(128, 128, 128), (255, 150, 168), (165, 226, 184), (255, 214, 153), (160, 205, 255), (226, 190, 247),
     (155, 226, 237), (255, 255, 255)],
)  # fmt: skip


def painted(pieces: Iterable[Piece]) -> Text:
    """One row; what is no text is escaped, and a style that a trace has invented is none."""
    text = Text(no_wrap=True)
    for piece, style in pieces:
        text.append(safe(piece), STYLES.get(style, STYLES[""]))
    return text


def in_full(finding: FindingEntry, width: int) -> Text:
    """All there is to say of a finding; rows of bytes are told without their text where there is no room for it."""
    text = Text()
    for row in full_rows(finding):
        is_too_long = row[-1][0].startswith(" | ") and sum(len(piece) for piece, _ in row) > width
        text.append_text(painted(row[:-1] if is_too_long else row)).append("\n")
    return text
