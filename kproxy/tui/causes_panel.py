"""The panel at the top with the most severe root causes, one per line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from kproxy.browse.session import BrowseSession
from kproxy.outputs.text import STYLES
from kproxy.trace.formatting import RANK, safe
from kproxy.verdict.cause import Cause

#: Number of causes on a screen with enough rows, and on a small one.
_MAX_SHOWN, _MAX_ON_SMALL_SCREEN = 3, 2
_SMALL_SCREEN_ROWS = 30  # rows of a screen
_UPDATE_INTERVAL_S = 0.5


class CausesPanel(Static):
    """The most severe root causes so far; hidden if there are none. A click goes to the first frame of a cause."""

    DEFAULT_CSS = """
    CausesPanel { height: auto; padding: 0 1; background: $panel; display: none; }
    CausesPanel.some { display: block; }
    """

    @dataclass
    class Chosen(Message):
        """Posted to show the frame with this row."""

        row: int

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(id="causes")
        self._session = session
        self._causes: Sequence[Cause] = ()
        self._updated_at = 0.0

    def refresh_causes(self) -> bool:
        """Update the causes, at limited frequency because it is slow; return False if the update is postponed."""
        now = time.monotonic()
        if now - self._updated_at < _UPDATE_INTERVAL_S:
            return False
        self._updated_at = now
        max_shown = _MAX_ON_SMALL_SCREEN if self.app.size.height < _SMALL_SCREEN_ROWS else _MAX_SHOWN
        causes = self._session.overviews.findings.sorted_causes()
        self._causes = [cause for cause in causes if RANK.get(cause.finding.severity, 0)][:max_shown]
        self.set_class(bool(self._causes), "some")
        text = Text()
        for number, cause in enumerate(self._causes):
            finding = cause.finding
            text.append("\n" if number else "")
            style = Style(meta={"row": cause.first_row})
            text.append(safe(f"{finding.code} {finding.name} "), STYLES.get(finding.severity, STYLES[""]) + style)
            text.append(f"{cause.count:,}x ", Style(dim=True) + style)
            text.append("it lasts: " if cause.lasts else "", Style(bold=True) + style).append(
                safe(finding.message), style
            )
        if (more_count := len(causes) - len(self._causes)) > 0 and self._causes:
            text.append(f"  and {more_count} more", "dim")
        self.update(text)
        return True

    def on_click(self, event: events.Click) -> None:
        """Go to the clicked cause."""
        if (row := event.style.meta.get("row")) is not None:
            self.post_message(self.Chosen(row))
