"""A live view: what it says before there is traffic, how it follows, how it is left."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType
from textual import events

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.tui.app import KproxyApp
from kproxy.tui.exchanges import ExchangeView
from kproxy.tui.table import Table
from tests.kproxy.browse.sessions import LinesSource, request, session_of
from tests.kproxy.tui.screens import press, running, settled, text, until


class Stream(LinesSource):
    """Traffic that goes on; leaving it stops something if `warns`."""

    is_stream = True
    warns: str | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, phase=SourcePhase.LIVE)

    @property
    def warning(self) -> str | None:
        return self.warns


def live(count: int) -> tuple[BrowseSession, Stream]:
    source = Stream([request(number) for number in range(count)])
    session = BrowseSession(source)
    session.work(1)
    return session, source


async def test_a_stream_is_followed_from_the_start_until_the_cursor_moves_up() -> None:
    session, source = live(3)
    async with running(session) as pilot:
        rows = pilot.app.query_one("#exchanges", Table)
        source.add(request(10))
        await settled(pilot)
        assert (rows.cursor, rows.follow) == (3, True)
        assert "FOLLOW" in text(pilot).splitlines()[0]
        await press(pilot, "k")
        source.add(request(11))
        await settled(pilot)
        assert (rows.cursor, rows.follow) == (2, False)
        assert "FOLLOW" not in text(pilot)


async def test_a_stream_that_begins_empty_is_followed_too() -> None:
    session, source = live(0)
    async with running(session) as pilot:
        source.add(*(request(number) for number in range(60)))
        await settled(pilot)
        assert pilot.app.query_one("#exchanges", Table).cursor == 59


async def test_what_is_not_a_stream_is_not_followed() -> None:
    async with running(session_of([request(1), request(2)], phase=SourcePhase.LIVE)) as pilot:
        rows = pilot.app.query_one("#exchanges", Table)
        assert (rows.cursor, rows.follow) == (0, False)


async def test_an_exchange_that_is_looked_at_stays() -> None:
    for keys in (("enter",), ("tab",)):
        session, source = live(3)
        async with running(session) as pilot:
            await press(pilot, *keys)
            source.add(request(10))
            await settled(pilot)
            assert pilot.app.query_one(ExchangeView).row == 2, keys


async def test_leaving_asks_only_if_that_stops_something() -> None:
    session, source = live(1)
    async with running(session) as pilot:
        await press(pilot, "q")
        await until(pilot, lambda: not pilot.app.is_running)
    session, source = live(1)
    source.warns = "Quitting stops the proxy 127.0.0.1:9092 and closes 2 connections."
    for answer, leaves in (("escape", False), ("n", False), ("q", True), ("y", True), ("enter", True)):
        async with running(session) as pilot:
            app = pilot.app
            assert isinstance(app, KproxyApp)
            await press(pilot, "q")
            await until(pilot, lambda app=app: len(app.screen_stack) == 2)  # type: ignore[misc]
            await settled(pilot)
            assert "Quitting stops the proxy 127.0.0.1:9092 and closes 2 connections." in text(pilot)
            await pilot.press(answer)
            await until(pilot, lambda app=app: len(app.screen_stack) < 2)  # type: ignore[misc]
            if leaves:
                await until(pilot, lambda app=app: not app.is_running)  # type: ignore[misc]
            assert app.is_running is not leaves


async def test_ctrl_c_does_not_ask() -> None:
    session, source = live(1)
    source.warns = "Quitting stops the proxy."
    async with running(session) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_a_window_that_is_left_keeps_its_keys() -> None:
    async with running(session_of([request(1), request(2)])) as pilot:
        pilot.app.post_message(events.AppBlur())  # so does a session in a browser begin
        await settled(pilot)
        assert pilot.app.query_one("#exchanges", Table).has_focus
        assert "/ filter" in text(pilot).splitlines()[-1]


async def test_the_screen_can_be_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(session_of([request(1), request(2)])) as pilot:
        drawn: list[str] = []
        console = Console(width=pilot.app.size.width, file=io.StringIO(), record=True)

        def display(_: object, update: RenderableType) -> None:
            console.print(update)
            drawn.append(console.export_text())

        monkeypatch.setattr(pilot.app, "_display", display)
        await settled(pilot)
        drawn.clear()
        await press(pilot, "ctrl+l")
        first, *_, last = filter(None, map(str.strip, text(pilot).splitlines()))
        assert any(first in each and last in each for each in drawn)
