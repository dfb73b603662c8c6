"""A group's timeline on a grid of characters: lanes as rows, time as columns. Values in, cells out; no screen.

The window is [start, end), in ns since the epoch; a column is a slice of it. What happened in one slice shares a cell,
and the worst of it, else what says most, is what the cell shows and leads to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from kproxy.groups import Boundary, Event, EventKind, GroupView, LaneView, Stall
from kproxy.trace.formatting import RANK

SECOND = 1_000_000_000
_MS = 1_000_000

NARROWEST = 1 * _MS  # of a window
WIDEST = 366 * 24 * 3600 * SECOND

#: What a cell shows beside what members do.
REJOIN = "rejoin"  # was told to join again
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

#: What cells show, and what that means.
LEGEND: tuple[tuple[str, str], ...] = (
    (EventKind.JOIN, "joins"),
    (EventKind.SYNC, "requests its assignment"),
    (WAITING, "waits for a response"),
    (MEMBER, "member"),
    (EventKind.HEARTBEAT, "heartbeat"),
    (EventKind.COMMIT, "commit"),
    (EventKind.OFFSETS, "fetches offsets"),
    (REJOIN, "told to rejoin"),
    (REFUSED, "refused"),
    (STALLED, "stalled"),
    (EventKind.LEAVE, "leaves"),
    (EventKind.CLOSED, "connection ended"),
    (EventKind.COORDINATOR, "looks for its coordinator"),
)

#: Of two things in one cell the one that says more, if neither is worse.
_SAYS = {
    kind: place
    for place, kind in enumerate((
        NOTHING, MEMBER, STALLED, WAITING, EventKind.HEARTBEAT, EventKind.OFFSETS, EventKind.COMMIT,
        EventKind.COORDINATOR, REJOIN, EventKind.SYNC, EventKind.JOIN, EventKind.CLOSED, EventKind.LEAVE, REFUSED,
    ))
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A character, its meaning (`EventKind` or a name above), its severity, and the row that it leads to."""

    glyph: str
    kind: str
    severity: str = ""
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A text that begins above a column."""

    column: int
    text: str
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells by lane, in the order of the lanes given; `generations` and `times` stand above, `now` is its column."""

    cells: tuple[tuple[Cell, ...], ...]
    generations: tuple[Mark, ...]
    times: tuple[Mark, ...]
    now: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is shown, [start, end) in ns."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How much time it shows, in ns."""
        return self.end - self.start

    @classmethod
    def around(cls, start: int, end: int) -> Window:
        """What shows all of [start, end], with a little room at its end."""
        length = min(max((end - start) * 51 // 50, NARROWEST), WIDEST)
        return cls(end - length, end) if end - start > WIDEST else cls(start, start + length)

    def zoomed(self, factor: float, at: int | None = None) -> Window:
        """So many times as much of time (0.5: half of it); `at` stays where it is, the middle if it is not given."""
        at = self.start + self.length // 2 if at is None else min(max(at, self.start), self.end)
        length = min(max(int(self.length * factor), NARROWEST), WIDEST)
        start = at - (at - self.start) * length // self.length
        return Window(start, start + length)

    def panned(self, share: float) -> Window:
        """Later by a share of its length, earlier if that is negative."""
        step = int(self.length * share)
        return Window(self.start + step, self.end + step)

    def following(self, now: int) -> Window:
        """The same length of time with `now` near its end."""
        end = now + self.length // 50 + 1
        return Window(end - self.length, end)

    def column(self, at: int, columns: int) -> int:
        """The column of a time; below 0 or `columns` and above if it lies outside."""
        return (at - self.start) * columns // self.length

    def time(self, column: int, columns: int) -> int:
        """Where a column begins, in ns."""
        return self.start + column * self.length // columns


def lay_out(view: GroupView, window: Window, columns: int) -> Grid:
    """A group's lanes as rows of `columns` cells.

    What nobody has answered lasts until `view.now`. Nothing is drawn behind that.
    """
    stalled = _stalled(view.stalls, view.now)
    now = window.column(view.now, columns)
    return Grid(
        tuple(_lane(lane, stalled.get(lane.member.key, ()), view.now, window, columns) for lane in view.lanes),
        tuple(_generations(view.boundaries, window, columns)),
        tuple(_times(window, columns)),
        now if 0 <= now < columns else None,
    )


Band = tuple[int, int, str, str, int | None]  # from, to (ns), kind, severity, row


def _stalled(stalls: Iterable[Stall], now: int) -> dict[str, list[Band]]:
    """The times in which a lane keeps others waiting, or stands still itself."""
    found: dict[str, list[Band]] = {}
    for stall in stalls:
        until = now if stall.until is None else stall.until
        for key in stall.blamed if until > stall.since else ():
            found.setdefault(key, []).append((stall.since, until, STALLED, stall.severity, stall.row))
    return found


def _lane(lane: LaneView, stalled: Sequence[Band], now: int, window: Window, columns: int) -> tuple[Cell, ...]:
    shown = _Row(columns)

    def columns_of(since: int, until: int) -> range:
        first, last = window.column(since, columns), window.column(min(until, now), columns)
        return range(max(first, 0), min(last, columns - 1) + 1)

    for since, ended in lane.spells:
        shown.fill(columns_of(since, now if ended is None else ended), MEMBER, "", None)
    for since, until, kind, severity, row in stalled:
        shown.fill(columns_of(since, until), kind, severity, row)
    for event in chain(lane.beats, lane.steps):
        until = now if event.until is None else event.until
        if event.at >= window.end or until < window.start:
            continue
        across = columns_of(event.at, until)
        if event.until is None or len(across) > 1:
            shown.fill(across, WAITING, event.severity if event.until is None else "", event.row)
        # What was sent stands where it was sent; how it was answered where that came.
        kind = _kind(event)
        answered = window.column(until, columns)
        sent = window.column(event.at, columns)
        shown.put(sent, event.kind if answered > sent else kind, event.severity if answered == sent else "", event.row)
        if answered > sent and (kind != event.kind or event.severity):
            shown.put(answered, kind, event.severity, event.row)
    return shown.cells()


_Found = tuple[int, int, str, str, int | None]  # rank of the severity, what it says, kind, severity, row
_EMPTY: _Found = (0, 0, NOTHING, "", None)


class _Row:
    """The columns of a lane: what lasts, and what happened above it."""

    def __init__(self, columns: int) -> None:
        self._lasts: list[_Found] = [_EMPTY] * columns
        self._happens: list[_Found] = [_EMPTY] * columns

    def fill(self, columns: range, kind: str, severity: str, row: int | None) -> None:
        found = (RANK.get(severity, -1) + 1, _SAYS[kind], kind, severity, row)
        lasts = self._lasts
        for column in columns:
            if found[:2] >= lasts[column][:2]:
                lasts[column] = found

    def put(self, column: int, kind: str, severity: str, row: int | None) -> None:
        if 0 <= column < len(self._happens):
            found = (RANK.get(severity, -1) + 1, _SAYS[kind], kind, severity, row)
            if found[:2] >= self._happens[column][:2]:
                self._happens[column] = found

    def cells(self) -> tuple[Cell, ...]:
        """What happened, else what lasts, and the worse severity of the two."""
        made = []
        for lasts, happens in zip(self._lasts, self._happens, strict=True):
            _, _, kind, severity, row = happens if happens[1] else lasts
            made.append(Cell(UNICODE[kind], kind, lasts[3] if lasts[0] > happens[0] else severity, row))
        return tuple(made)


def _kind(event: Event) -> str:
    """What an event shows once it is answered."""
    if event.error == "REBALANCE_IN_PROGRESS":
        return REJOIN
    return REFUSED if event.error and event.severity else event.kind


def _generations(boundaries: Iterable[Boundary], window: Window, columns: int) -> Iterator[Mark]:
    """Where generations begin, and at the left edge which one it is; those that find no room are left out."""
    begin: dict[int, Boundary] = {}
    for each in boundaries:
        if each.at < window.end:
            begin[max(window.column(each.at, columns), 0)] = each  # of several in one column the latest
    free = 0
    for column, each in begin.items():
        text = str(each.generation)
        if column >= free:
            yield Mark(column, text, each.row)
            free = column + len(text) + 1


_MINUTE = 60 * SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

_STEPS = (
    *(each * _MS for each in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(each * SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * _MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * _HOUR for each in (1, 2, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 7, 14, 28, 56, 112, 224)),
)


def _times(window: Window, columns: int) -> Iterator[Mark]:
    """Round times, as many as there is room for."""
    for step in _STEPS:
        width = len(_clock(window.start, step)) + 2
        if step * columns >= width * window.length:
            break
    else:
        return
    at = -(-window.start // step) * step
    while at < window.end:
        column, text = window.column(at, columns), _clock(at, step)
        if column + len(text) <= columns:
            yield Mark(column, text)
        at += step


def _clock(at: int, step: int) -> str:
    """A time as exact as its step."""
    seconds, rest = divmod(at, SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    if step >= _DAY:
        return moment.strftime("%m-%d")
    if step >= _MINUTE:
        return moment.strftime("%H:%M")
    text = moment.strftime("%H:%M:%S")
    return text if step >= SECOND else f"{text}.{rest // _MS:03d}"
