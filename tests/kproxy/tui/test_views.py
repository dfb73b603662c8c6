"""The views of what a trace sums up to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.browse.facts.texts import downsample
from kproxy.browse.overviews import connections
from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import FindingLine
from kproxy.tui.app import KproxyApp
from kproxy.tui.overview import OverviewView, bars
from kproxy.tui.table import Table
from kproxy.tui.timeline import Timeline
from tests.kproxy.browse.sessions import finding, request, session_of, session_of_capture
from tests.kproxy.capture_results import DATA
from tests.kproxy.stories import told
from tests.kproxy.transactions.told_transactions import STORY
from tests.kproxy.tui.screens import SIZES, assert_looks_as_kept, compares_pictures, press, running, text, until

CAPTURES = Path(__file__).parents[3] / "captures"
STALL = CAPTURES / "join-group-never-synced.pcap.gz"
OLD = CAPTURES / "old-client-before-kafka-4.pcap.gz"
LAG = CAPTURES / "fetches-empty-below-high-watermark.pcap.gz"
BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"

VIEWS = (
    ("2", "connections", BUG), ("3", "apis", BUG), ("4", "topics", LAG), ("5", "groups", STALL), ("6", "findings", BUG),
    ("7", "clients", OLD), ("8", "transactions", None),
)  # fmt: skip


@compares_pictures
@pytest.mark.parametrize("size", SIZES)
async def test_each_view_looks_as_kept(size: tuple[int, int]) -> None:
    for key, name, capture in VIEWS:
        session = session_of(told(STORY)) if capture is None else session_of_capture(capture)
        async with running(session, size) as pilot:
            await press(pilot, key)
            await until(pilot, lambda view=pilot.app.view: bool(view._listed))  # type: ignore[attr-defined, misc]
            assert_looks_as_kept(pilot, name)


async def test_what_lasts_is_first_in_the_banner_the_view_and_for_the_key() -> None:
    asked, *bad = (request(number, findings=[finding("error", "L003")] if number else []) for number in range(5))
    late = FindingLine(
        v=1, ts=bad[-1].ts, connection_id=asked.connection_id, code="C004", name="never-answered", severity="error",
        message="no answer", direction="request", offset=asked.offset,
    )  # fmt: skip
    async with running(session_of([asked, *bad, late]), (120, 40)) as pilot:
        await until(pilot, lambda: "C004 never-answered 1x it lasts: no answer" in text(pilot))
        assert text(pilot).index("C004 never-answered 1x") < text(pilot).index("L003")
        await press(pilot, "!")
        assert pilot.app.query_one("#exchanges", Table).cursor == 5
        await press(pilot, "6")
        await until(pilot, lambda: "seen: once, it lasts" in text(pilot))


def shown(session: BrowseSession) -> list[str]:
    rows: VisibleRows = session.visible
    exchanges = (session.exchange(rows[position]) for position in range(len(rows)))
    return [exchange.frame.api or "?" if exchange.frame else "event" for exchange in exchanges if exchange is not None]


async def test_enter_shows_the_frames_of_a_thing() -> None:
    session = session_of_capture(BUG)
    async with running(session) as pilot:
        await press(pilot, "3", "enter")
        assert set(shown(session)) == {"ApiVersions"}
        assert "4 shown" in text(pilot)
        await press(pilot, "escape", "2", "j", "enter")
        assert shown(session)[-2:] == ["FindCoordinator", "event"]
        await press(pilot, "c", "7", "enter")
        assert len(set(shown(session))) > 1


async def test_a_finding_leads_to_its_frame_its_page_and_all_its_frames() -> None:
    session = session_of_capture(BUG)
    async with running(session) as pilot:
        await press(pilot, "6")
        assert "do not write throttle_time_ms in version 2" in text(pilot)
        await press(pilot, "p")
        assert "Checks that a message has no field that only another version has" in text(pilot)
        await press(pilot, "escape", "enter")
        table = pilot.app.query_one("#exchanges", Table)
        exchange = session.exchange(table.key)  # type: ignore[arg-type]
        assert exchange is not None
        assert [each.code for each in exchange.findings] == ["L005"]
        await press(pilot, "6", "s")
        assert shown(session) == ["Metadata", "Metadata"]
        await press(pilot, "escape", "exclamation_mark")
        assert table.key == exchange.row


async def test_the_cause_of_the_newest_generations_is_shown() -> None:
    async with running(session_of_capture(STALL)) as pilot:
        await press(pilot, "5")
        shown = text(pilot)
        assert "generation 1" in shown
        assert "joined" in shown


async def test_the_timeline_leads_to_frames() -> None:
    session = session_of_capture(STALL)
    async with running(session) as pilot:
        await press(pilot, "5")
        assert "billing" in text(pilot)
        await press(pilot, "tab")
        line = pilot.app.query_one(Timeline)
        assert line.has_focus
        whole = line._window
        await press(pilot, "plus", "plus", "greater_than_sign", "less_than_sign", "minus")
        assert line._window is not None
        assert whole is not None
        assert line._window.length < whole.length
        await press(pilot, "0", "j", "k", "l", "h")
        assert line._window == whole
        await press(pilot, "enter")
        assert shown(session)
        table = pilot.app.query_one("#exchanges", Table)
        exchange = session.exchange(table.key)  # type: ignore[arg-type]
        assert exchange is not None
        assert exchange.request is not None
        assert exchange.request.api == "JoinGroup"


async def test_the_view_of_transactions_leads_to_frames() -> None:
    session = session_of(told(STORY))
    async with running(session, (160, 40)) as pilot:
        await press(pilot, "8")
        seen = text(pilot)
        assert "holds t[0] for 25.0 s" in seen
        assert "(producer 4)" in seen
        await press(pilot, "o", "c")
        assert "client: pay-client at 10.0.0.103" in text(pilot)
        await press(pilot, "enter")
        assert session.visible.filter is not None
        assert str(session.visible.filter) == 'transactional_id="pay"'
        await press(pilot, "8", "tab", "0", "L", "enter")
        assert pilot.app.query_one("#exchanges", Table).cursor is not None


async def test_a_view_can_be_sorted_and_clicked() -> None:
    async with running(session_of_capture(BUG)) as pilot:
        app = pilot.app
        assert isinstance(app, KproxyApp)
        await press(pilot, "3", "o", "m")
        view = app.view
        assert isinstance(view, OverviewView)
        slowest = view.table.key
        await press(pilot, "o", "m")
        assert view.table.key != slowest
        await pilot.click("#tabs", offset=(4, 0))
        assert app.view.title == "Frames"
        await press(pilot, "2", "slash")
        assert app.view.title == "Frames"


async def test_a_click_on_a_title_sorts_by_what_the_column_shows() -> None:
    async with running(session_of_capture(DATA / "pcap" / "kcat-4.3.1.pcap.gz"), (180, 50)) as pilot:
        await press(pilot, "3")
        view = pilot.app.view  # type: ignore[attr-defined]
        await until(pilot, lambda: bool(view._listed))

        def column(title: str) -> list[str]:
            number = next(number for number, column in enumerate(view.columns) if column.title == title)
            rows = (view._listed.cells(position) for position in range(len(view._listed)))
            return ["".join(piece for piece, _ in cells[number]).strip() for cells in rows]

        y, line = next(found for found in enumerate(text(pilot).splitlines()) if " p50 " in found[1])
        await pilot.click(offset=(line.index("API"), y))
        await until(pilot, lambda: column("API") == sorted(column("API")))
        await pilot.click(offset=(line.index("API"), y))
        await until(pilot, lambda: column("API") == sorted(column("API"), reverse=True))
        assert "API▼" in text(pilot)
        units = {"us": 1, "ms": 1000, "s": 1_000_000}
        await pilot.click(offset=(line.index("p50"), y))

        def medians() -> list[float]:
            return [float(number) * units[unit] for number, _, unit in (each.partition(" ") for each in column("p50"))]

        await until(pilot, lambda: medians() == sorted(medians(), reverse=True))
        assert column("API")[0] == "Fetch"


async def test_what_is_not_listed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    async with running(session_of_capture(BUG)) as pilot:
        await press(pilot, "2")
        assert "2 older closed connections not listed" in text(pilot)


def test_bars() -> None:
    assert bars([9, 1, 8, 4], 3) == bars([1, 8, 4], 3)
    assert len(bars([0, 0, 1], 20)) == 3
    assert bars([0, 0], 5) == ""
    assert bars([5, 5], 2)[0] == bars([5, 5], 2)[1]
    assert downsample([1, 2, 3, 4], 2) == [3, 7]
    assert sum(downsample(list(range(128)), 20)) == sum(range(128))
    assert downsample([], 5) == []


async def test_the_view_of_groups_shows_which_member_holds_which_records() -> None:
    topic = "iQ2TY3LnUY29Lbs4b27PzA"
    story = f"""
    > ShareGroupHeartbeat v1 {{"group_id": "work", "member_id": "m-1", "member_epoch": 0}}
    < {{"member_id": "m-1", "member_epoch": 1, "heartbeat_interval_ms": 5000}}
    > ShareFetch v1 {{"group_id": "work", "member_id": "m-1", "share_session_epoch": 0, "topics": []}}
    < {{"acquisition_lock_timeout_ms": 30000, "responses": [{{"topic_id": "{topic}", "partitions": [
      {{"acquired_records": [{{"first_offset": 5, "last_offset": 9, "delivery_count": 2}}]}}]}}]}}
    > ShareAcknowledge v1 {{"group_id": "work", "member_id": "m-1", "share_session_epoch": 1, "topics": [
      {{"topic_id": "{topic}", "partitions": [{{"acknowledgement_batches": [
      {{"first_offset": 5, "last_offset": 7, "acknowledge_types": [1]}}]}}]}}]}}
    < {{"responses": []}}
    """
    async with running(session_of(told("\n".join(line[4:] for line in story.splitlines()))), (160, 40)) as pilot:
        await press(pilot, "5")
        await until(pilot, lambda: "holds 2 records" in text(pilot))
        assert f"{topic}[0] 8-9 (delivery 2, lock" in text(pilot)
        assert "3 accepted" in text(pilot)
