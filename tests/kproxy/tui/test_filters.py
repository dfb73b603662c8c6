"""The filter: it is shown, narrows every view, adds up on the way, and is left step by step."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import parse
from kproxy.trace.lines import Line
from kproxy.tui.app import KproxyApp
from kproxy.tui.exchanges import ExchangeView
from tests.kproxy.browse.sessions import finding, request, response, session_of
from tests.kproxy.tui.screens import press, running, text


def mixed() -> BrowseSession:
    lines: list[Line] = []
    for number in range(12):
        name = "audit" if number % 3 == 0 else "shop"
        api, key = ("Heartbeat", 12) if number % 2 else ("Fetch", 1)
        asked = request(number, at=number, client_id=name, api=api, api_key=key, connection_id=f"n-{number % 3}",
                        group_id=f"group-of-{name}")  # fmt: skip
        lines += [asked, response(asked, findings=[finding()] if number == 3 else [])]
    return session_of(lines)


def filter_of(session: BrowseSession) -> str:
    return str(session.visible.filter or "")


async def test_the_filter_is_on_the_screen_in_every_view() -> None:
    session = mixed()
    session.visible.choose(parse("client_id=audit"))
    async with running(session) as pilot:
        for key in "1234567":
            await press(pilot, key)
            shown = text(pilot)
            assert "filter client_id=audit  4 shown of 12" in shown, key
            assert "c clear" in shown
        await press(pilot, "c")
        assert "filter client_id" not in text(pilot)
        await press(pilot, "1", "z")
        assert "only rows with findings" in text(pilot)


@pytest.mark.parametrize(
    ("key", "there", "not_there"),
    [("2", ["#0"], ["#1 ", "#2 "]), ("3", ["Heartbeat"], ["Fetch"]), ("5", ["group-of-audit"], ["group-of-shop"]),
     ("6", ["S001"], []), ("7", ["audit"], ["shop"])],
)  # fmt: skip
async def test_overviews_are_of_what_matches(key: str, there: list[str], not_there: list[str]) -> None:
    session = mixed()
    session.visible.choose(parse("client_id=audit and api=Heartbeat"))
    async with running(session) as pilot:
        await press(pilot, key)
        shown = "\n".join(text(pilot).splitlines()[3:])
        assert all(each in shown for each in there)
        assert not any(each in shown for each in not_there)


async def test_nothing_that_matches_is_said_with_the_way_out() -> None:
    session = mixed()
    session.visible.choose(parse("client_id=nobody"))
    async with running(session) as pilot:
        for key, what in (("1", "rows"), ("3", "APIs"), ("4", "topics")):
            await press(pilot, key)
            shown = text(pilot)
            assert f"No {what} match the filter client_id=nobody; there are 12 rows." in shown
            assert "Press c to clear the filter, or / to edit it." in shown
        await press(pilot, "c", "1")
        assert "audit" in text(pilot)


async def test_enter_on_an_overview_adds_to_the_filter_and_esc_takes_it_back() -> None:
    session = mixed()
    session.visible.choose(parse("client_id=audit"))
    async with running(session) as pilot:
        app = pilot.app
        assert isinstance(app, KproxyApp)
        await press(pilot, "3", "enter")
        assert filter_of(session) == 'client_id=audit and api="Fetch"'
        assert len(session.visible) == 2
        await press(pilot, "2", "enter")
        assert len(session.visible) == 2
        await press(pilot, "escape")
        assert app.view.title == "Connections"
        await press(pilot, "1", "escape")
        assert app.view.title == "APIs"
        assert filter_of(session) == "client_id=audit"
        await press(pilot, "escape")
        assert app.view.title == "Frames"
        assert filter_of(session) == "client_id=audit"
        await press(pilot, "escape")
        assert filter_of(session) == ""


async def test_a_filter_with_or_is_kept_whole() -> None:
    session = mixed()
    session.visible.choose(parse("client_id=nobody or client_id=audit"))
    async with running(session) as pilot:
        await press(pilot, "3", "enter")
        assert session.visible.filter == parse('(client_id=nobody or client_id=audit) and api="Fetch"')


async def test_a_row_that_the_filter_leaves_out_is_shown_and_the_filter_comes_back() -> None:
    session = mixed()
    session.visible.choose(parse("client_id=shop"))
    async with running(session) as pilot:
        await press(pilot, "j")
        await press(pilot, "exclamation_mark")
        view = pilot.app.query_one(ExchangeView)
        assert (filter_of(session), view.row) == ("", 3)
        await press(pilot, "escape")
        assert (filter_of(session), view.row) == ("client_id=shop", 2)


async def test_a_filter_that_is_written_anew_is_left_at_once() -> None:
    session = mixed()
    async with running(session) as pilot:
        await press(pilot, "3", "enter", "slash")
        pilot.app.query_one(Input).value += " and client_id=shop"
        await press(pilot, "enter")
        assert filter_of(session) == 'api="Fetch" and client_id=shop'
        assert len(session.visible) == 4
        await press(pilot, "escape")
        assert filter_of(session) == ""
        assert "Frames" in pilot.app.view.title  # type: ignore[attr-defined]


async def test_rows_that_are_not_there_are_explained() -> None:
    for phase, said in (
        (SourcePhase.ENDED, "given contains no Kafka traffic."),
        (SourcePhase.LIVE, "given is still empty"),
    ):
        async with running(session_of([], phase=phase)) as pilot:
            assert said in text(pilot)
    async with running(session_of([request(1)])) as pilot:
        await press(pilot, "4")
        assert "given has no topics." in text(pilot)
