"""A group's timeline as a grid of characters: lanes are rows, and time runs along the columns. This does no I/O.

The window is [start, end), in ns since the epoch; each column is a slice of it. The events of a slice share a cell,
which shows the most severe of them, else the most informative, and links to its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from dissectors.groups import Boundary, Event, EventKind, Stall
from kproxy.groups import GroupView, LaneView
from kproxy.trace.formatting import RANK

SECOND = 1_000_000_000
_MS = 1_000_000

MIN_LENGTH = 1 * _MS  # limits for the length of a window
MAX_LENGTH = 366 * 24 * 3600 * SECOND

#: Follows the label of a leader.
LEADER = " *"

#: Kinds of cells in addition to the kinds of events.
REJOIN = "rejoin"  # got REBALANCE_IN_PROGRESS
REFUSED = "refused"
MEMBER = "member"
WAITING = "waiting"
STALLED = "stalled"
NOTHING = ""

UNICODE: Mapping[str, str] = {
    EventKind.JOIN: "J",
    EventKind.SYNC: "S",
    EventKind.LEAVE: "L",
    EventKind.CLOSED: "×",
    EventKind.COORDINATOR: "?",
    EventKind.HEARTBEAT: "•",
    EventKind.COMMIT: "c",
    EventKind.OFFSETS: "o",
    REJOIN: "R",
    REFUSED: "!",
    WAITING: "▒",
    STALLED: "░",
    MEMBER: "─",
    NOTHING: " ",
}

#: Kinds of cells and their meaning.
LEGEND: tuple[tuple[str, str], ...] = (
    (EventKind.JOIN, "joins"),
    (EventKind.SYNC, "requests its assignment"),
    (WAITING, "waits for a response"),
    (MEMBER, "member"),
    (EventKind.HEARTBEAT, "heartbeat"),
    (EventKind.COMMIT, "commit"),
    (EventKind.OFFSETS, "fetches offsets"),
    (REJOIN, "must rejoin"),
    (REFUSED, "refused"),
    (STALLED, "stalled"),
    (EventKind.LEAVE, "leaves"),
    (EventKind.CLOSED, "connection ended"),
    (EventKind.COORDINATOR, "looks for its coordinator"),
)

#: The priorities of kinds: of several kinds in a cell with equal severity, the one with the highest is shown.
_PRIORITY = {
    kind: priority
    for priority, kind in enumerate((
        NOTHING, MEMBER, STALLED, WAITING, EventKind.HEARTBEAT, EventKind.OFFSETS, EventKind.COMMIT,
        EventKind.COORDINATOR, REJOIN, EventKind.SYNC, EventKind.JOIN, EventKind.CLOSED, EventKind.LEAVE, REFUSED,
    ))
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A character with its kind (an `EventKind` or a constant above), its severity, and the row that it links to."""

    glyph: str
    kind: str
    severity: str = ""
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A text that starts above a column."""

    column: int
    text: str
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of each lane, in order. `generations` and `times` are shown above them; `now` is a column."""

    cells: tuple[tuple[Cell, ...], ...]
    generations: tuple[Mark, ...]
    times: tuple[Mark, ...]
    now: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """The visible time range, [start, end) in ns."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """The length of the range in ns."""
        return self.end - self.start

    @classmethod
    def around(cls, start: int, end: int) -> Window:
        """Return a window that contains [start, end], with a small margin at its end."""
        length = min(max((end - start) * 51 // 50, MIN_LENGTH), MAX_LENGTH)
        return cls(end - length, end) if end - start > MAX_LENGTH else cls(start, start + length)

    def zoomed(self, factor: float, at: int | None = None) -> Window:
        """Return the window with its length multiplied by `factor`; `at` (ns; default: the middle) keeps its column."""
        at = self.start + self.length // 2 if at is None else min(max(at, self.start), self.end)
        length = min(max(int(self.length * factor), MIN_LENGTH), MAX_LENGTH)
        start = at - (at - self.start) * length // self.length
        return Window(start, start + length)

    def panned(self, share: float) -> Window:
        """Return the window moved by a fraction of its length; negative means earlier."""
        step = int(self.length * share)
        return Window(self.start + step, self.end + step)

    def following(self, now: int) -> Window:
        """Return a window of the same length with `now` near its end."""
        end = now + self.length // 50 + 1
        return Window(end - self.length, end)

    def column(self, at: int, columns: int) -> int:
        """Return the column of a time; outside the window, it is negative or at least `columns`."""
        return (at - self.start) * columns // self.length

    def time(self, column: int, columns: int) -> int:
        """Return the start of a column (ns)."""
        return self.start + column * self.length // columns


@dataclass(frozen=True, slots=True)
class Drawing:
    """A timeline of any kind of lanes, ready to be drawn.

    Drawings with the same `name` show the same timeline. Each of the `lanes` has a key and a label; times are in ns.
    `heading` names the marks above the lanes, `legend` explains the glyphs.
    """

    name: str
    first_at: int
    now: int
    lanes: Sequence[tuple[str, str]]
    heading: str
    legend: Sequence[str]
    lay_out: Callable[[Window, int], Grid]


def group_drawing(view: GroupView) -> Drawing:
    """Return the timeline of a group, with its members as lanes."""
    members = (lane.member for lane in view.lanes)
    lanes = [(member.key, member.label + (LEADER if member.leader else "")) for member in members]
    legend = [f"{UNICODE[kind]} {meaning}" for kind, meaning in LEGEND]
    return Drawing(view.row.group, view.row.first_at, view.now, lanes, "generation", legend, partial(lay_out, view))


def lay_out(view: GroupView, window: Window, columns: int) -> Grid:
    """Return a group's lanes as rows of `columns` cells.

    Requests in flight extend to `view.now`; nothing is drawn after that time.
    """
    bands_by_lane = _stall_bands(view.stalls, view.now)
    now = window.column(view.now, columns)
    return Grid(
        tuple(
            _lane_cells(lane, bands_by_lane.get(lane.member.key, ()), view.now, window, columns) for lane in view.lanes
        ),
        tuple(_generation_marks(view.boundaries, window, columns)),
        tuple(round_times(window, columns)),
        now if 0 <= now < columns else None,
    )


Band = tuple[int, int, str, str, int | None]  # from, to (ns), kind, severity, row


def _stall_bands(stalls: Iterable[Stall], now: int) -> dict[str, list[Band]]:
    """Return, by lane key, the periods in which the lane blocks others or makes no progress itself."""
    bands: dict[str, list[Band]] = {}
    for stall in stalls:
        until = now if stall.until is None else stall.until
        for key in stall.blamed if until > stall.since else ():
            bands.setdefault(key, []).append((stall.since, until, STALLED, stall.severity, stall.row))
    return bands


def _lane_cells(lane: LaneView, stalled: Sequence[Band], now: int, window: Window, columns: int) -> tuple[Cell, ...]:
    cell_row = CellRow(columns)

    def columns_of(since: int, until: int) -> range:
        first, last = window.column(since, columns), window.column(min(until, now), columns)
        return range(max(first, 0), min(last, columns - 1) + 1)

    for since, end in lane.memberships:
        cell_row.fill(columns_of(since, now if end is None else end), MEMBER, "", None)
    for since, until, kind, severity, row in stalled:
        cell_row.fill(columns_of(since, until), kind, severity, row)
    for event in chain(lane.recurring, lane.transitions):
        until = now if event.until is None else event.until
        if event.at >= window.end or until < window.start:
            continue
        span_columns = columns_of(event.at, until)
        if event.until is None or len(span_columns) > 1:
            cell_row.fill(span_columns, WAITING, event.severity if event.until is None else "", event.row)
        # The request is shown where it was sent, its outcome where the response arrived.
        kind = _cell_kind(event)
        response_column = window.column(until, columns)
        request_column = window.column(event.at, columns)
        cell_row.put(
            request_column,
            event.kind if response_column > request_column else kind,
            event.severity if response_column == request_column else "",
            event.row,
        )
        if response_column > request_column and (kind != event.kind or event.severity):
            cell_row.put(response_column, kind, event.severity, event.row)
    return cell_row.cells()


_Candidate = tuple[int, int, str, str, int | None]  # rank of the severity, priority, kind, severity, row
_EMPTY: _Candidate = (0, 0, NOTHING, "", None)


class CellRow:
    """The columns of a lane in two layers, with events above states.

    `glyphs` are the characters of the kinds of cells; of two kinds with the same severity, the later one in `priority`
    is shown.
    """

    def __init__(
        self, columns: int, glyphs: Mapping[str, str] = UNICODE, priority: Mapping[str, int] = _PRIORITY
    ) -> None:
        self._glyphs, self._priority = glyphs, priority
        self._states: list[_Candidate] = [_EMPTY] * columns
        self._events: list[_Candidate] = [_EMPTY] * columns

    def fill(self, columns: range, kind: str, severity: str, row: int | None) -> None:
        """Show a state in a range of columns, except where a state with precedence is already shown."""
        candidate = (RANK.get(severity, -1) + 1, self._priority[kind], kind, severity, row)
        states = self._states
        for column in columns:
            if candidate[:2] >= states[column][:2]:
                states[column] = candidate

    def put(self, column: int, kind: str, severity: str, row: int | None) -> None:
        """Show an event in a column, unless it shows one with precedence or is not visible."""
        if 0 <= column < len(self._events):
            candidate = (RANK.get(severity, -1) + 1, self._priority[kind], kind, severity, row)
            if candidate[:2] >= self._events[column][:2]:
                self._events[column] = candidate

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells, each with the event, else the state, and the higher severity of the two."""
        row_cells = []
        for state, event in zip(self._states, self._events, strict=True):
            _, _, kind, severity, row = event if event[1] else state
            row_cells.append(Cell(self._glyphs[kind], kind, state[3] if state[0] > event[0] else severity, row))
        return tuple(row_cells)


def _cell_kind(event: Event) -> str:
    """Return the kind of cell for an event whose response has arrived."""
    if event.error == "REBALANCE_IN_PROGRESS":
        return REJOIN
    return REFUSED if event.error and event.severity else event.kind


def _generation_marks(boundaries: Iterable[Boundary], window: Window, columns: int) -> Iterator[Mark]:
    """Yield a mark where each generation begins (at the left edge if it began earlier), if there is room for it."""
    boundary_by_column: dict[int, Boundary] = {}
    for boundary in boundaries:
        if boundary.at < window.end:
            boundary_by_column[max(window.column(boundary.at, columns), 0)] = (
                boundary  # the latest of several in one column
            )
    first_free_column = 0
    for column, boundary in boundary_by_column.items():
        text = str(boundary.generation)
        if column >= first_free_column:
            yield Mark(column, text, boundary.row)
            first_free_column = column + len(text) + 1


_MINUTE = 60 * SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

_STEPS = (
    *(step * _MS for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(step * SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 7, 14, 28, 56, 112, 224)),
)


def round_times(window: Window, columns: int) -> Iterator[Mark]:
    """Yield marks at round times, as many as fit."""
    for step in _STEPS:
        width = len(_clock_text(window.start, step)) + 2
        if step * columns >= width * window.length:
            break
    else:
        return
    at = -(-window.start // step) * step
    while at < window.end:
        column, text = window.column(at, columns), _clock_text(at, step)
        if column + len(text) <= columns:
            yield Mark(column, text)
        at += step


def _clock_text(at: int, step: int) -> str:
    """Return a time of day, or a date, with the precision that the step between times needs."""
    seconds, remainder = divmod(at, SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    if step >= _DAY:
        return moment.strftime("%m-%d")
    if step >= _MINUTE:
        return moment.strftime("%H:%M")
    text = moment.strftime("%H:%M:%S")
    return text if step >= SECOND else f"{text}.{remainder // _MS:03d}"
