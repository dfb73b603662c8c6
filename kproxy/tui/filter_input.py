"""The filter input: shows completions and errors while the user types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text as StyledText
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from kproxy.filters import Filter, FilterError, complete, parse
from kproxy.filters.nodes import Text, leaves
from kproxy.trace.formatting import safe

#: Maximum number of completions that are shown.
_MAX_SUGGESTIONS = 12


class FilterBar(Vertical):
    """The filter input, hidden until it is opened; posts valid filters."""

    DEFAULT_CSS = """
    FilterBar { height: auto; display: none; background: $panel; }
    FilterBar.open { display: block; }
    FilterBar Input, FilterBar Input:focus { border: none; height: 1; padding: 0 1; background: $panel; }
    FilterBar Static { height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "complete", priority=True),
        Binding("escape", "leave", "leave", priority=True),
    ]

    @dataclass
    class Chosen(Message):
        """Posted to apply a filter; None shows all rows."""

        filter: Filter | None

    class Cancelled(Message):
        """Posted when the input is closed without a change."""

    def compose(self) -> ComposeResult:
        """Create the input, and a line for completions and errors."""
        yield Input(
            placeholder="orders, or api=Fetch and latency>50ms", suggester=_CompletionSuggester(use_cache=False)
        )
        yield Static()

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    def open(self, text: str) -> None:
        """Open the input, prefilled with `text`."""
        self.add_class("open")
        self._input.value = text
        self._input.cursor_position = len(text)
        self.screen.set_focus(self._input)  # immediately; `focus` would miss the next key
        self._show_status(text)

    def close(self) -> None:
        """Hide the input."""
        self.remove_class("open")

    @on(Input.Changed)
    def _update_status(self, event: Input.Changed) -> None:
        self._show_status(event.value)

    def _show_status(self, text: str, *, submitted: bool = False) -> FilterError | None:
        """Show completions or, if there are none or the text was `submitted`, the error, which is returned."""
        status = StyledText(no_wrap=True, overflow="ellipsis")
        completions = complete(text, self._input.cursor_position)
        parse_error: FilterError | None = None
        searched_texts: list[str] = []
        if text.strip():
            try:
                searched_texts = [str(leaf) for leaf in leaves(parse(text).node) if isinstance(leaf, Text)]
            except FilterError as error:
                parse_error = error
        if parse_error is not None and (submitted or not completions):
            caret_count = max(1, min(parse_error.end, len(text)) - parse_error.start)
            status.append(" " * parse_error.start + "^" * caret_count + " ", "red bold").append(str(parse_error), "red")
        else:
            if searched_texts:
                status.append(f"rows that contain {', '.join(map(safe, searched_texts))}   ")
            status.append(
                "  ".join(completions[:_MAX_SUGGESTIONS]) + ("  …" if len(completions) > _MAX_SUGGESTIONS else ""),
                "dim",
            )
        self.query_one(Static).update(status)
        return parse_error

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value.strip():
            self.post_message(self.Chosen(None))
        elif self._show_status(event.value, submitted=True) is not None:
            return
        else:
            self.post_message(self.Chosen(parse(event.value)))
        self.close()

    def action_complete(self) -> None:
        """Insert the first completion."""
        text_input = self._input
        completions = complete(text_input.value, text_input.cursor_position)
        if completions:
            text_input.value, text_input.cursor_position = _insert_completion(
                text_input.value, text_input.cursor_position, completions[0]
            )

    def action_leave(self) -> None:
        """Close the input without a change."""
        self.close()
        self.post_message(self.Cancelled())


class _CompletionSuggester(Suggester):
    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its current word completed."""
        completions = complete(value, len(value))
        if not completions or value[-1:] in ("", " ", "(", "'", '"'):
            return None
        return _insert_completion(value, len(value), completions[0])[0]


def _insert_completion(text: str, cursor: int, completion: str) -> tuple[str, int]:
    """Return the text with the word at the cursor replaced by `completion`, and the new cursor position."""
    prefix = text[:cursor]
    for size in range(len(completion), 0, -1):
        if prefix.lower().endswith(completion[:size].lower()):
            prefix = prefix[: len(prefix) - size]
            break
    return prefix + completion + text[cursor:], len(prefix + completion)
