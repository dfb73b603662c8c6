"""The help text: the keys, and how to read the current view."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.binding import Binding

from kproxy.tui.view import View

_NAMES = {
    "slash": "/",
    "semicolon": ";",
    "apostrophe": "'",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "escape": "esc",
    "question_mark": "?",
    "colon": ":",
    "exclamation_mark": "!",
}

_MOVING = (
    ("j k  ↓ ↑", "down, up"),
    ("g G", "first, last"),
    ("pgdn pgup", "by page (also ctrl+d ctrl+u)"),
    ("enter", "open the item under the cursor"),
    ("esc", "back"),
    ("tab", "to the next pane"),
    ("h l  ← →", "collapse and expand a field; move in the bytes"),
)
_EVERYWHERE = (
    ("?", "this help"),
    (":", "command palette: all commands by name, and themes"),
    ("space", "pause: freeze the screen while traffic continues"),
    ("c", "clear the filter (esc on Frames first goes back one step)"),
    ("ctrl+l", "redraw the screen"),
    ("q", "quit; asks first if that stops a proxy (ctrl+c does not ask)"),
)


def key_name(binding: Binding) -> str:
    """Return the name of a key as shown to the user."""
    return " ".join(_NAMES.get(key, key) for key in binding.key.split(","))


def help_text(view: View, views: Sequence[View]) -> Text:
    """Return the help for a view."""
    text = Text()
    text.append(f"{view.title}\n", "bold underline").append(f"{view.about}\n")
    _append_section(text, "here", [(key_name(command), command.description) for command in view.commands()])
    _append_section(text, "moving", _MOVING)
    _append_section(text, "views", [(str(number), view.title) for number, view in enumerate(views, 1)])
    _append_section(text, "everywhere", _EVERYWHERE)
    text.append("\nfilters\n", "bold underline")
    for example in (
        "api=Fetch and latency>50ms and topic~ord",
        "finding=L*",
        "error!=0 and not api in (Heartbeat, Fetch)",
    ):
        text.append(f"  {example}\n", "bold")
    text.append("  A field comes from the response, or from the request if the response lacks it.\n")
    return text


def _append_section(text: Text, title: str, rows: Sequence[tuple[str, str]]) -> None:
    text.append(f"\n{title}\n", "bold underline")
    for keys, description in rows:
        text.append(f"  {keys:<12}", "bold").append(f"{description}\n")
