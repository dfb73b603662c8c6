"""The overview views, such as connections, topics and groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.browse.facts.texts import downsample
from kproxy.browse.overviews import connections
from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import FindingLine, TopicEntry
from kproxy.tui.app import KproxyApp
from kproxy.tui.overview import OverviewView, sparkline
from kproxy.tui.table import Table
from kproxy.tui.timeline import Timeline
from tests.kproxy.browse.sessions import finding, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA
from tests.kproxy.stories import lines_of_story
from tests.kproxy.transactions.transaction_story import STORY
from tests.kproxy.tui.screens import (
    SIZES,
    assert_matches_snapshot,
    press,
    requires_snapshot_versions,
    running,
    text,
    until,
)

CAPTURES = Path(__file__).parents[3] / "captures"
STALL = CAPTURES / "join-group-never-synced.pcap.gz"
OLD = CAPTURES / "old-client-before-kafka-4.pcap.gz"
LAG = CAPTURES / "fetches-empty-below-high-watermark.pcap.gz"
BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"

VIEWS = (
    ("2", "connections", BUG), ("3", "apis", BUG), ("4", "topics", LAG), ("5", "groups", STALL), ("6", "findings", BUG),
    ("7", "clients", OLD), ("8", "transactions", None),
)  # fmt: skip


@pytest.mark.slow
@requires_snapshot_versions
@pytest.mark.parametrize("size", SIZES)
async def test_each_view_matches_its_snapshot(size: tuple[int, int]) -> None:
    for key, name, capture in VIEWS:
        session = session_of(lines_of_story(STORY)) if capture is None else session_of_capture(capture)
        async with running(session, size) as pilot:
            await press(pilot, key)
            await until(pilot, lambda view=pilot.app.view: bool(view._listed))  # type: ignore[attr-defined, misc]
            assert_matches_snapshot(pilot, name)


@pytest.mark.slow
async def test_ongoing_cause_comes_first() -> None:
    unanswered, *requests_with_findings = (
        request(number, findings=[finding("error", "L003")] if number else []) for number in range(5)
    )
    finding_line = FindingLine(
        v=1, ts=requests_with_findings[-1].ts, connection_id=unanswered.connection_id,
        code="C004", name="never-answered", severity="error",
        message="no answer", direction="request", offset=unanswered.offset,
    )  # fmt: skip
    async with running(session_of([unanswered, *requests_with_findings, finding_line]), (120, 40)) as pilot:
        await until(pilot, lambda: "C004 never-answered 1x it lasts: no answer" in text(pilot))
        assert text(pilot).index("C004 never-answered 1x") < text(pilot).index("L003")
        await press(pilot, "!")
        assert pilot.app.query_one("#exchanges", Table).cursor == 5
        await press(pilot, "6")
        await until(pilot, lambda: "seen: once, it lasts" in text(pilot))


def visible_apis(session: BrowseSession) -> list[str]:
    rows: VisibleRows = session.visible
    exchanges = (session.exchange(rows[position]) for position in range(len(rows)))
    return [exchange.frame.api or "?" if exchange.frame else "event" for exchange in exchanges if exchange is not None]


async def test_enter_shows_the_frames_of_the_selected_item() -> None:
    session = session_of_capture(BUG)
    async with running(session) as pilot:
        await press(pilot, "3", "enter")
        assert set(visible_apis(session)) == {"ApiVersions"}
        assert "4 shown" in text(pilot)
        await press(pilot, "escape", "2", "j", "enter")
        assert visible_apis(session)[-2:] == ["FindCoordinator", "event"]
        await press(pilot, "c", "7", "enter")
        assert len(set(visible_apis(session))) > 1


@pytest.mark.slow
async def test_finding_links_to_its_frames_and_its_page() -> None:
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
        assert [entry.code for entry in exchange.findings] == ["L005"]
        await press(pilot, "6", "s")
        assert visible_apis(session) == ["Metadata", "Metadata"]
        await press(pilot, "escape", "exclamation_mark")
        assert table.key == exchange.row


@pytest.mark.slow
async def test_groups_show_the_cause_of_recent_generations() -> None:
    async with running(session_of_capture(STALL)) as pilot:
        await press(pilot, "5")
        screen_text = text(pilot)
        assert "generation 1" in screen_text
        assert "joined" in screen_text


async def test_groups_show_the_lag_that_fetch_responses_show() -> None:
    heartbeat = request(1, api="Heartbeat", api_key=12, client_id="c", group_id="billing")
    fetch = request(2, client_id="c")
    orders = TopicEntry("orders", partitions=[0], bytes=9, partition_bytes=[9], records=1, lag=1234)
    session = session_of([heartbeat, response(heartbeat), fetch, response(fetch, topics=[orders])])
    async with running(session, (160, 40)) as pilot:
        await press(pilot, "5")
        [row] = [line.split() for line in text(pilot).splitlines() if "billing" in line]
        assert row == ["billing", "classic", "unknown", "1,234"]


@pytest.mark.slow
async def test_timeline_links_to_frames() -> None:
    session = session_of_capture(STALL)
    async with running(session) as pilot:
        await press(pilot, "5")
        assert "billing" in text(pilot)
        await press(pilot, "tab")
        timeline = pilot.app.query_one(Timeline)
        assert timeline.has_focus
        full_window = timeline._window
        await press(pilot, "plus", "plus", "greater_than_sign", "less_than_sign", "minus")
        assert timeline._window is not None
        assert full_window is not None
        assert timeline._window.length < full_window.length
        await press(pilot, "0", "j", "k", "l", "h")
        assert timeline._window == full_window
        await press(pilot, "enter")
        assert visible_apis(session)
        table = pilot.app.query_one("#exchanges", Table)
        exchange = session.exchange(table.key)  # type: ignore[arg-type]
        assert exchange is not None
        assert exchange.request is not None
        assert exchange.request.api == "JoinGroup"


@pytest.mark.slow
async def test_transactions_link_to_frames() -> None:
    session = session_of(lines_of_story(STORY))
    async with running(session, (160, 40)) as pilot:
        await press(pilot, "8")
        screen_text = text(pilot)
        assert "holds t[0] for 25.0 s" in screen_text
        assert "(producer 4)" in screen_text
        await press(pilot, "o", "c")
        assert "client: pay-client at 10.0.0.103" in text(pilot)
        await press(pilot, "enter")
        assert session.visible.filter is not None
        assert str(session.visible.filter) == 'transactional_id="pay"'
        await press(pilot, "8", "tab", "0", "L", "enter")
        assert pilot.app.query_one("#exchanges", Table).cursor is not None


@pytest.mark.slow
async def test_view_can_be_sorted_and_clicked() -> None:
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


@pytest.mark.slow
async def test_click_on_a_title_sorts_by_that_column() -> None:
    async with running(session_of_capture(DATA / "pcap" / "kcat-4.3.1.pcap.gz"), (180, 50)) as pilot:
        await press(pilot, "3")
        view = pilot.app.view  # type: ignore[attr-defined]
        await until(pilot, lambda: bool(view._listed))

        def column(title: str) -> list[str]:
            index = next(index for index, candidate in enumerate(view.columns) if candidate.title == title)
            rows = (view._listed.cells(position) for position in range(len(view._listed)))
            return ["".join(piece for piece, _ in cells[index]).strip() for cells in rows]

        y, line = next(
            numbered_row for numbered_row in enumerate(text(pilot).splitlines()) if " p50 " in numbered_row[1]
        )
        await pilot.click(offset=(line.index("API"), y))
        await until(pilot, lambda: column("API") == sorted(column("API")))
        await pilot.click(offset=(line.index("API"), y))
        await until(pilot, lambda: column("API") == sorted(column("API"), reverse=True))
        assert "API▼" in text(pilot)
        units = {"us": 1, "ms": 1000, "s": 1_000_000}
        await pilot.click(offset=(line.index("p50"), y))

        def medians() -> list[float]:
            return [float(number) * units[unit] for number, _, unit in (cell.partition(" ") for cell in column("p50"))]

        await until(pilot, lambda: medians() == sorted(medians(), reverse=True))
        assert column("API")[0] == "Fetch"


async def test_view_counts_unlisted_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    async with running(session_of_capture(BUG)) as pilot:
        await press(pilot, "2")
        assert "2 older closed connections not listed" in text(pilot)


def test_sparkline_fits_its_width() -> None:
    assert sparkline([9, 1, 8, 4], 3) == sparkline([1, 8, 4], 3)
    assert len(sparkline([0, 0, 1], 20)) == 3
    assert sparkline([0, 0], 5) == ""
    assert sparkline([5, 5], 2)[0] == sparkline([5, 5], 2)[1]
    assert downsample([1, 2, 3, 4], 2) == [3, 7]
    assert sum(downsample(list(range(128)), 20)) == sum(range(128))
    assert downsample([], 5) == []


async def test_groups_show_the_records_held_by_members() -> None:
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
    async with running(
        session_of(lines_of_story("\n".join(line[4:] for line in story.splitlines()))), (160, 40)
    ) as pilot:
        await press(pilot, "5")
        await until(pilot, lambda: "holds 2 records" in text(pilot))
        assert f"{topic}[0] 8-9 (delivery 2, lock" in text(pilot)
        assert "3 accepted" in text(pilot)
