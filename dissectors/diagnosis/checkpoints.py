"""Checkpoints in the reading of a frame: another reading that differs in one struct continues from there."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from dissectors.diagnosis import value_costs
from dissectors.diagnosis.costs import FrameReading, Replacement, Step
from dissectors.diagnosis.misfit import Misfit, Spent, TooDear
from dissectors.diagnosis.struct_reader import Array, Nested, StructSteps, part_of
from dissectors.wire.layout import Layout


class Layouts(Protocol):
    """Those of header and body."""

    @property
    def header(self) -> Layout: ...

    @property
    def body(self) -> Layout: ...


class Point(NamedTuple):
    """A moment of a reading: where, what it had cost, and the work that was left."""

    pos: int
    cost: float
    work: int


class Proposed(Protocol):
    """An edit of a struct: the first step that it changes, and what reads the struct then."""

    @property
    def step(self) -> int: ...

    def exchange(self, spot: StructLocation) -> Replacement: ...


class StructLocation(NamedTuple):
    """A struct of a body: its path, and the way to it.

    `ups` are the parts that hold it with the index of the step in each, outermost first; `above` the arrays on the way,
    of which `outer` is the first. `array` is the one whose elements have `fixed` bytes at least beside those of the
    struct itself.
    """

    path: tuple[str, ...]
    layout: Layout
    part: StructSteps
    ups: tuple[tuple[StructSteps, int], ...] = ()
    above: frozenset[Array] = frozenset()
    outer: Array | None = None
    array: Array | None = None
    fixed: int = 0

    def exchange(self, steps: tuple[Step, ...], least: int) -> Replacement:
        """What reads this struct with other steps."""
        return Replacement(self.part, steps, self.above, self.array, max(self.fixed + least, 1))


class _Entry(NamedTuple):
    """The first time that a struct was read: where each step of it began, and where the last one ended.

    `up` holds it in its step `at`, as the first of `number` elements of `array` if it is in one.
    """

    part: StructSteps
    points: list[Point]
    up: _Entry | None
    at: int
    array: Array | None
    number: int


class _Opened(NamedTuple):
    """An array of the body: of how many elements, behind the count, and where each of them began."""

    entry: _Entry
    at: int
    number: int
    first: Point
    begun: list[Point]


class Trace:
    """The reading of a frame under one layout.

    `end` is where it ended, None if it did not get that far; then `stopped` says why. `cost` is that of what was read.
    """

    def __init__(self, frame: FrameReading, pair: Layouts, limit: float, horizon: int) -> None:
        self._frame = frame
        self._entries: dict[StructSteps, _Entry] = {}
        self._opened: dict[Array, _Opened] = {}
        self._horizon = horizon
        self._began = frame.work
        self.end: int | None = None
        self.stopped: Misfit | None = None
        frame.begin(limit, horizon)
        try:
            pos = part_of(pair.header).read(frame, 4)
            body = part_of(pair.body)
            self.end = frame.anew(body, lambda _, at: self._struct(body, at), pos)
        except Misfit as misfit:
            self.stopped = type(misfit)(misfit.at)  # without the traceback, which holds this trace
        self.cost = frame.cost

    def resume(self, spot: StructLocation, proposal: Proposed, limit: float) -> int:
        """Where the frame ends if a struct is read as proposed; what it costs is in the frame then.

        Raises:
            Misfit: And `TooDear`, `Spent`; where this reading ended before that, it is what ended it.
        """
        entry, index = self._entries.get(spot.part), proposal.step
        if entry is None:
            entry, index = self._above(spot)
        if entry is None or index >= len(entry.points):
            raise self._as_before(limit)
        if entry.points[index].cost > limit:
            raise TooDear(entry.points[index].pos)
        frame, exchange = self._frame, proposal.exchange(spot)
        steps = exchange.steps if entry.part is spot.part else entry.part.steps
        pos = self._go_on(entry.points[index], limit)
        frame.exchange = exchange
        try:
            frame.work -= len(steps) - index
            for each in steps[index:]:
                pos = each(frame, pos)
            return self._finish(entry, pos)
        finally:
            frame.exchange = None

    def reach(self, spot: StructLocation) -> int:
        """How many steps of a struct this reading began, its end for one more; 0 if it did not get there."""
        entry = self._entries.get(spot.part)
        if entry is not None:
            return len(entry.points)
        entry, index = self._above(spot)
        return len(spot.part.steps) + 1 if entry is not None and index < len(entry.points) else 0

    def _above(self, spot: StructLocation) -> tuple[_Entry | None, int]:
        """Of a struct that was not read yet, or not where it was looked at: the innermost step that would hold it."""
        for part, at in reversed(spot.ups):
            entry = self._entries.get(part)
            if entry is not None:
                return entry, at
        return None, 0

    def resume_in_one(self, spot: StructLocation, proposal: Proposed, element: int, limit: float) -> int:
        """The same, where that is so in one element alone of the array of the body that holds the struct."""
        array, frame = spot.outer, self._frame
        opened = self._opened.get(array) if array else None
        if opened is None or array is None or element >= opened.number:
            raise self._as_before(limit)
        number = opened.number
        begin = element
        if not opened.begun:  # so many elements cannot be there, unless one of them is smaller
            begin = 0
            if number > frame.end - opened.first.pos:
                raise Misfit(opened.entry.points[opened.at].pos)
        elif element >= len(opened.begun):
            raise self._as_before(limit)
        exchange = proposal.exchange(spot)
        pos = self._go_on(opened.begun[begin] if opened.begun else opened.first, limit)
        try:
            for index in range(begin, number):
                frame.exchange = exchange if index == element else None
                pos = array.part.read(frame, pos)
            frame.exchange = None
            for each in opened.entry.part.steps[opened.at + 1 :]:
                pos = each(frame, pos)
            return self._finish(opened.entry, pos)
        finally:
            frame.exchange = None

    def _as_before(self, limit: float) -> Misfit:
        self._frame.cost = self.cost
        if self.stopped is None:
            return Misfit(self._frame.end)
        return TooDear(self.stopped.at) if self.cost > limit else type(self.stopped)(self.stopped.at)

    def _go_on(self, point: Point, limit: float) -> int:
        frame = self._frame
        frame.cost, frame.limit = point.cost, limit
        frame.horizon = max(frame.work - self._horizon + self._began - point.work, 0)
        return point.pos

    def _finish(self, entry: _Entry, pos: int) -> int:
        """Read what is behind the steps of a struct that were read last."""
        frame = self._frame
        if frame.cost > frame.limit:
            raise TooDear(pos)
        while entry.up is not None:
            if entry.array is not None:
                pos = entry.array.rest(frame, pos, 1, entry.number)
            for each in entry.up.part.steps[entry.at + 1 :]:
                pos = each(frame, pos)
            if frame.cost > frame.limit:
                raise TooDear(pos)
            entry = entry.up
        return pos

    def _struct(
        self,
        part: StructSteps,
        pos: int,
        up: _Entry | None = None,
        at: int = 0,
        array: Array | None = None,
        number: int = 0,
    ) -> int:
        frame, points = self._frame, list[Point]()
        entry = _Entry(part, points, up, at, array, number)
        self._entries[part] = entry
        frame.work -= len(part.steps) + 1
        if frame.work < frame.horizon:
            raise Spent(pos)
        for index, step in enumerate(part.steps):
            points.append(Point(pos, frame.cost, frame.work))
            inner = part.inner.get(index)
            if inner is None:
                pos = step(frame, pos)
            elif isinstance(inner, Nested):
                there, pos = inner.present(frame, pos)
                pos = self._struct(inner.part, pos, entry, index) if there else pos
            else:
                pos = self._array(inner, pos, entry, index)
        points.append(Point(pos, frame.cost, frame.work))
        if frame.cost > frame.limit:
            raise TooDear(pos)
        return pos

    def _array(self, array: Array, start: int, entry: _Entry, at: int) -> int:
        frame = self._frame

        def elements(frame: FrameReading, start: int) -> int:
            number, pos = array.count(frame, start)
            begun: list[Point] = []
            if entry.up is None and number > 0:
                first = Point(pos, frame.cost + value_costs.count(number), frame.work)
                self._opened[array] = _Opened(entry, at, number, first, begun)
            pos = array.admit(frame, start, number, pos, array.least)
            for index in range(number):
                if entry.up is None:
                    begun.append(Point(pos, frame.cost, frame.work))
                if index == 0 and array.odd != 0:
                    pos = self._struct(array.part, pos, entry, at, array, number)
                else:
                    pos = array.rest(frame, pos, index, index + 1)
            return pos

        return frame.anew(array, elements, start)
