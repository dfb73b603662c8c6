"""What the views have in common, and what they ask of the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget


class View(Container):
    """One of the screens that a key switches to.

    `title` is its name on the tabs, `about` says in a few sentences how to read it. It is told to `update` when
    something was read, at most ten times a second, and only while it is on the screen.
    """

    title: ClassVar[str]
    about: ClassVar[str]
    #: What the view makes of the filter.
    effect: ClassVar[str] = ""

    DEFAULT_CSS = """
    View { height: 1fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [  # here, and not the application's, so that they stand first
        Binding("question_mark", "app.help", "help"),
        Binding("q", "app.leave", "quit"),
        Binding("c", "app.clear_filter", "clear the filter", show=False),
    ]

    @dataclass
    class Jump(Message):
        """Show the exchange with this number in the list of frames."""

        row: int

    @dataclass
    class Narrow(Message):
        """Show the frames that this filter matches, of those that are shown already."""

        filter: str

    @dataclass
    class Return(Message):
        """Show this view again, which led here."""

        view: View

    def commands(self) -> list[Binding]:
        """What can be done here beside moving about, for the help and the command palette."""
        kinds = [kind for kind in reversed(type(self).__mro__) if issubclass(kind, View) and kind is not View]
        declared = (each for kind in kinds for each in vars(kind).get("BINDINGS", ()))
        return [each for each in declared if isinstance(each, Binding) and each.description]

    def update(self) -> bool:
        """Show how things are now; False if that is put off, and is to be asked for again."""
        raise NotImplementedError

    @property
    def first(self) -> Widget:
        """What has the keys when nothing else does."""
        raise NotImplementedError
