"""A session: one source, its index and overviews, and the user's marks and notes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kproxy.browse.overviews.all_overviews import Overviews
from kproxy.browse.overviews.matches import MatchCounter
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.index import RowIndex, RowState, time_of
from kproxy.browse.rows.partial_parse import parse_partial
from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.browse.session_view import SessionView
from kproxy.browse.sources.source import Source
from kproxy.control.protocol import LateResponse
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import Line, RequestLine, ResponseLine
from kproxy.trace.time_display import TimeDisplay


@dataclass(frozen=True, slots=True)
class Note:
    """The user's mark and note on a row."""

    marked: bool = False
    text: str = ""


@dataclass(slots=True)
class BrowseSession:
    """Reads a source in slices, so that the user interface stays responsive."""

    source: Source
    overviews: Overviews = field(default_factory=Overviews)
    index: RowIndex = field(init=False)
    view: SessionView = field(init=False)
    views: list[SessionView] = field(init=False, default_factory=list)  # further views, which `work` also updates
    notes: dict[int, Note] = field(init=False, default_factory=dict)
    clock: TimeDisplay = field(init=False, default_factory=TimeDisplay)
    bad: int = field(init=False, default=0)  # lines that are not trace lines, not counting an incomplete last line
    frame_rows: dict[int, int | None] = field(init=False, default_factory=dict)  # of the frame that a finding is about
    version: int = field(init=False, default=0)  # changes when lines are read
    _lines: Iterator[tuple[int, bytes]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.index = RowIndex()
        self.view = self.new_view()

    def new_view(self) -> SessionView:
        """Return a view of all rows; add it to `views` so that it follows the source."""
        return SessionView(
            self.index, self.source.store, self._partial_lines, self.overviews.findings, self._note_columns
        )

    @property
    def visible(self) -> VisibleRows:
        """The visible rows of `view`, the only view of a terminal or a page."""
        return self.view.visible

    def _note_columns(self, row: int) -> Mapping[str, Any] | None:
        """Return the columns of a row's note; None if it never had one."""
        note = self.notes.get(row)
        return None if note is None else {"note": note.text or None, "marked": note.marked}

    @property
    def matching(self) -> MatchCounter | None:
        """See `SessionView`."""
        return self.view.matching

    @property
    def counted(self) -> tuple[int, int]:
        """See `SessionView`."""
        return self.view.counted

    @property
    def now(self) -> int:
        """Current time for requests in flight, ns: the clock, or the last time of a finished trace."""
        return max(self.index.latest_at, time.time_ns()) if self.source.live else self.index.latest_at

    @property
    def live_now(self) -> int | None:
        """The current time (ns) of live traffic, at which rates are of interest; None for a file."""
        return self.now if self.source.live else None

    def work(self, time_limit: float) -> bool:
        """Read and filter for `time_limit` seconds; return whether work remains."""
        deadline = time.perf_counter() + time_limit
        views = (self.view, *self.views)
        work_remains = self._read(
            deadline - time_limit / 2 if any(view.visible.is_behind for view in views) else deadline
        )
        index = self.index
        if index.changed:
            self.version += 1
            for view in views:
                view.update(index.changed)
            index.changed.clear()
        for view in views:
            counted, behind = view.work(deadline)
            self.version += counted
            work_remains = behind or work_remains
        return work_remains

    def _read(self, deadline: float) -> bool:
        if self._lines is None:
            self._lines = self.source.store.take_new_lines()
        index, observe = self.index, self.overviews.observe
        for count, (location, raw) in enumerate(self._lines):
            line = parse_partial(raw)
            if line is None:
                # Without a newline, it is the last line of a run that was killed.
                self.bad += self.source.store.read(location + len(raw), 1) == b"\n"
            else:
                at = time_of(line.ts)
                row = index.add(line, location, len(raw), at)
                if line.note or line.marked:
                    self.notes[row] = Note(line.marked, line.note or "")
                observe(line, row, at, index.requests)
            if count & 31 == 31 and time.perf_counter() > deadline:
                return True
        self._lines = None
        index.forget(self.source.store.first)
        return False

    def exchange(self, row: int) -> Exchange | None:
        """Return a row with its lines; None if they have been discarded."""
        index = self.index
        entry = row - index.first
        if not 0 <= entry < len(index.at):
            return None
        lines = [self._read_line(index.locations[side][entry], index.sizes[side][entry]) for side in (0, 1)]
        state = RowState(index.state[entry])
        request, response, event = None, None, None
        for line in lines:
            if isinstance(line, RequestLine):
                request = line
            elif isinstance(line, ResponseLine):
                response = line
            elif line is not None:
                event = line
        if request is None and response is None and event is None:
            return None
        late_response = self.late_response_to(request) if request is not None and response is None else None
        return Exchange(row, state, request, response, event, late_response)

    def late_response_to(self, request: RequestLine) -> LateResponse | None:
        """Return why the response to a request is late; None if that has not been reported."""
        late_response = self.source.late.get(request.connection_id)
        is_about_request = late_response is not None and (late_response.correlation_id, late_response.ts) == (
            request.correlation_id,
            request.ts,
        )
        return late_response if is_about_request else None

    def _read_line(self, location: int, size: int) -> Line | None:
        if location < 0:
            return None
        try:
            return parse_line(self.source.store.read(location, size))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # discarded, or another process changed the file

    def raw(self, row: int) -> list[bytes]:
        """Return the lines of a row exactly as they are in the trace."""
        index = self.index
        entry = row - index.first
        locations = ((index.locations[side][entry], index.sizes[side][entry]) for side in (0, 1))
        return [self.source.store.read(location, size) for location, size in locations if location >= 0]

    def _partial_lines(self, row: int) -> Iterator[Line]:
        """Yield the lines of a row without bodies and bytes."""
        for raw in self.raw(row):
            if (line := parse_partial(raw)) is not None:
                yield line

    def note(self, row: int) -> Note:
        """Return the note of a row."""
        return self.notes.get(row, Note())

    def annotate(self, row: int, note: Note) -> None:
        """Set the note of a row; filters see it from now on."""
        self.notes[row] = note  # even an empty one: it may replace a note in the trace
        self.index.changed.add(row)
