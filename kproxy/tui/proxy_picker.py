"""Asks which of several running proxies to show, before the application starts."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App

from kproxy.trace.formatting import safe
from kproxy.tui.dialogs import Menu
from kproxy.tui.styled_text import DARK

_LETTERS = "123456789abdefghilmnoprstuvwxyz"  # j, k and q are menu keys


class Chooser(App[str | None]):
    """Returns the name of the chosen proxy, None if cancelled.

    Args:
        choices: Name and description of each.
    """

    TITLE = "kproxy"

    def __init__(self, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.ansi_theme_dark = DARK
        letters = _LETTERS.ljust(len(choices))
        self._choices = [(letters[n], name, safe(description)) for n, (name, description) in enumerate(choices)]

    def on_mount(self) -> None:
        """Show the menu of proxies."""
        self.push_screen(Menu("several proxies are running: which one?", self._choices, width=100), self.exit)
