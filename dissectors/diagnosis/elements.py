"""The elements of a frame's arrays, at any depth, and readings that differ in one of them."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.diagnosis.checkpoints import Checkpoint, LayoutPair, StructEdit, StructLocation
from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.diagnosis.struct_reader import Array, NestedStruct, StructSteps, compiled_struct

#: A field is odd if it costs more than this, fixed and per byte: about what random bytes cost.
ODD_BITS = 6.0
ODD_BITS_PER_BYTE = 6.5


class _StepLocation(NamedTuple):
    """The place of an array or a nested struct: a step of a struct, which is nested or an element itself."""

    part: StructSteps
    at: int
    up: _StepLocation | Element | None


class Element(NamedTuple):
    """An element of an array of `number` elements, and the checkpoint where it begins.

    `indexes` are its index and those of the elements around it, its own last.
    """

    array: Array
    number: int
    start: Checkpoint
    inside: _StepLocation
    indexes: tuple[int, ...]

    def has(self, location: StructLocation) -> bool:
        """Whether a struct is in this element, and in no array in it."""
        return self.array in location.above and len(location.above) == len(self.indexes)

    def encloses(self, location: StructLocation) -> bool:
        """Whether a struct is in the elements of an array in this element."""
        return self.array in location.above and len(location.above) > len(self.indexes)


class Elements:
    """The elements that a reading under one layout came upon, in the order of the bytes.

    It ends where the bytes do not fit, or after `horizon` fields. `odd` is the index of the element with the first
    value that is as improbable as random bytes, None if there is no such value.
    """

    def __init__(self, frame: FrameReading, pair: LayoutPair, horizon: int) -> None:
        self._frame = frame
        self._horizon, self._began = horizon, frame.work
        self.found: list[Element] = []
        self.odd: int | None = None
        frame.begin(float("inf"), horizon)
        try:
            pos = compiled_struct(pair.header).read(frame, 4)
            self._read_struct(compiled_struct(pair.body), pos, None, ())
        except Misfit:
            pass

    def suspects(self, max_count: int) -> list[Element]:
        """The elements that may be written otherwise, the likeliest first.

        Behind such an element, bytes are read at a wrong offset: it is the one with the first odd value or one before
        it, or, if these values are possible, one of the last that could be read.
        """
        last = len(self.found) - 1
        ends = (last,) if self.odd is None else (self.odd, last)
        order = dict.fromkeys(end - distance for distance in range(last + 1) for end in ends if end >= distance)
        return [self.found[index] for index in order][:max_count]

    def resume(self, element: Element, location: StructLocation, proposal: StructEdit, limit: float) -> int:
        """Read the frame with a proposal applied to a struct in one element; return the end.

        The cost is in the `FrameReading`.

        Raises:
            Misfit: Or its subclasses.
        """
        frame, start = self._frame, element.start
        if start.cost > limit:
            raise TooExpensive(start.pos)
        frame.cost, frame.limit = start.cost, limit
        frame.horizon = max(frame.work - self._horizon + self._began - start.work, 0)
        frame.exchange = proposal.exchange(location)
        try:
            pos = element.array.part.read(frame, start.pos)
        finally:
            frame.exchange = None
        return self._read_rest(element, pos)

    def _read_rest(self, element: Element, pos: int) -> int:
        """Read the rest of the frame after an element."""
        frame = self._frame
        enclosing: Element | _StepLocation | None = element
        while enclosing is not None:
            if isinstance(enclosing, Element):
                pos = enclosing.array.rest(frame, pos, enclosing.indexes[-1] + 1, enclosing.number)
                enclosing = enclosing.inside
            for step in enclosing.part.steps[enclosing.at + 1 :]:
                pos = step(frame, pos)
            if frame.cost > frame.limit:
                raise TooExpensive(pos)
            enclosing = enclosing.up
        return pos

    def _read_struct(
        self, part: StructSteps, pos: int, up: _StepLocation | Element | None, indexes: tuple[int, ...]
    ) -> int:
        frame = self._frame
        frame.work -= len(part.steps) + 1
        if frame.work < frame.horizon:
            raise WorkExhausted(pos)
        for index, step in enumerate(part.steps):
            inner = part.inner.get(index)
            if isinstance(inner, Array):
                pos = self._read_array(inner, pos, _StepLocation(part, index, up), indexes)
            elif isinstance(inner, NestedStruct):
                present, pos = inner.present(frame, pos)
                pos = self._read_struct(inner.part, pos, _StepLocation(part, index, up), indexes) if present else pos
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

    def _read_array(self, array: Array, pos: int, inside: _StepLocation, indexes: tuple[int, ...]) -> int:
        frame = self._frame
        count, first = array.count(frame, pos)
        pos = array.check_count(frame, pos, count, first, 1)  # one of the elements may be smaller than the others
        for index in range(count):
            start = Checkpoint(pos, frame.cost, frame.work)
            element = Element(array, count, start, inside, (*indexes, index))
            self.found.append(element)
            part = array.part if index != array.exception_index else array.exception
            pos = self._read_struct(part, pos, element, element.indexes)
        return pos
