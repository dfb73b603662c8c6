"""The two lines at the top: the status of the source, and the tabs of the views."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.trace.formatting import safe
from kproxy.tui.view import View

_LIGHTS = {
    SourcePhase.READING: ("◐", "yellow"),
    SourcePhase.LIVE: ("●", "green"),
    SourcePhase.LOST: ("✗", "red"),
    SourcePhase.ENDED: ("■", "bright_black"),
}


class Bar(Static):
    """The source, its state, and counts."""

    DEFAULT_CSS = """
    Bar { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self) -> None:
        super().__init__(id="bar")
        self._current = Text()
        self._counts: deque[tuple[float, int]] = deque(maxlen=20)

    def update_from(self, session: BrowseSession, *, paused: bool, follows: bool) -> None:
        """Show the current state of the session."""
        source, index = session.source, session.index
        light, colour = _LIGHTS[source.phase]
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{light} ", colour).append(safe(source.name), "bold")
        if source.sentence:
            is_live = source.phase is SourcePhase.LIVE  # the sentence is then a warning
            text.append(f"  {safe(source.sentence)}", "bold red" if is_live else colour)
        if (percent := source.percent()) is not None:
            text.append(f"  reading {percent}%", "yellow")
        count = len(index.at)
        text.append(f"  {count:,} rows")
        if source.phase is SourcePhase.LIVE:
            text.append(f"  {self._rate(index.end)}/s")
        if waiting := index.waiting():
            text.append(f"  {waiting} waiting", "yellow")
        if session.bad:
            text.append(f"  {session.bad} bad line{'s' * (session.bad != 1)} (kproxy dissect names them)", "yellow")
        if paused:
            text.append("  PAUSED", "reverse")
        elif follows:
            text.append("  FOLLOW", "green")
        if text != self._current or text.spans != self._current.spans:
            self._current = text
            self.update(text, layout=False)

    def _rate(self, rows: int) -> int:
        """Return the number of rows per second over the last two seconds."""
        now = time.monotonic()
        self._counts.append((now, rows))
        first_time, first_rows = self._counts[0]
        return round((rows - first_rows) / (now - first_time)) if now > first_time else 0


class ViewTabs(Widget):
    """The names of the views with their keys; a click selects one."""

    DEFAULT_CSS = """
    ViewTabs { height: 1; background: $surface; padding: 0 1; }
    """

    @dataclass
    class Chosen(Message):
        """Posted to show this view."""

        view: View

    def __init__(self, views: Sequence[View]) -> None:
        super().__init__(id="tabs")
        self._views = views
        self._current = views[0]

    def show(self, view: View) -> None:
        """Highlight the tab of the current view."""
        self._current = view
        self.refresh()

    @property
    def _labels(self) -> list[str]:
        """The label of each view: its title or, if room is short, a shorter one, or only keys of the other views."""
        titles = [view.title for view in self._views]
        short_titles = [view.short_title or view.title for view in self._views]
        for names in (titles, short_titles):
            labels = [f" {number} {name} " for number, name in enumerate(names, 1)]
            if sum(map(len, labels)) <= self.content_size.width:
                return labels
        return [
            label if view is self._current else f" {number} "
            for number, (label, view) in enumerate(zip(labels, self._views, strict=True), 1)
        ]

    def render(self) -> Text:
        """Return the line of tabs."""
        text = Text(no_wrap=True)
        for label, view in zip(self._labels, self._views, strict=True):
            text.append(label, "reverse bold" if view is self._current else "")
        return text

    def on_click(self, event: events.Click) -> None:
        """Select the clicked tab."""
        tab_end = 1  # padding
        for label, view in zip(self._labels, self._views, strict=True):
            tab_end += len(label)
            if event.x < tab_end:
                self.post_message(self.Chosen(view))
                return
