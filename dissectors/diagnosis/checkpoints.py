"""Checkpoints of reading a frame, from which a reading that differs in one struct can resume."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from dissectors.diagnosis.costs import FrameReading, Replacement, Step
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.diagnosis.struct_reader import Array, NestedStruct, StructSteps, compiled_struct
from dissectors.wire.layout import Layout


class LayoutPair(Protocol):
    """The layouts of header and body."""

    @property
    def header(self) -> Layout: ...

    @property
    def body(self) -> Layout: ...


class Checkpoint(NamedTuple):
    """A checkpoint: position, cost so far, and remaining work."""

    pos: int
    cost: float
    work: int


class StructEdit(Protocol):
    """An edit of a struct: the first step that it changes, and the steps that replace the struct's.

    `tail` are those from the first changed one on.
    """

    @property
    def step(self) -> int: ...

    def tail(self, location: StructLocation) -> tuple[Step, ...]: ...

    def exchange(self, location: StructLocation) -> Replacement: ...


class StructLocation(NamedTuple):
    """A struct of a body: its path, and its position in the compiled layout.

    `ups` are the enclosing structs with the index of the step in each, outermost first. `above` are the enclosing
    arrays. `array` is the array whose elements have at least `fixed` bytes besides this
    struct.
    """

    path: tuple[str, ...]
    layout: Layout
    part: StructSteps
    ups: tuple[tuple[StructSteps, int], ...] = ()
    above: frozenset[Array] = frozenset()
    array: Array | None = None
    fixed: int = 0

    def exchange(self, steps: tuple[Step, ...], min_size: int) -> Replacement:
        """The replacement of this struct's steps."""
        return Replacement(self.part, steps, self.above, self.array, max(self.fixed + min_size, 1))


class _Entry(NamedTuple):
    """The first reading of a struct: a checkpoint before each step and one after the last.

    `up` is the enclosing struct, which reads this one in its step `at`; if that step reads `array`, this struct is the
    first of `number` elements.
    """

    part: StructSteps
    points: list[Checkpoint]
    up: _Entry | None
    at: int
    array: Array | None
    number: int


class Trace:
    """A reading of a frame under one layout.

    `end` is the position where it ended, None if it stopped early; then `stopped` is the reason. `cost` is the cost so
    far.
    """

    def __init__(self, frame: FrameReading, pair: LayoutPair, limit: float, horizon: int) -> None:
        self._frame = frame
        self._entries: dict[StructSteps, _Entry] = {}
        #: Arrays whose elements would fit into the frame if they were as small as possible.
        self._openable: set[Array | NestedStruct] = set()
        self._horizon = horizon
        self._began = frame.work
        self.end: int | None = None
        self.stopped: Misfit | None = None
        frame.begin(limit, horizon)
        try:
            pos = compiled_struct(pair.header).read(frame, 4)
            body = compiled_struct(pair.body)
            self.end = frame.uncached(body, lambda _, at: self._read_struct(body, at), pos)
        except Misfit as misfit:
            self.stopped = type(misfit)(misfit.at)  # without the traceback, which refers to this trace
        self.cost = frame.cost

    def resume(self, location: StructLocation, proposal: StructEdit, limit: float) -> int:
        """Read the frame with a proposal applied to one struct; return the end. The cost is in the `FrameReading`.

        Raises:
            Misfit: Or its subclasses. If this reading stopped earlier, the same exception as then.
        """
        entry, index = self._entries.get(location.part), proposal.step
        if entry is None:
            entry, index = self._enclosing_step(location)
        if entry is None or index >= len(entry.points):
            raise self._earlier_misfit(limit)
        if entry.points[index].cost > limit:
            raise TooExpensive(entry.points[index].pos)
        if entry.part is not location.part and (misfit := self._blocking_misfit(entry, index)):
            raise Misfit(misfit.at)
        frame, is_begun = self._frame, entry.part is location.part
        steps = proposal.tail(location) if is_begun else entry.part.steps[index:]
        pos = self._resume_at(entry.points[index], limit)
        try:
            if not is_begun:
                frame.exchange = proposal.exchange(location)
            frame.work -= len(steps)
            for step in steps:
                pos = step(frame, pos)
            if is_begun and location.above:  # other elements have the struct too
                frame.exchange = proposal.exchange(location)
            return self._finish(entry, pos)
        finally:
            frame.exchange = None

    def reach(self, location: StructLocation) -> int:
        """The number of steps of a struct that this reading started, plus one if it finished them; 0 if none."""
        entry = self._entries.get(location.part)
        if entry is not None:
            return len(entry.points)
        entry, index = self._enclosing_step(location)
        if entry is None or index >= len(entry.points) or self._blocking_misfit(entry, index):
            return 0
        return len(location.part.steps) + 1

    def _blocking_misfit(self, entry: _Entry, index: int) -> Misfit | None:
        """Why reading stopped before the structs in a step; None if edits of these may help."""
        inner = entry.part.inner.get(index)
        return self.stopped if index == len(entry.points) - 1 and inner and inner not in self._openable else None

    def _enclosing_step(self, location: StructLocation) -> tuple[_Entry | None, int]:
        """The innermost step that encloses a struct without an entry."""
        for part, step_index in reversed(location.ups):
            entry = self._entries.get(part)
            if entry is not None:
                return entry, step_index
        return None, 0

    def _earlier_misfit(self, limit: float) -> Misfit:
        self._frame.cost = self.cost
        if self.stopped is None:
            return Misfit(self._frame.end)
        return TooExpensive(self.stopped.at) if self.cost > limit else type(self.stopped)(self.stopped.at)

    def _resume_at(self, point: Checkpoint, limit: float) -> int:
        frame = self._frame
        frame.cost, frame.limit = point.cost, limit
        frame.horizon = max(frame.work - self._horizon + self._began - point.work, 0)
        return point.pos

    def _finish(self, entry: _Entry, pos: int) -> int:
        """Read the rest of the frame after the steps of a struct."""
        frame = self._frame
        if frame.cost > frame.limit:
            raise TooExpensive(pos)
        while entry.up is not None:
            if entry.array is not None:
                pos = entry.array.rest(frame, pos, 1, entry.number)
            for step in entry.up.part.steps[entry.at + 1 :]:
                pos = step(frame, pos)
            if frame.cost > frame.limit:
                raise TooExpensive(pos)
            entry = entry.up
        return pos

    def _read_struct(
        self,
        part: StructSteps,
        pos: int,
        up: _Entry | None = None,
        step_index: int = 0,
        array: Array | None = None,
        number: int = 0,
    ) -> int:
        frame, points = self._frame, list[Checkpoint]()
        entry = _Entry(part, points, up, step_index, array, number)
        self._entries[part] = entry
        frame.work -= len(part.steps) + 1
        if frame.work < frame.horizon:
            raise WorkExhausted(pos)
        for index, step in enumerate(part.steps):
            points.append(Checkpoint(pos, frame.cost, frame.work))
            inner = part.inner.get(index)
            if inner is None:
                pos = step(frame, pos)
            elif isinstance(inner, NestedStruct):
                present, pos = inner.present(frame, pos)
                pos = self._read_struct(inner.part, pos, entry, index) if present else pos
            else:
                pos = self._read_array(inner, pos, entry, index)
        points.append(Checkpoint(pos, frame.cost, frame.work))
        if frame.cost > frame.limit:
            raise TooExpensive(pos)
        return pos

    def _read_array(self, array: Array, start: int, entry: _Entry, step_index: int) -> int:
        frame = self._frame

        def read_elements(frame: FrameReading, start: int) -> int:
            number, pos = array.count(frame, start)
            if 0 < number <= frame.end - pos:
                self._openable.add(array)
            pos = array.check_count(frame, start, number, pos, array.min_size)
            for index in range(number):
                if index == 0 and array.exception_index != 0:
                    pos = self._read_struct(array.part, pos, entry, step_index, array, number)
                else:
                    pos = array.rest(frame, pos, index, index + 1)
            return pos

        return frame.uncached(array, read_elements, start)
