"""The base class of the views, and the messages that they send to the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget


class View(Container):
    """A view that a key switches to.

    `title` is its name on the tabs, `about` explains in a few sentences how to read it. The application calls `update`
    when lines have been read, at most ten times per second, and only while the view is on the screen.
    """

    title: ClassVar[str]
    #: The title in a narrow terminal, if it is shorter.
    short_title: ClassVar[str] = ""
    about: ClassVar[str]
    #: The effect of the filter on the view.
    effect: ClassVar[str] = ""

    DEFAULT_CSS = """
    View { height: 1fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [  # here, not in the application, so that they come first
        Binding("question_mark", "app.help", "help"),
        Binding("q", "app.leave", "quit"),
        Binding("c", "app.clear_filter", "clear the filter", show=False),
    ]

    @dataclass
    class Jump(Message):
        """Posted to show the exchange with this row in the list of frames."""

        row: int

    @dataclass
    class Narrow(Message):
        """Posted to show the frames that this filter matches, among the visible ones."""

        filter: str

    @dataclass
    class Return(Message):
        """Posted to show this view again."""

        view: View

    def commands(self) -> list[Binding]:
        """Return the view's actions other than navigation, for the help and the command palette."""
        kinds = [kind for kind in reversed(type(self).__mro__) if issubclass(kind, View) and kind is not View]
        bindings = (binding for kind in kinds for binding in vars(kind).get("BINDINGS", ()))
        return [binding for binding in bindings if isinstance(binding, Binding) and binding.description]

    def update(self) -> bool:
        """Show the current state; return False if the update is postponed and must be retried."""
        raise NotImplementedError

    @property
    def first(self) -> Widget:
        """The widget that gets the focus by default."""
        raise NotImplementedError
