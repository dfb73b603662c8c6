"""The timeline of a group is laid out on a grid with the right glyphs and marks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.groups import EventKind
from kproxy.browse.rows.index import time_of
from kproxy.groups import GroupsOverview, GroupView, timeline
from kproxy.groups.timeline import LEGEND, UNICODE, Grid, Mark, Window, lay_out
from kproxy.trace.lines import Line
from tests.kproxy.browse import group_story
from tests.kproxy.browse.group_story import GroupStory, lines_of
from tests.kproxy.browse.sample_overviews import feed, feed_torn
from tests.kproxy.browse.sessions import BEGAN, SECOND

MINUTE = Window(BEGAN, BEGAN + 60 * SECOND)


def draw_lanes(view: GroupView, grid: Grid) -> list[str]:
    """Return the grid as text, one line per lane."""
    return [
        f"{lane.member.client_id:<7}|" + "".join(cell.glyph for cell in cells)
        for lane, cells in zip(view.lanes, grid.cells, strict=True)
    ]


def draw_marks(marks: tuple[Mark, ...], columns: int) -> str:
    row = [" "] * columns
    for mark in marks:
        row[mark.column : mark.column + len(mark.text)] = mark.text
    return "".join(row).rstrip()


def test_application_that_does_not_poll_is_drawn() -> None:
    lines = lines_of("application-does-not-poll")
    end = time_of(lines[-1].ts)
    view = feed(GroupsOverview(), lines).view("billing", end)
    assert view is not None
    grid = lay_out(view, Window.around(time_of(lines[0].ts), end), 100)
    assert draw_marks(grid.generations, 100) == f"1  2{'':70}3"
    assert draw_marks(grid.times, 100).split() == [
        "15:22:20",
        "15:22:25",
        "15:22:30",
        "15:22:35",
        "15:22:40",
        "15:22:45",
    ]
    assert draw_lanes(view, grid) == [
        "shop-a |J──R─c•─•──c──•─c•─•──c──•─c•─R░░R░░R░░R░░R░R░░R░░R░░R░R░░R░░R░░R░R░░R░░RcJ•─c•─•──c──•─c•──•─c─L   ",
        "shop-b |J▒▒S─c•─•──c──•──c─•──c──•──c─R▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒S─•c─•──•c─•─•c─•──•c─L   ",
        "shop-c |                             ?J▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒S─•──c──•──c─•──c──•──cL  ",
    ]


def test_unanswered_join_lasts_until_now() -> None:
    story = GroupStory()
    story.join(0, "a")
    story.request(20, "b", "JoinGroup")
    view = story.view(40)
    grid = lay_out(view, MINUTE, 60)
    assert draw_lanes(view, grid)[1] == "b      |" + " " * 20 + "J" + "▒" * 20 + " " * 19
    cells = grid.cells[1]
    assert {cell.row for cell in cells[20:41]} == {2}
    assert (cells[19].row, cells[41].row, grid.now) == (None, None, 40)


def test_cell_shows_and_links_to_its_worst_event() -> None:
    story = GroupStory()
    story.join(0, "a")
    story.send_heartbeats(1, 10, "a")
    story.exchange(10, "a", "OffsetCommit", generation_id=1)
    story.exchange(10.2, "a", "Heartbeat", error="ILLEGAL_GENERATION", generation_id=1)
    story.exchange(10.4, "a", "OffsetCommit", generation_id=1)
    view = story.view(20)
    [cells] = lay_out(view, MINUTE, 60).cells
    assert (cells[10].kind, cells[10].severity, cells[10].glyph) == (timeline.REFUSED, "error", "!")
    assert cells[10].row == next(event.row for event in view.lanes[0].recurring if event.error)
    [coarse_cells] = lay_out(view, MINUTE, 2).cells
    assert [cell.severity for cell in coarse_cells] == ["error", ""]


def test_late_error_is_shown_at_the_time_of_the_response() -> None:
    story = GroupStory()
    join = story.request(10, "a", "JoinGroup")
    story.answer(join, 30, error="INCONSISTENT_GROUP_PROTOCOL")
    [cells] = lay_out(story.view(40), MINUTE, 60).cells
    assert [cell.glyph for cell in cells[10:31]] == ["J", *"▒" * 19, "!"]
    assert [cell.severity for cell in cells[10:31]] == [*[""] * 20, "error"]


def test_silent_member_is_marked_until_its_next_heartbeat() -> None:
    story = GroupStory()
    story.join(0, "a", "b")
    story.send_heartbeats(1, 10, "a", "b")
    story.send_heartbeats(10, 40, "b")
    story.send_heartbeats(30, 40, "a")
    view = story.view(40)
    a, b = lay_out(view, MINUTE, 60).cells
    assert "".join(cell.glyph for cell in a) == "J" + "•" * 9 + "░" * 20 + "•" * 10 + "─" + " " * 19
    assert "".join(cell.glyph for cell in b) == "J" + "•" * 39 + "─" + " " * 19
    assert {cell.severity for cell in a[9:31]} == {"error"}


def test_legend_lists_every_kind_of_event() -> None:
    legend_kinds = {kind for kind, _ in LEGEND}
    assert legend_kinds == {*UNICODE} - {timeline.NOTHING}
    assert legend_kinds >= {*EventKind}
    assert all(len(glyph) == 1 for glyph in UNICODE.values())
    assert len({*UNICODE.values()}) == len(UNICODE)


@pytest.mark.parametrize(
    ("seconds", "columns", "axis"),
    [
        (60, 60, "01:53:20  01:53:30  01:53:40  01:53:50  01:54:00  01:54:10"),
        (600, 40, "  01:54   01:56   01:58   02:00   02:02"),
        (0.01, 60, "01:53:20.000                  01:53:20.005"),
        (86400 * 10, 60, "     11-22       11-24       11-26       11-28       11-30"),
        (60, 5, ""),
    ],
)
def test_time_marks_are_round_times_that_fit_the_width(seconds: float, columns: int, axis: str) -> None:
    story = GroupStory()
    story.join(0, "a")
    grid = lay_out(story.view(1), Window(BEGAN, BEGAN + int(seconds * SECOND)), columns)
    assert draw_marks(grid.times, columns) == axis


@given(st.integers(1, 10**18), st.integers(1, 10**18), st.integers(1, 400))
def test_time_marks_never_overlap(start: int, length: int, columns: int) -> None:
    story = GroupStory()
    story.join(0, "a")
    grid = lay_out(story.view(1), Window(start, start + length), columns)
    column_ranges = [(mark.column, mark.column + len(mark.text)) for mark in grid.times]
    assert all(end_column < start_column for (_, end_column), (start_column, _) in pairwise(column_ranges))
    assert all(start_column >= 0 and end_column <= columns for start_column, end_column in column_ranges)


windows = st.builds(lambda start, length: Window(start, start + length), st.integers(0, 2 * 10**18),
                    st.integers(timeline.MIN_LENGTH, timeline.MAX_LENGTH))  # fmt: skip


@given(windows, st.floats(0.01, 100), st.integers(0, 2 * 10**18))
def test_zooming_keeps_the_time_at_the_pointer_in_place(window: Window, factor: float, at: int) -> None:
    zoomed = window.zoomed(factor, at)
    at = min(max(at, window.start), window.end)
    assert timeline.MIN_LENGTH <= zoomed.length <= timeline.MAX_LENGTH
    assert zoomed.start <= at <= zoomed.end
    if zoomed.length not in (timeline.MIN_LENGTH, timeline.MAX_LENGTH):
        fraction = (at - window.start) / window.length
        assert (at - zoomed.start) / zoomed.length == pytest.approx(fraction, abs=1e-5)


@given(windows, st.floats(-3, 3))
def test_panning_keeps_the_length(window: Window, fraction: float) -> None:
    panned = window.panned(fraction)
    assert panned.length == window.length
    assert panned.start - window.start == int(window.length * fraction)


@given(windows, st.integers(1, 300))
def test_column_of_a_columns_time_is_the_same_column(window: Window, columns: int) -> None:
    for column in range(columns):
        assert window.column(window.time(column, columns), columns) in (column - 1, column)
    assert window.column(window.end, columns) == columns
    assert window.column(window.start - 1, columns) == -1


def test_window_covers_the_whole_time_or_follows_the_latest_time() -> None:
    window = Window.around(BEGAN, BEGAN + 50 * SECOND)
    assert (window.start, window.end) == (BEGAN, BEGAN + 51 * SECOND)
    assert Window.around(BEGAN, BEGAN).length == timeline.MIN_LENGTH
    assert Window.around(0, 10**19) == Window(10**19 - timeline.MAX_LENGTH, 10**19)
    later = window.following(BEGAN + 500 * SECOND)
    assert later.length == window.length
    assert later.column(BEGAN + 500 * SECOND, 100) in (97, 98)


@pytest.mark.slow
@given(group_story.inconsistent_lines, windows, st.integers(1, 50))
def test_inconsistent_lines_can_be_laid_out(lines: list[tuple[Line, int]], window: Window, columns: int) -> None:
    groups = feed_torn(GroupsOverview(), lines)
    nearby_window = Window(BEGAN - 10 * SECOND, BEGAN + 130 * SECOND)
    for now in (0, BEGAN + 60 * SECOND):
        for row in groups.rows(now):
            view = groups.view(row.group, now)
            assert view is not None
            for tested_window in (window, nearby_window):
                grid = lay_out(view, tested_window, columns)
                assert [len(cells) for cells in grid.cells] == [columns] * len(view.lanes)
                assert {cell.glyph for cells in grid.cells for cell in cells} <= {*UNICODE.values()}
