"""The application: reads its source in slices while one view is on the screen."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Input

from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import safe
from kproxy.tui.dialogs import Confirm, Reading
from kproxy.tui.exchanges import ExchangeView
from kproxy.tui.filter_status import FilterLine
from kproxy.tui.footer import Keys
from kproxy.tui.help import help_text, key_name
from kproxy.tui.status_bar import Bar, ViewTabs
from kproxy.tui.styled_text import DARK
from kproxy.tui.view import View
from kproxy.tui.views.apis import ApiView
from kproxy.tui.views.clients import ClientView
from kproxy.tui.views.connections import ConnectionView
from kproxy.tui.views.findings import FindingView
from kproxy.tui.views.groups import GroupsView
from kproxy.tui.views.topics import TopicView
from kproxy.tui.views.transactions import TransactionsView

#: Seconds of reading before the screen and keys are handled, and the pause afterwards.
SLICE = 0.008
_PAUSE_S = 0.002
_IDLE_PAUSE_S = 0.05
#: Seconds that reading pauses after a key or mouse event.
_INPUT_PAUSE_S = 0.03
#: Seconds between checks for changes, and between updates if only time has passed: with and without waiting requests.
REFRESH = 0.1
_WAITING_INTERVAL_S = 0.25
_QUIET_INTERVAL_S = 1.0


class KproxyApp(App[None]):
    """The terminal application for one source."""

    TITLE = "kproxy"
    CSS_PATH = "kproxy.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", show=False, priority=True),
        Binding("colon", "command_palette", "commands", show=False),
        Binding("space", "pause", "pause"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+l", "redraw", show=False, priority=True),
        *(Binding(str(number), f"view({number})", show=False) for number in range(1, 9)),
    ]

    def __init__(self, session: BrowseSession) -> None:
        super().__init__()
        self.ansi_theme_dark = DARK
        self.session = session
        self.paused = False
        self._last_state: tuple[object, ...] = ()
        self._updated_at = self._last_input_at = 0.0
        self._bar = Bar()
        self._filter = FilterLine()
        self._frames = ExchangeView(session)
        overviews = (ConnectionView, ApiView, TopicView, GroupsView, FindingView, ClientView, TransactionsView)
        self._views: Sequence[View] = [self._frames, *(view(session) for view in overviews)]
        self._tabs = ViewTabs(self._views)
        self._switcher = ContentSwitcher(initial=self._frames.id)

    def compose(self) -> ComposeResult:
        """Create the bar, tabs, filter line and first view; other views are mounted when they are first shown."""
        yield self._bar
        yield self._tabs
        yield self._filter
        with self._switcher:
            yield self._frames
        yield Keys()

    def on_mount(self) -> None:
        """Start reading."""
        self.set_focus(self.view.first)
        self.read()
        self.set_interval(REFRESH, self.refresh_screen)

    def on_ready(self) -> None:
        """Exclude existing objects from garbage collection, which would block keys for a tenth of a second."""
        if not self.is_headless:
            gc.freeze()

    @work(exclusive=True)
    async def read(self) -> None:
        """Run the source and read its lines in slices, forever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.session.source.run())
            while True:
                work_remains = self.session.work(SLICE)
                input_pause = self._last_input_at + _INPUT_PAUSE_S - time.monotonic()
                await asyncio.sleep(max(input_pause, _PAUSE_S if work_remains else _IDLE_PAUSE_S))

    async def on_event(self, event: events.Event) -> None:
        """Record the time of user input; move the focus to the view if the focused widget is now hidden.

        A terminal window that loses focus keeps its cursor and focused widget. In a browser, Textual reports a lost
        focus at the start of a session, after the browser has reported that it has the focus.
        """
        if isinstance(event, events.AppBlur):
            return
        if isinstance(event, events.InputEvent) and not isinstance(event, events.MouseMove):
            self._last_input_at = time.monotonic()
            if self.focused is None and len(self.screen_stack) == 1:
                self.set_focus(self.view.first)
        await super().on_event(event)

    def refresh_screen(self) -> None:
        """Show what has changed since the last check."""
        session, source = self.session, self.session.source
        self._bar.update_from(session, paused=self.paused, follows=self._frames.table.follow)
        self._filter.update_from(session, self.view.effect)
        state = session.version, session.visible.version, source.phase, source.name
        if self.paused or (state == self._last_state and not self._is_clock_update_due()):
            return
        self._updated_at = time.monotonic()
        if self.view.update():
            self._last_state = state

    def _is_clock_update_due(self) -> bool:
        """Whether it is time to update values that change by themselves, such as the age of waiting requests."""
        interval = _WAITING_INTERVAL_S if self.session.index.waiting() else _QUIET_INTERVAL_S
        return self.session.source.live and time.monotonic() - self._updated_at >= interval

    @property
    def view(self) -> View:
        """The view on the screen."""
        current = self._switcher.current
        return next(view for view in self._views if view.id == current)

    async def show(self, view: View) -> None:
        """Show a view."""
        if not view.is_mounted:
            view.display = False
            await self._switcher.mount(view)
        self._switcher.current = view.id
        self._tabs.show(view)
        self._last_state = ()
        if view is not self._frames and self.session.matching is not None:
            self.session.work(SLICE)  # a short trace shows its matches immediately
        view.update()
        self.set_focus(view.first)

    @on(ViewTabs.Chosen)
    async def show_chosen(self, event: ViewTabs.Chosen) -> None:
        """Show the view of the clicked tab."""
        await self.show(event.view)

    @on(View.Jump)
    async def show_frame(self, event: View.Jump) -> None:
        """Show an exchange in the list of frames."""
        view = self.view
        await self.show(self._frames)
        self._frames.jump_from(view, event.row)

    @on(View.Narrow)
    async def show_frames(self, event: View.Narrow) -> None:
        """Show the frames that a filter matches."""
        view = self.view
        await self.show(self._frames)
        self._frames.narrow_more(view, event.filter)

    @on(View.Return)
    async def show_again(self, event: View.Return) -> None:
        """Return to the view that led here."""
        await self.show(event.view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable `/` while a text input has the focus."""
        if action == "filter" and (len(self.screen_stack) > 1 or isinstance(self.focused, Input)):
            return False
        return super().check_action(action, parameters)

    async def action_filter(self) -> None:
        """Edit the filter, from any view."""
        await self.show(self._frames)
        self._frames.action_filter()

    @work
    async def action_leave(self) -> None:
        """Quit; ask first if that stops a proxy."""
        warning = self.session.source.warning
        if warning is None or await self.push_screen_wait(Confirm("quit?", safe(warning), "q")):
            self.exit()

    def action_clear_filter(self) -> None:
        """Clear the filter, from any view."""
        self._frames.clear_filter()
        self.refresh_screen()

    async def action_view(self, number: int) -> None:
        """Show the view with that number key."""
        if number <= len(self._views):
            await self.show(self._views[number - 1])

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """List the commands of the palette: views, actions of the current view, themes and others."""
        for number, view in enumerate(self._views, 1):
            yield SystemCommand(view.title, f"show this view (key {number})", partial(self.show, view))
        for binding in self.view.commands():
            yield SystemCommand(binding.description.capitalize(), f"key {key_name(binding)}",
                                partial(self.view.run_action, binding.action))  # fmt: skip
        yield SystemCommand("Pause", "freeze the screen, or resume (space)", self.action_pause)
        yield SystemCommand("Help", "keys, and how to read the screen (?)", self.action_help)
        yield SystemCommand("Clear the filter", "show all rows (c)", self.action_clear_filter)
        yield SystemCommand("Quit", "quit (q)", self.action_leave)
        yield from (
            command for command in super().get_system_commands(screen) if command.title in ("Theme", "Screenshot")
        )

    def action_redraw(self) -> None:
        """Redraw the whole screen, for a terminal that has lost its content."""
        self.screen.refresh(layout=True)

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(Reading("help", help_text(self.view, self._views)))

    def action_pause(self) -> None:
        """Freeze the screen, or resume."""
        self.paused = not self.paused
