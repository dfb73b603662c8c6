"""Every view shows and applies the filter; Enter extends it, and Escape undoes that step by step."""

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


def mixed_session() -> BrowseSession:
    lines: list[Line] = []
    for number in range(12):
        client_id = "audit" if number % 3 == 0 else "shop"
        api, key = ("Heartbeat", 12) if number % 2 else ("Fetch", 1)
        request_line = request(number, at=number, client_id=client_id, api=api, api_key=key,
                               connection_id=f"n-{number % 3}", group_id=f"group-of-{client_id}")  # fmt: skip
        lines += [request_line, response(request_line, findings=[finding()] if number == 3 else [])]
    return session_of(lines)


def filter_text(session: BrowseSession) -> str:
    return str(session.visible.filter or "")


@pytest.mark.slow
async def test_every_view_shows_the_filter() -> None:
    session = mixed_session()
    session.visible.choose(parse("client_id=audit"))
    async with running(session) as pilot:
        for key in "1234567":
            await press(pilot, key)
            screen_text = text(pilot)
            assert "filter client_id=audit  4 shown of 12" in screen_text, key
            assert "c clear" in screen_text
        await press(pilot, "c")
        assert "filter client_id" not in text(pilot)
        await press(pilot, "1", "z")
        assert "only rows with findings" in text(pilot)


@pytest.mark.parametrize(
    ("key", "expected", "unexpected"),
    [("2", ["#0"], ["#1 ", "#2 "]), ("3", ["Heartbeat"], ["Fetch"]), ("5", ["group-of-audit"], ["group-of-shop"]),
     ("6", ["S001"], []), ("7", ["audit"], ["shop"])],
)  # fmt: skip
async def test_overviews_cover_only_matching_rows(key: str, expected: list[str], unexpected: list[str]) -> None:
    session = mixed_session()
    session.visible.choose(parse("client_id=audit and api=Heartbeat"))
    async with running(session) as pilot:
        await press(pilot, key)
        screen_text = "\n".join(text(pilot).splitlines()[3:])
        assert all(fragment in screen_text for fragment in expected)
        assert not any(fragment in screen_text for fragment in unexpected)


@pytest.mark.slow
async def test_filter_without_matches_is_explained() -> None:
    session = mixed_session()
    session.visible.choose(parse("client_id=nobody"))
    async with running(session) as pilot:
        for key, items in (("1", "rows"), ("3", "APIs"), ("4", "topics")):
            await press(pilot, key)
            screen_text = text(pilot)
            assert f"No {items} match the filter client_id=nobody; there are 12 rows." in screen_text
            assert "Press c to clear the filter, or / to edit it." in screen_text
        await press(pilot, "c", "1")
        assert "audit" in text(pilot)


@pytest.mark.slow
async def test_enter_in_an_overview_extends_the_filter_and_escape_reverts_it() -> None:
    session = mixed_session()
    session.visible.choose(parse("client_id=audit"))
    async with running(session) as pilot:
        app = pilot.app
        assert isinstance(app, KproxyApp)
        await press(pilot, "3", "enter")
        assert filter_text(session) == 'client_id=audit and api="Fetch"'
        assert len(session.visible) == 2
        await press(pilot, "2", "enter")
        assert len(session.visible) == 2
        await press(pilot, "escape")
        assert app.view.title == "Connections"
        await press(pilot, "1", "escape")
        assert app.view.title == "APIs"
        assert filter_text(session) == "client_id=audit"
        await press(pilot, "escape")
        assert app.view.title == "Frames"
        assert filter_text(session) == "client_id=audit"
        await press(pilot, "escape")
        assert filter_text(session) == ""


@pytest.mark.slow
async def test_extending_a_filter_with_or_adds_parentheses() -> None:
    session = mixed_session()
    session.visible.choose(parse("client_id=nobody or client_id=audit"))
    async with running(session) as pilot:
        await press(pilot, "3", "enter")
        assert session.visible.filter == parse('(client_id=nobody or client_id=audit) and api="Fetch"')


@pytest.mark.slow
async def test_jump_to_an_excluded_row_suspends_the_filter() -> None:
    session = mixed_session()
    session.visible.choose(parse("client_id=shop"))
    async with running(session) as pilot:
        await press(pilot, "j")
        await press(pilot, "exclamation_mark")
        view = pilot.app.query_one(ExchangeView)
        assert (filter_text(session), view.row) == ("", 3)
        await press(pilot, "escape")
        assert (filter_text(session), view.row) == ("client_id=shop", 2)


@pytest.mark.slow
async def test_escape_clears_an_edited_filter_in_one_step() -> None:
    session = mixed_session()
    async with running(session) as pilot:
        await press(pilot, "3", "enter", "slash")
        pilot.app.query_one(Input).value += " and client_id=shop"
        await press(pilot, "enter")
        assert filter_text(session) == 'api="Fetch" and client_id=shop'
        assert len(session.visible) == 4
        await press(pilot, "escape")
        assert filter_text(session) == ""
        assert "Frames" in pilot.app.view.title  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_empty_views_are_explained() -> None:
    for phase, message in (
        (SourcePhase.ENDED, "given contains no Kafka traffic."),
        (SourcePhase.LIVE, "given is still empty"),
    ):
        async with running(session_of([], phase=phase)) as pilot:
            assert message in text(pilot)
    async with running(session_of([request(1)])) as pilot:
        await press(pilot, "4")
        assert "given has no topics." in text(pilot)
