"""Small screens above the views: menus, text input, confirmation, text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from kproxy.escaping import terminal, terminal_lines


def box_css(name: str, size: str, *, behind: str = "$background") -> str:
    """Return the CSS of a screen with one box; `behind` covers the view, as translucent screens are drawn twice."""
    return f"""
    {name} {{ align: center middle; background: {behind}; }}
    {name} > .box {{
        max-width: 100%; background: $surface; border: round $primary; padding: 0 1; {size}
    }}
    """


_SMALL = "width: auto; height: auto; max-height: 80%; min-width: 40;"


class Menu(ModalScreen[str | None]):
    """A menu in which each choice has a letter. Returns the name of the choice, None if cancelled.

    Args:
        title: The title.
        choices: Letter, name and description of each.
        width: Cells per choice.
    """

    DEFAULT_CSS = (
        box_css("Menu", _SMALL, behind="transparent")
        + "Menu OptionList { height: auto; max-width: 100%; border: none; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        Binding("j", "move('down')", show=False),
        Binding("k", "move('up')", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[tuple[str, str, str]], *, width: int = 60) -> None:
        super().__init__()
        self._title = title
        self._width = width
        self._choices = choices

    def compose(self) -> ComposeResult:
        """Create the box with the choices."""
        with Vertical(classes="box") as box:
            box.border_title = Text(terminal(self._title))
            options = OptionList(*(Option(_choice_text(*choice), id=choice[1]) for choice in self._choices))
            options.styles.width = self._width
            yield options

    def on_key(self, event: events.Key) -> None:
        """Select a choice by its letter."""
        for letter, name, _ in self._choices:
            if event.character == letter:
                event.stop()
                self.dismiss(name)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Select a choice with enter or the mouse."""
        self.dismiss(event.option.id)

    def action_move(self, direction: str) -> None:
        """Move the cursor up or down."""
        options = self.query_one(OptionList)
        options.action_cursor_down() if direction == "down" else options.action_cursor_up()

    def action_leave(self) -> None:
        """Cancel the menu."""
        self.dismiss(None)


def _choice_text(letter: str, name: str, description: str) -> Text:
    return Text.assemble(
        (f" {letter} ", "bold reverse"), " ", (terminal(name), "bold"), "  ", (terminal(description), "dim")
    )


class Prompt(ModalScreen[str | None]):
    """A text input; returns None if cancelled.

    Args:
        title: What to enter.
        value: The initial text.
    """

    DEFAULT_CSS = box_css("Prompt", _SMALL, behind="transparent") + "Prompt Input { width: 70; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        """Create the input in a box."""
        with Vertical(classes="box") as box:
            box.border_title = Text(terminal(self._title))
            yield Input(terminal(self._value))

    @on(Input.Submitted)
    def submit(self, event: Input.Submitted) -> None:
        """Return the text."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Cancel the input."""
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Asks for confirmation before an action that cannot be undone.

    Args:
        title: The question.
        text: What will happen.
        key: The key that confirms, as do enter and y.
    """

    DEFAULT_CSS = box_css("Confirm", _SMALL, behind="transparent") + "Confirm Static { width: auto; max-width: 76; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", show=False),
        Binding("escape,n", "answer(False)", show=False),
    ]

    def __init__(self, title: str, text: str, key: str) -> None:
        super().__init__()
        self._title, self._text, self._key = title, text, key

    def compose(self) -> ComposeResult:
        """Create the box with the text and its keys."""
        with Vertical(classes="box") as box:
            box.border_title = Text(terminal(self._title))
            box.border_subtitle = Text(f"{self._key}: yes   esc: no")
            yield Static(Text(terminal_lines(self._text)))

    def on_key(self, event: events.Key) -> None:
        """Confirm with the key that opened the dialog."""
        if event.character == self._key:
            event.stop()
            self.dismiss(True)

    def action_answer(self, answer: bool) -> None:  # from a binding
        """Return the user's decision."""
        self.dismiss(answer)


class Reading(ModalScreen[None]):
    """A scrollable text."""

    DEFAULT_CSS = (
        box_css("Reading", "width: 100; height: auto; max-height: 90%; padding: 1 2;")
        + "Reading Static { height: auto; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "leave", show=False),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("g,home", "to_top", show=False),
        Binding("G,end", "to_end", show=False),
    ]

    def __init__(self, title: str, text: RenderableType) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Create the box with the text."""
        with VerticalScroll(classes="box") as box:
            box.border_title = Text(terminal(self._title))
            yield Static(Text(terminal_lines(self._text)) if isinstance(self._text, str) else self._text)

    def action_move(self, lines: int) -> None:
        """Scroll by this many lines."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_to_top(self) -> None:
        """Scroll to the top."""
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_to_end(self) -> None:
        """Scroll to the end."""
        self.query_one(VerticalScroll).scroll_end(animate=False)

    def action_leave(self) -> None:
        """Close the text."""
        self.dismiss(None)
