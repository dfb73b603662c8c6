"""Converts styled pieces, as used in kproxy's text output, to Rich text for widgets."""

from __future__ import annotations

from collections.abc import Iterable

from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kproxy.outputs.findings import full_rows
from kproxy.outputs.text import STYLES, Piece
from kproxy.trace.formatting import safe
from kproxy.trace.lines import FindingEntry

#: Terminal colours for a dark background; light, because NO_COLOR turns them into greys. Black to white, then bright.
DARK = TerminalTheme(
    (30, 30, 30), (224, 224, 224),
    [(30, 30, 30), (255, 122, 144), (138, 212, 161), (255, 196, 115), (124, 183, 255), (214, 164, 240), (111, 211, 227),
     (224, 224, 224)],
    [(128, 128, 128), (255, 150, 168), (165, 226, 184), (255, 214, 153), (160, 205, 255), (226, 190, 247),
     (155, 226, 237), (255, 255, 255)],
)  # fmt: skip

#: Longest line of a text that a widget wraps; only forged traces have longer ones, and wrapping them delays every key.
_LONGEST_LINE = 4_000


def styled(pieces: Iterable[Piece]) -> Text:
    """Return one row of pieces as text; control characters are escaped, and unknown styles are ignored."""
    text = Text(no_wrap=True)
    for piece, style in pieces:
        text.append(safe(piece), STYLES.get(style, STYLES[""]))
    return text


def full_finding(finding: FindingEntry, width: int) -> Text:
    """Return a finding in full; hex rows omit their ASCII column if it does not fit."""
    text = Text()
    for row in full_rows(finding):
        is_too_long = row[-1][0].startswith(" | ") and sum(len(piece) for piece, _ in row) > width
        text.append_text(styled(row[:-1] if is_too_long else row)).append("\n")
    return text


def truncate_lines(text: Text) -> Text:
    """Return a text with its overlong lines truncated; these end with an ellipsis."""
    if len(text) <= _LONGEST_LINE:
        return text
    lines = text.split("\n", allow_blank=True)
    return Text("\n").join(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE].append("…") for line in lines)
