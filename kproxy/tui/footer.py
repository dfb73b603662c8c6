"""The line below the views: the keys that can be pressed now. Textual's own makes a widget of each, and that costs."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual import events
from textual.widgets import Static

from kproxy.tui.help import key_name


class Keys(Static):
    """Keys and what they do; a click is as good as the key."""

    DEFAULT_CSS = """
    Keys { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def on_mount(self) -> None:
        """Begin to listen to what can be pressed."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.show_keys())
        self.show_keys()

    def show_keys(self) -> None:
        """Show what can be pressed now."""
        text = Text()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show:
                here = Style(meta={"key": binding.key})
                text.append(key_name(binding), Style(bold=True, color="yellow") + here)
                text.append(f" {binding.description}", here).append("  ")
        self.update(text)

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        if (key := event.style.meta.get("key")) is not None:
            self.app.simulate_key(key)
