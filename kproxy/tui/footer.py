"""The footer: the keys that can be pressed now. Textual's footer creates one widget per key, which is slower."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual import events
from textual.widgets import Static

from kproxy.tui.help import key_name


class Keys(Static):
    """Keys with their actions; a click has the same effect as the key."""

    DEFAULT_CSS = """
    Keys { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def on_mount(self) -> None:
        """Subscribe to changes of the key bindings."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.show_keys())
        self.show_keys()

    def show_keys(self) -> None:
        """Show the current keys."""
        text = Text()
        for active_binding in self.screen.active_bindings.values():
            binding = active_binding.binding
            if binding.show:
                style = Style(meta={"key": binding.key})
                text.append(key_name(binding), Style(bold=True, color="yellow") + style)
                text.append(f" {binding.description}", style).append("  ")
        self.update(text)

    def on_click(self, event: events.Click) -> None:
        """Simulate the clicked key."""
        if (key := event.style.meta.get("key")) is not None:
            self.app.simulate_key(key)
