"""The line with the current filter: its text, the number of matches, and its effect on the view."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import safe


class FilterLine(Static):
    """The filter line; hidden while all rows are shown."""

    DEFAULT_CSS = """
    FilterLine {
        height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; display: none;
    }
    FilterLine.some { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(id="filterline")
        self._drawn = Text()
        self._choice = -1
        self._percent = 0

    def update_from(self, session: BrowseSession, effect: str) -> None:
        """Show a session's filter; `effect` describes its effect on the current view."""
        visible = session.visible
        self.set_class(visible.is_narrowed, "some")
        if not visible.is_narrowed:
            return
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append("filter ", "dim").append(safe(filter_text(visible)), "bold")
        text.append(f"  {len(visible):,} shown of {len(session.index.at):,}", "cyan")
        if (percent := self._searched_percent(session)) is not None:
            text.append(f" ({percent}% searched)", "yellow")
        text.append("  c", "bold yellow").append(" clear  ").append("/", "bold yellow").append(" edit")
        if effect:
            text.append(f"  {effect}", "dim")
        if text != self._drawn or text.spans != self._drawn.spans:
            self._drawn = text
            self.update(text, layout=False)

    def _searched_percent(self, session: BrowseSession) -> int | None:
        """Return the percentage of rows searched with this filter, which never decreases; None at the end."""
        visible = session.visible
        if self._choice != visible.choices:
            self._choice, self._percent = visible.choices, 0
        searched, total = min(visible.progress, session.counted, key=lambda progress: progress[0])
        if self._percent == 100 or searched >= total:
            self._percent = 100
            return None
        self._percent = max(self._percent, min(99, 100 * searched // total))
        return self._percent


def filter_text(visible: VisibleRows) -> str:
    """Return the filter's text, and whether only rows with findings are shown."""
    parts = [str(visible.filter)] if visible.filter is not None else []
    return "  ".join([*parts, *(["(only rows with findings)"] if visible.only_findings else [])])


def empty_table_message(session: BrowseSession, items: str) -> str:
    """Return the message for an empty table: the reason, and what to do."""
    visible, source = session.visible, session.source
    if not visible.is_narrowed or not session.index.at:
        if session.index.at:
            return f"{source.name} has no {items}."
        return source.empty_message
    searched, total = min(visible.progress, session.counted, key=lambda progress: progress[0])
    if searched < total:
        return f"Searching {total:,} rows for {filter_text(visible)} ..."
    return (
        f"No {items} match the filter {filter_text(visible)}; there are {total:,} rows.\n"
        "Press c to clear the filter, or / to edit it."
    )
