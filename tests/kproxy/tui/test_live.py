"""Live views show messages before there is traffic, follow the traffic, and can be quit."""

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
from tests.kproxy.tui.screens import press, running, text, until, wait_until_settled


class StreamSource(LinesSource):
    """A source with ongoing traffic; if `warns` is set, that text is shown before quitting."""

    is_stream = True
    warns: str | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, phase=SourcePhase.LIVE)

    @property
    def warning(self) -> str | None:
        return self.warns


def live_session(count: int) -> tuple[BrowseSession, StreamSource]:
    source = StreamSource([request(number) for number in range(count)])
    session = BrowseSession(source)
    session.work(1)
    return session, source


@pytest.mark.slow
async def test_stream_is_followed_until_the_cursor_moves_up() -> None:
    session, source = live_session(3)
    async with running(session) as pilot:
        rows = pilot.app.query_one("#exchanges", Table)
        source.add(request(10))
        await wait_until_settled(pilot)
        assert (rows.cursor, rows.follow) == (3, True)
        assert "FOLLOW" in text(pilot).splitlines()[0]
        await press(pilot, "k")
        source.add(request(11))
        await wait_until_settled(pilot)
        assert (rows.cursor, rows.follow) == (2, False)
        assert "FOLLOW" not in text(pilot)


async def test_stream_that_is_empty_at_first_is_followed() -> None:
    session, source = live_session(0)
    async with running(session) as pilot:
        source.add(*(request(number) for number in range(60)))
        await wait_until_settled(pilot)
        assert pilot.app.query_one("#exchanges", Table).cursor == 59


async def test_other_sources_are_not_followed() -> None:
    async with running(session_of([request(1), request(2)], phase=SourcePhase.LIVE)) as pilot:
        rows = pilot.app.query_one("#exchanges", Table)
        assert (rows.cursor, rows.follow) == (0, False)


@pytest.mark.slow
async def test_viewed_exchange_stays_selected() -> None:
    for keys in (("enter",), ("tab",)):
        session, source = live_session(3)
        async with running(session) as pilot:
            await press(pilot, *keys)
            source.add(request(10))
            await wait_until_settled(pilot)
            assert pilot.app.query_one(ExchangeView).row == 2, keys


@pytest.mark.slow
async def test_quitting_asks_for_confirmation_only_if_it_stops_a_proxy() -> None:
    session, source = live_session(1)
    async with running(session) as pilot:
        await press(pilot, "q")
        await until(pilot, lambda: not pilot.app.is_running)
    session, source = live_session(1)
    source.warns = "Quitting stops the proxy 127.0.0.1:9092 and closes 2 connections."
    for key, quits in (("escape", False), ("n", False), ("q", True), ("y", True), ("enter", True)):
        async with running(session) as pilot:
            app = pilot.app
            assert isinstance(app, KproxyApp)
            await press(pilot, "q")
            await until(pilot, lambda app=app: len(app.screen_stack) == 2)  # type: ignore[misc]
            await wait_until_settled(pilot)
            assert "Quitting stops the proxy 127.0.0.1:9092 and closes 2 connections." in text(pilot)
            await pilot.press(key)
            await until(pilot, lambda app=app: len(app.screen_stack) < 2)  # type: ignore[misc]
            if quits:
                await until(pilot, lambda app=app: not app.is_running)  # type: ignore[misc]
            assert app.is_running is not quits


async def test_ctrl_c_quits_without_asking() -> None:
    session, source = live_session(1)
    source.warns = "Quitting stops the proxy."
    async with running(session) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_table_keeps_the_focus_when_the_window_loses_it() -> None:
    async with running(session_of([request(1), request(2)])) as pilot:
        pilot.app.post_message(events.AppBlur())  # a session in a browser starts without focus
        await wait_until_settled(pilot)
        assert pilot.app.query_one("#exchanges", Table).has_focus
        assert "/ filter" in text(pilot).splitlines()[-1]


async def test_ctrl_l_redraws_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(session_of([request(1), request(2)])) as pilot:
        exports: list[str] = []
        console = Console(width=pilot.app.size.width, file=io.StringIO(), record=True)

        def record_display(_: object, update: RenderableType) -> None:
            console.print(update)
            exports.append(console.export_text())

        monkeypatch.setattr(pilot.app, "_display", record_display)
        await wait_until_settled(pilot)
        exports.clear()
        await press(pilot, "ctrl+l")
        first_row, *_, last_row = filter(None, map(str.strip, text(pilot).splitlines()))
        assert any(first_row in export and last_row in export for export in exports)
