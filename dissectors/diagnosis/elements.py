"""The elements of a frame's arrays, at any depth, and readings that differ in one of them."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.diagnosis.checkpoints import Checkpoint, LayoutPair, StructEdit, StructLocation
from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.diagnosis.struct_reader import Array, NestedStruct, StructSteps, compiled_struct

#: A field is odd if it costs more than this fixed cost plus this cost per byte: about what random bytes cost.
ODD_BITS = 6.0
ODD_BITS_PER_BYTE = 6.5


class _StepLocation(NamedTuple):
    """The location of an array or a nested struct: a step of the struct around it, which may itself be enclosed."""

    compiled: StructSteps
    step_index: int
    enclosing: _StepLocation | Element | None


class Element(NamedTuple):
    """An element of an array of `element_count` elements, and the checkpoint where it begins.

    `indexes` are the indexes of the enclosing elements, outermost first, and its own.
    """

    array: Array
    element_count: int
    start: Checkpoint
    enclosing: _StepLocation
    indexes: tuple[int, ...]

    def has(self, location: StructLocation) -> bool:
        """Whether a struct is in this element, but not in an array inside it."""
        return self.array in location.enclosing_arrays and len(location.enclosing_arrays) == len(self.indexes)

    def encloses(self, location: StructLocation) -> bool:
        """Whether a struct is in the elements of an array inside this element."""
        return self.array in location.enclosing_arrays and len(location.enclosing_arrays) > len(self.indexes)


class Elements:
    """The array elements that a reading under one layout found, in wire order.

    The reading ends where the bytes do not fit, or after `horizon` fields. `odd` is the index of the element with the
    first value that is as improbable as random bytes, or None if there is no such value.
    """

    def __init__(self, frame: FrameReading, layouts: LayoutPair, horizon: int) -> None:
        self._frame = frame
        self._horizon, self._work_at_start = horizon, frame.work
        self.found: list[Element] = []
        self.odd: int | None = None
        frame.begin(float("inf"), horizon)
        try:
            pos = compiled_struct(layouts.header).read(frame, 4)
            self._read_struct(compiled_struct(layouts.body), pos, None, ())
        except Misfit:
            pass

    def suspects(self, max_count: int) -> list[Element]:
        """Return the elements that may have been written in another layout, most likely first.

        After such an element, bytes are read at a wrong offset. So it is the element with the first odd value or one
        before it or, if the values after it happen to be possible, one of the last elements that could be read.
        """
        last = len(self.found) - 1
        ends = (last,) if self.odd is None else (self.odd, last)
        order = dict.fromkeys(end - distance for distance in range(last + 1) for end in ends if end >= distance)
        return [self.found[index] for index in order][:max_count]

    def resume(self, element: Element, location: StructLocation, proposal: StructEdit, limit: float) -> int:
        """Read the frame with a proposal applied to a struct in one element; return the end.

        The cost is in the `FrameReading`.

        Raises:
            Misfit: Or a subclass.
        """
        frame, start = self._frame, element.start
        if start.cost > limit:
            raise TooExpensive(start.pos)
        frame.cost, frame.limit = start.cost, limit
        frame.horizon = max(frame.work - self._horizon + self._work_at_start - start.work, 0)
        frame.replacement = proposal.replacement(location)
        try:
            pos = element.array.compiled.read(frame, start.pos)
        finally:
            frame.replacement = None
        return self._read_rest(element, pos)

    def _read_rest(self, element: Element, pos: int) -> int:
        """Read the rest of the frame after an element."""
        frame = self._frame
        enclosing: Element | _StepLocation | None = element
        while enclosing is not None:
            if isinstance(enclosing, Element):
                pos = enclosing.array.read_rest(frame, pos, enclosing.indexes[-1] + 1, enclosing.element_count)
                enclosing = enclosing.enclosing
            for step in enclosing.compiled.steps[enclosing.step_index + 1 :]:
                pos = step(frame, pos)
            if frame.cost > frame.limit:
                raise TooExpensive(pos)
            enclosing = enclosing.enclosing
        return pos

    def _read_struct(
        self, compiled: StructSteps, pos: int, enclosing: _StepLocation | Element | None, indexes: tuple[int, ...]
    ) -> int:
        frame = self._frame
        frame.work -= len(compiled.steps) + 1
        if frame.work < frame.horizon:
            raise WorkExhausted(pos)
        for index, step in enumerate(compiled.steps):
            inner = compiled.inner.get(index)
            if isinstance(inner, Array):
                pos = self._read_array(inner, pos, _StepLocation(compiled, index, enclosing), indexes)
            elif isinstance(inner, NestedStruct):
                is_present, pos = inner.read_presence(frame, pos)
                if is_present:
                    step_location = _StepLocation(compiled, index, enclosing)
                    pos = self._read_struct(inner.compiled, pos, step_location, indexes)
            else:
                cost_before, start = frame.cost, pos
                pos = step(frame, pos)
                if (
                    self.odd is None
                    and self.found
                    and frame.cost - cost_before > ODD_BITS + ODD_BITS_PER_BYTE * (pos - start)
                ):
                    self.odd = len(self.found) - 1
        return pos

    def _read_array(self, array: Array, pos: int, enclosing: _StepLocation, indexes: tuple[int, ...]) -> int:
        frame = self._frame
        count, first_start = array.read_count(frame, pos)
        pos = array.check_count(frame, pos, count, first_start, 1)  # one element may be smaller than the others
        for index in range(count):
            start = Checkpoint(pos, frame.cost, frame.work)
            element = Element(array, count, start, enclosing, (*indexes, index))
            self.found.append(element)
            compiled = array.compiled if index != array.deviating_index else array.deviating_compiled
            pos = self._read_struct(compiled, pos, element, element.indexes)
        return pos
