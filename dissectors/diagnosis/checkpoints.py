"""Checkpoints taken while reading a frame, from which a reading that differs in one struct can resume."""

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
    """An edit of a struct: the first step that it changes, and the steps that replace those of the struct.

    `tail` returns the steps beginning with the first changed one.
    """

    @property
    def step(self) -> int: ...

    def tail(self, location: StructLocation) -> tuple[Step, ...]: ...

    def replacement(self, location: StructLocation) -> Replacement: ...


class StructLocation(NamedTuple):
    """A struct of a body: its path, and its position in the compiled layout.

    `enclosing_steps` are the enclosing structs, outermost first, with the index of the step in each.
    `enclosing_arrays` are the arrays that contain it. `array` is the innermost of them, if each of its elements
    consists of this struct and at least `fixed` other bytes.
    """

    path: tuple[str, ...]
    layout: Layout
    compiled: StructSteps
    enclosing_steps: tuple[tuple[StructSteps, int], ...] = ()
    enclosing_arrays: frozenset[Array] = frozenset()
    array: Array | None = None
    fixed: int = 0

    def replacement(self, steps: tuple[Step, ...], min_size: int) -> Replacement:
        """Return a replacement of this struct's steps."""
        return Replacement(self.compiled, steps, self.enclosing_arrays, self.array, max(self.fixed + min_size, 1))


class _Entry(NamedTuple):
    """The first reading of a struct: a checkpoint before each step and one after the last.

    `enclosing` is the reading of the enclosing struct, which reads this one in its step `step_index`. If that step
    reads `array`, this struct is the first of `element_count` elements.
    """

    compiled: StructSteps
    points: list[Checkpoint]
    enclosing: _Entry | None
    step_index: int
    array: Array | None
    element_count: int


class Trace:
    """A reading of a frame under one layout.

    `end` is the position where it ended, or None if it stopped early for the reason in `stopped`. `cost` is the cost
    so far.
    """

    def __init__(self, frame: FrameReading, layouts: LayoutPair, limit: float, horizon: int) -> None:
        self._frame = frame
        self._entries: dict[StructSteps, _Entry] = {}
        #: Arrays whose elements could fit into the frame, at one byte or more each.
        self._openable: set[Array | NestedStruct] = set()
        self._horizon = horizon
        self._work_at_start = frame.work
        self.end: int | None = None
        self.stopped: Misfit | None = None
        frame.begin(limit, horizon)
        try:
            pos = compiled_struct(layouts.header).read(frame, 4)
            body = compiled_struct(layouts.body)
            self.end = frame.run_uncached(body, lambda _, start: self._read_struct(body, start), pos)
        except Misfit as misfit:
            self.stopped = type(misfit)(misfit.at)  # without the traceback, which refers to this trace
        self.cost = frame.cost

    def resume(self, location: StructLocation, proposal: StructEdit, limit: float) -> int:
        """Read the frame with a proposal applied to one struct and return the end. The cost is in the `FrameReading`.

        Raises:
            Misfit: Or a subclass. If this reading stopped before the struct, the same exception again.
        """
        entry, index = self._entries.get(location.compiled), proposal.step
        if entry is None:
            entry, index = self._enclosing_step(location)
        if entry is None or index >= len(entry.points):
            raise self._earlier_misfit(limit)
        if entry.points[index].cost > limit:
            raise TooExpensive(entry.points[index].pos)
        if entry.compiled is not location.compiled and (misfit := self._blocking_misfit(entry, index)):
            raise Misfit(misfit.at)
        frame, is_struct_begun = self._frame, entry.compiled is location.compiled
        steps = proposal.tail(location) if is_struct_begun else entry.compiled.steps[index:]
        pos = self._resume_at(entry.points[index], limit)
        try:
            if not is_struct_begun:
                frame.replacement = proposal.replacement(location)
            frame.work -= len(steps)
            for step in steps:
                pos = step(frame, pos)
            if is_struct_begun and location.enclosing_arrays:  # other elements also have the struct
                frame.replacement = proposal.replacement(location)
            return self._finish(entry, pos)
        finally:
            frame.replacement = None

    def reach(self, location: StructLocation) -> int:
        """Return how many steps of a struct this reading started, plus one if it finished them all."""
        entry = self._entries.get(location.compiled)
        if entry is not None:
            return len(entry.points)
        entry, index = self._enclosing_step(location)
        if entry is None or index >= len(entry.points) or self._blocking_misfit(entry, index):
            return 0
        return len(location.compiled.steps) + 1

    def _blocking_misfit(self, entry: _Entry, index: int) -> Misfit | None:
        """Return the misfit that stopped the reading before a step's structs; None if editing the structs may help."""
        inner = entry.compiled.inner.get(index)
        return self.stopped if index == len(entry.points) - 1 and inner and inner not in self._openable else None

    def _enclosing_step(self, location: StructLocation) -> tuple[_Entry | None, int]:
        """Return the innermost enclosing struct that was read, and the index of its step that leads to `location`."""
        for compiled, step_index in reversed(location.enclosing_steps):
            entry = self._entries.get(compiled)
            if entry is not None:
                return entry, step_index
        return None, 0

    def _earlier_misfit(self, limit: float) -> Misfit:
        """Return the exception for a struct that this reading did not reach."""
        self._frame.cost = self.cost
        if self.stopped is None:
            return Misfit(self._frame.end)
        return TooExpensive(self.stopped.at) if self.cost > limit else type(self.stopped)(self.stopped.at)

    def _resume_at(self, point: Checkpoint, limit: float) -> int:
        """Restore the state at a checkpoint and return its position."""
        frame = self._frame
        frame.cost, frame.limit = point.cost, limit
        frame.horizon = max(frame.work - self._horizon + self._work_at_start - point.work, 0)
        return point.pos

    def _finish(self, entry: _Entry, pos: int) -> int:
        """Read the rest of the frame after the steps of a struct."""
        frame = self._frame
        if frame.cost > frame.limit:
            raise TooExpensive(pos)
        while entry.enclosing is not None:
            if entry.array is not None:
                pos = entry.array.read_rest(frame, pos, 1, entry.element_count)
            for step in entry.enclosing.compiled.steps[entry.step_index + 1 :]:
                pos = step(frame, pos)
            if frame.cost > frame.limit:
                raise TooExpensive(pos)
            entry = entry.enclosing
        return pos

    def _read_struct(
        self,
        compiled: StructSteps,
        pos: int,
        enclosing: _Entry | None = None,
        step_index: int = 0,
        array: Array | None = None,
        count: int = 0,
    ) -> int:
        frame, points = self._frame, list[Checkpoint]()
        entry = _Entry(compiled, points, enclosing, step_index, array, count)
        self._entries[compiled] = entry
        frame.work -= len(compiled.steps) + 1
        if frame.work < frame.horizon:
            raise WorkExhausted(pos)
        for index, step in enumerate(compiled.steps):
            points.append(Checkpoint(pos, frame.cost, frame.work))
            inner = compiled.inner.get(index)
            if inner is None:
                pos = step(frame, pos)
            elif isinstance(inner, NestedStruct):
                is_present, pos = inner.read_presence(frame, pos)
                pos = self._read_struct(inner.compiled, pos, entry, index) if is_present else pos
            else:
                pos = self._read_array(inner, pos, entry, index)
        points.append(Checkpoint(pos, frame.cost, frame.work))
        if frame.cost > frame.limit:
            raise TooExpensive(pos)
        return pos

    def _read_array(self, array: Array, start: int, entry: _Entry, step_index: int) -> int:
        frame = self._frame

        def read_elements(frame: FrameReading, start: int) -> int:
            count, pos = array.read_count(frame, start)
            if 0 < count <= frame.end - pos:
                self._openable.add(array)
            pos = array.check_count(frame, start, count, pos, array.min_size)
            for index in range(count):
                if index == 0 and array.deviating_index != 0:
                    pos = self._read_struct(array.compiled, pos, entry, step_index, array, count)
                else:
                    pos = array.read_rest(frame, pos, index, index + 1)
            return pos

        return frame.run_uncached(array, read_elements, start)
