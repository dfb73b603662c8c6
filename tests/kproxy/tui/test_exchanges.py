"""The view of frames and its keyboard commands."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import SourcePhase
from kproxy.control.protocol import LateResponse
from kproxy.trace.lines import Line, RequestLine
from kproxy.trace.timestamps import timestamp
from kproxy.tui.app import KproxyApp
from kproxy.tui.detail import DetailPane
from kproxy.tui.exchanges import ExchangeView
from kproxy.tui.hex_view import HexView
from kproxy.tui.table import Table
from kproxy.tui.tree import FieldTree
from tests.kproxy.browse.sessions import (
    BEGAN,
    SECOND,
    LinesSource,
    finding,
    request,
    response,
    session_of,
    session_of_capture,
)
from tests.kproxy.capture_results import DATA
from tests.kproxy.tui.screens import (
    SIZES,
    assert_matches_snapshot,
    notifications_text,
    press,
    requires_snapshot_versions,
    running,
    text,
    until,
    wait_until_settled,
)

BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"


@pytest.fixture
def bug_session() -> BrowseSession:
    return session_of_capture(BUG)


def many_exchanges(count: int = 100) -> list[Line]:
    lines: list[Line] = []
    for number in range(count):
        request_line = request(number, at=number)
        lines += [
            request_line,
            response(request_line, after_us=number, findings=[finding()] if number % 10 == 7 else []),
        ]
    return lines


def table(app: KproxyApp) -> Table:
    return app.query_one("#exchanges", Table)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_screen_shows_the_bug_and_two_keys_show_its_bytes(
    bug_session: BrowseSession, size: tuple[int, int]
) -> None:
    async with running(bug_session, size) as pilot:
        await press(pilot, "n")
        assert "L005" in text(pilot)
        await press(pilot, "enter")
        screen_text = text(pilot)
        assert "do not write throttle_time_ms in version 2" in screen_text or size[0] == 80
        assert pilot.app.query_one(HexView).span == (8, 12)
        await press(pilot, "escape")
        assert table(pilot.app).display  # type: ignore[arg-type]


@requires_snapshot_versions
@pytest.mark.parametrize("size", SIZES)
async def test_frames_and_detail_match_snapshots(bug_session: BrowseSession, size: tuple[int, int]) -> None:
    async with running(bug_session, size) as pilot:
        await press(pilot, "n")
        assert_matches_snapshot(pilot, "frames")
        await press(pilot, "enter")
        assert_matches_snapshot(pilot, "detail")


async def test_keys_move_the_cursor() -> None:
    async with running(session_of(many_exchanges())) as pilot:
        rows = table(pilot.app)  # type: ignore[arg-type]
        for keys, expected in (
            (["j"], 1), (["down", "down"], 3), (["k"], 2), (["G"], 99), (["up"], 98), (["g"], 0), (["end"], 99),
            (["home"], 0), (["n"], 7), (["n", "n"], 27), (["N"], 17), (["right_square_bracket"], 18),
            (["pagedown"], None), (["ctrl+u"], 18),
        ):  # fmt: skip
            await pilot.press(*keys)
            assert expected is None or rows.cursor == expected, keys
        assert rows.key == 18


async def test_moving_the_cursor_ends_following() -> None:
    session = session_of(many_exchanges(5), phase=SourcePhase.LIVE)
    source = session.source
    assert isinstance(source, LinesSource)
    async with running(session) as pilot:
        rows = table(pilot.app)  # type: ignore[arg-type]
        await press(pilot, "F")
        assert rows.cursor == 4
        source.add(request(50, at=50))
        await wait_until_settled(pilot)
        assert rows.cursor == 5
        await press(pilot, "k")
        assert not rows.follow
        source.add(request(51, at=51))
        await wait_until_settled(pilot)
        assert rows.cursor == 4
        assert "7 rows" in text(pilot)


@pytest.mark.slow
async def test_pause_freezes_the_screen() -> None:
    session = session_of(many_exchanges(5))
    source = session.source
    assert isinstance(source, LinesSource)
    async with running(session) as pilot:
        await press(pilot, "space")
        source.add(request(50, client_id="newcomer"))
        await wait_until_settled(pilot)
        assert "newcomer" not in text(pilot)
        assert "PAUSED" in text(pilot)
        await press(pilot, "space")
        assert "newcomer" in text(pilot)


async def test_duration_of_a_waiting_request_counts_up() -> None:
    waiting_request = request(1, at=(time.time_ns() - BEGAN) / SECOND - 5)
    async with running(session_of([waiting_request], phase=SourcePhase.LIVE)) as pilot:
        first_duration = re.search(r"([\d.]+) s\b", text(pilot).splitlines()[3])
        assert first_duration is not None
        assert float(first_duration[1]) >= 5
        await until(pilot, lambda: first_duration[0] not in text(pilot).splitlines()[3])
        assert "1 waiting" in text(pilot)


def late_response(request_line: RequestLine, why: str) -> LateResponse:
    return LateResponse(
        request_line.connection_id,
        request_line.correlation_id,
        request_line.ts,
        timestamp(BEGAN + 6 * SECOND),
        2,
        "rebalance",
        why,
    )


WHY = "it may wait for the other members, but the rebalance timeout of 5 s has passed"


@requires_snapshot_versions
@pytest.mark.parametrize("size", SIZES)
async def test_late_response_matches_its_snapshot(size: tuple[int, int]) -> None:
    join_request = request(1, api="JoinGroup", api_key=11, api_version=5)
    session = session_of([request(0), response(request(0)), join_request])
    session.source.late[join_request.connection_id] = late_response(join_request, WHY)
    async with running(session, size) as pilot:
        await press(pilot, "j")
        assert_matches_snapshot(pilot, "late")


@pytest.mark.slow
async def test_reason_of_a_late_response_is_shown_until_it_arrives() -> None:
    join_request = request(1, api="JoinGroup", api_key=11)
    session = session_of([join_request], phase=SourcePhase.LIVE)
    async with running(session) as pilot:
        assert "late:" not in text(pilot)
        session.source.late[join_request.connection_id] = late_response(
            request(2), WHY
        )  # this is about a different request
        await wait_until_settled(pilot)
        assert "late:" not in text(pilot)
        for why in (WHY, "the broker has not answered on this connection yet"):
            session.source.late[join_request.connection_id] = late_response(join_request, why)
            await until(pilot, lambda why=why: f"late: rebalance  {why}" in text(pilot))  # type: ignore[misc]
            await until(pilot, lambda: "2 more wait behind it" in text(pilot))
            await press(pilot, "2")
            await until(pilot, lambda why=why: why[:60] in text(pilot))  # type: ignore[misc]
            await press(pilot, "1")
        assert isinstance(session.source, LinesSource)
        session.source.add(response(join_request))
        await wait_until_settled(pilot)
        assert "late:" not in text(pilot)


@pytest.mark.slow
async def test_filter_line_completes_words_and_reports_errors() -> None:
    async with running(session_of(many_exchanges())) as pilot:
        await press(pilot, "slash", *"laten")
        assert "latency" in text(pilot).splitlines()[-2]
        await press(pilot, "tab", *">")
        await press(pilot, *"oops", "enter")
        line, marker_row = text(pilot).splitlines()[-3:-1]
        assert marker_row.index("^^^^") == line.index("oops")
        assert "column 12" in text(pilot)
        field = pilot.app.query_one(Input)
        field.value = "latency>=95us"
        await press(pilot, "enter")
        assert "5 shown" in text(pilot)
        assert table(pilot.app).has_focus  # type: ignore[arg-type]
        await press(pilot, "slash", "escape")
        assert "5 shown" in text(pilot)
        await press(pilot, "escape")
        assert "shown" not in text(pilot)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["1", "2"])
async def test_filter_line_keeps_quickly_typed_keys(view: str) -> None:
    async with running(session_of(many_exchanges())) as pilot:
        await press(pilot, view)
        app = pilot.app
        for character in "/a/1 :nq":  # do not wait until earlier keys are handled
            app.post_message(events.Key(_character_to_key(character), character))
        await until(pilot, lambda: app.query_one(Input).value.endswith("q"))
        assert app.query_one(Input).value == "a/1 :nq"
        assert "tab complete" in text(pilot).splitlines()[-1]
        await press(pilot, "escape", "colon", "slash")  # the command palette has a separate input line
        assert [field.value for field in app.screen.query(Input)] == ["/"]
        await press(pilot, "backspace", *"filter")
        await until(pilot, lambda: "key /" in text(pilot))
        await press(pilot, "enter")
        await until(pilot, lambda: "tab complete" in text(pilot))


@pytest.mark.slow
async def test_key_limits_rows_to_findings() -> None:
    async with running(session_of(many_exchanges())) as pilot:
        await press(pilot, "z")
        assert len(table(pilot.app).rows) == 10  # type: ignore[arg-type]
        await press(pilot, "z")
        assert len(table(pilot.app).rows) == 100  # type: ignore[arg-type]


@pytest.mark.slow
async def test_keys_sort_rows() -> None:
    async with running(session_of(many_exchanges())) as pilot:
        rows = table(pilot.app)  # type: ignore[arg-type]
        await press(pilot, "o", "l")
        assert rows.key == 99
        await press(pilot, "o", "l")
        assert rows.key == 0
        await press(pilot, "o", "j", "escape")
        assert rows.key == 0


@pytest.mark.slow
async def test_click_on_a_column_title_sorts_the_rows() -> None:
    async with running(session_of(many_exchanges()), (180, 50)) as pilot:
        rows = table(pilot.app)  # type: ignore[arg-type]
        titles = text(pilot).splitlines()
        y = next(row_number for row_number, line in enumerate(titles) if "latency" in line)
        x = titles[y].index("latency")
        await pilot.click(offset=(x, y))
        await until(pilot, lambda: rows.key == 99)
        assert "latency▼" in text(pilot)
        await pilot.click(offset=(x, y))
        await until(pilot, lambda: rows.key == 0)
        assert "latency▲" in text(pilot)
        await pilot.click(offset=(titles[y].index("what"), y))  # this column cannot be sorted
        await wait_until_settled(pilot)
        assert rows.key == 0


@pytest.mark.slow
async def test_key_changes_how_times_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    session = session_of([request(0), request(1, at=1.5), request(2, at=2)])
    try:
        async with running(session, (180, 50)) as pilot:
            columns = []
            for _ in range(5):
                lines = text(pilot).splitlines()
                title = next(line for line in lines if " API " in line and "req size" in line)
                columns.append(
                    (" ".join(title.split()[:2]), *(line.split()[0] for line in lines[lines.index(title) + 1 :][:3]))
                )
                await press(pilot, "t")
                await wait_until_settled(pilot)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert columns == [
        ("time UTC", "01:53:20.000", "01:53:21.500", "01:53:22.000"),
        ("time EST", "20:53:20.000", "20:53:21.500", "20:53:22.000"),
        ("since start", "0.000000", "1.500000", "2.000000"),
        ("delta conn", "#1", "1.500000", "0.500000"),
        ("time UTC", "01:53:20.000", "01:53:21.500", "01:53:22.000"),
    ]


async def test_rows_of_several_days_show_dates() -> None:
    async with running(session_of([request(0), request(1, at=86_400)]), (180, 50)) as pilot:
        assert "11-21 01:53:20.000" in text(pilot)
        assert "11-22 01:53:20.000" in text(pilot)


@pytest.mark.slow
async def test_note_is_shown() -> None:
    session = session_of(many_exchanges())
    async with running(session, (180, 50)) as pilot:
        await press(pilot, "semicolon", *"odd", "enter")
        await wait_until_settled(pilot)
        assert "; odd" in text(pilot)
        assert "note: odd" in text(pilot)


@pytest.mark.slow
async def test_keys_set_marks_and_notes() -> None:
    session = session_of(many_exchanges())
    async with running(session) as pilot:
        await press(pilot, "j", "m", "G", "semicolon", *"odd", "enter")
        assert session.notes[1].marked
        assert session.notes[99].text == "odd"
        await press(pilot, "g", "apostrophe")
        assert table(pilot.app).key == 1  # type: ignore[arg-type]
        await press(pilot, "m")
        assert not session.notes[1].marked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letter", "start"),
    [("x", "00 00 00 54"), ("j", '{\n  "request"'), ("c", "kproxy explain --request"), ("m", "### Metadata v2")],
)
async def test_exchange_is_copied_in_each_format(bug_session: BrowseSession, letter: str, start: str) -> None:
    async with running(bug_session) as pilot:
        await press(pilot, "n", "y", letter)
        await until(pilot, lambda: bool(pilot.app.clipboard))
        assert pilot.app.clipboard.startswith(start)


@pytest.mark.slow
async def test_visible_rows_are_saved(bug_session: BrowseSession, tmp_path: Path) -> None:
    path = tmp_path / "saved.jsonl"
    async with running(bug_session) as pilot:
        await press(pilot, "z", "w")
        pilot.app.screen.query_one(Input).value = str(path)
        await press(pilot, "enter")
        await until(pilot, path.exists)
        kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
        assert Counter(kinds) == dict.fromkeys(
            ("open", "request", "response", "close"), 2
        )  # the second repeats the first
        await press(pilot, "w")
        pilot.app.screen.query_one(Input).value = str(path)
        await press(pilot, "enter")
        await until(pilot, lambda: "choose another name" in notifications_text(pilot))
        await press(pilot, "w")
        pilot.app.screen.query_one(Input).value = str(path.with_suffix(".pcap"))
        await press(pilot, "enter")
        await until(pilot, lambda: "4 frames written" in notifications_text(pilot))
        assert path.with_suffix(".pcap").read_bytes()[:4] == b"\x4d\x3c\xb2\xa1"


@pytest.mark.slow
async def test_selected_field_and_bytes_stay_in_sync(bug_session: BrowseSession) -> None:
    async with running(bug_session, (180, 50)) as pilot:
        await press(pilot, "n", "enter")
        detail, hex_view = pilot.app.query_one(DetailPane), pilot.app.query_one(HexView)
        assert detail.active == "response"
        await press(pilot, "j", "j", "j", "j")
        assert detail.field is not None
        assert (detail.field.path, hex_view.span) == ("brokers[0].host", (20, 31))
        hex_view.focus()
        await press(pilot, "down", "down", "down")
        assert detail.field.path != "brokers[0].host"
        assert hex_view.cursor == 68
        assert detail.field.start is not None
        assert detail.field.start <= 68 < (detail.field.end or 0)
        await press(pilot, "r")
        assert detail.active == "request"
        assert pilot.app.query_one("#request", expect_type=None).query_one(FieldTree).has_focus  # type: ignore[arg-type]


@pytest.mark.slow
async def test_mouse_selects_rows_and_bytes(bug_session: BrowseSession) -> None:
    async with running(bug_session, (120, 40)) as pilot:
        rows = table(pilot.app)  # type: ignore[arg-type]
        await pilot.click(rows, offset=(20, 4))
        assert rows.cursor == 3
        await wait_until_settled(pilot)
        await pilot.click(HexView, offset=(12, 3))
        assert pilot.app.query_one(HexView).cursor >= 0
        await pilot.double_click(rows, offset=(20, 3))
        await wait_until_settled(pilot)
        assert pilot.app.query_one(ExchangeView).has_class("whole")


@pytest.mark.slow
async def test_help_and_commands_are_shown(bug_session: BrowseSession) -> None:
    async with running(bug_session) as pilot:
        await press(pilot, "question_mark")
        assert "next finding" in text(pilot)
        await press(pilot, "escape", "colon")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 2)
        await press(pilot, *"only")
        await until(pilot, lambda: "Only findings" in text(pilot))


async def test_hostile_names_are_escaped() -> None:
    hostile_request = request(1, client_id="\x1b[2J[red]x", api="Fetch", group_id="a\nb\u202e")
    async with running(session_of([hostile_request])) as pilot:
        screen_text = text(pilot)
        assert "\x1b" not in screen_text
        assert "\\x1b[2J" in screen_text
        assert "group a\\n" in screen_text


@pytest.mark.slow
async def test_refresh_without_changes_keeps_the_screen(bug_session: BrowseSession) -> None:
    async with running(bug_session, (80, 24)) as pilot:
        await press(pilot, "n")  # now a scroll bar leaves less room for columns
        screen_text = text(pilot)
        table(pilot.app).refresh()  # type: ignore[arg-type]
        await wait_until_settled(pilot)
        assert text(pilot) == screen_text


async def test_rows_show_the_sizes_of_requests_and_responses() -> None:
    request_line = request(1, size=123)
    async with running(session_of([request_line, response(request_line, size=4567), request(2, size=89)])) as pilot:
        header, first_row, second_row = text(pilot).splitlines()[2:5]
        request_column, response_column = header.index("req size"), header.index("resp size")
        assert first_row[request_column : request_column + 18].split() == ["123", "B", "4.6", "KB"]
        assert second_row[request_column : request_column + 18].split() == ["89", "B"]
        assert response_column > request_column
        await press(pilot, "o")
        assert "request and response together" in text(pilot)
