"""Layouts compiled struct by struct, so that one struct can be replaced while a frame is read.

A part is made once for each struct of a layout. An edit changes one struct: it is read with other steps in the place
of its own (`Replacement`), and all the others as they are. Arrays that no exchange touches are read once at each place.
"""

from __future__ import annotations

from dissectors.diagnosis import value_costs
from dissectors.diagnosis.costs import FrameReading, Step, array_reader, value_reader
from dissectors.diagnosis.misfit import Misfit, Spent, TooDear
from dissectors.diagnosis.prefixes import length_reader, uvarint
from dissectors.wire.layout import WIDTHS, Field, Layout, cached_on_owner


def read_whole(frame: FrameReading, header: Layout, body: Layout) -> int:
    """Where a frame ends that is read from the start, its body once at each place.

    Raises:
        Misfit: And `TooDear`, `Spent`.
    """
    pos = part_of(header).read(frame, 4)
    part = part_of(body)
    return frame.once(part, part.read, pos)


class StructSteps:
    """A struct: the steps that read its fields, and its tag buffer last if it has one.

    `inner` are the steps that hold a struct themselves, by their index; `least` are the fewest bytes that it can have.
    """

    __slots__ = ("copies", "inner", "least", "steps")

    def __init__(self, layout: Layout) -> None:
        made = [_step(one) for one in layout.fields]
        names = [one.name for one in layout.fields]
        steps = [step for step, _ in made]
        #: Whether it has a field twice, the second one of which is compared with the first.
        self.copies = len(set(names)) < len(names) or names[:2] == ["size", "correlation_id"]
        self.inner: dict[int, Array | Nested] = {}
        if self.copies:
            steps = _with_copies(names, steps)
        else:
            self.inner = {index: inner for index, (_, inner) in enumerate(made) if inner is not None}
        if layout.flexible:
            steps.append(_tags(layout))
        self.steps = tuple(steps)
        self.least = sum(least_of(one) for one in layout.fields) + layout.flexible

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the struct."""
        exchange = frame.exchange
        steps = self.steps if exchange is None or exchange.part is not self else exchange.steps
        frame.work -= len(steps) + 1
        if frame.work < frame.horizon:
            raise Spent(pos)
        for step in steps:
            pos = step(frame, pos)
        if frame.cost > frame.limit:
            raise TooDear(pos)
        return pos


@cached_on_owner
def part_of(layout: Layout) -> StructSteps:
    """The part of a struct."""
    return StructSteps(layout)


class Nested:
    """A struct in a field; where it may be null behind a mark of presence, of which `null` is the other value."""

    __slots__ = ("null", "part")

    def __init__(self, part: StructSteps, length: str | None) -> None:
        self.part = part
        self.null = None if length is None else 0xFF if length == "int8" else 0

    def present(self, frame: FrameReading, pos: int) -> tuple[bool, int]:
        """Whether it is there, and where it begins then."""
        if self.null is None:
            return True, pos
        if pos >= frame.end:
            raise Misfit(pos)
        mark = frame.data[pos]
        if mark not in (1, self.null):
            raise Misfit(pos)
        frame.cost += 1
        return mark == 1, pos + 1

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the field."""
        there, pos = self.present(frame, pos)
        return self.part.read(frame, pos) if there else pos


class Array:
    """An array of structs, of which the one at the index `odd` may be read otherwise than the others."""

    __slots__ = ("count", "empty", "exception", "least", "null", "nullable", "odd", "part")

    def __init__(self, one: Field) -> None:
        assert one.struct is not None
        assert one.length is not None
        self.count = length_reader(one.length)
        self.nullable, self.null, self.empty = one.nullable, value_costs.null(one), value_costs.empty(one)
        self.part = part_of(one.struct)
        self.least = max(self.part.least, 1)
        self.odd, self.exception = -1, self.part
        if one.exception is not None:
            self.odd, self.exception, self.least = one.exception[0], part_of(one.exception[1]), 1

    def admit(self, frame: FrameReading, pos: int, number: int, at: int, least: int) -> int:
        """Where the elements begin, if so many of at least that size may be there; none if it is null."""
        if number < 0:
            if not self.nullable:
                raise Misfit(at)
            frame.cost += self.null
            return at
        if number * least > frame.end - at:
            raise Misfit(pos)
        frame.cost += value_costs.count(number) if number else self.empty
        return at

    def rest(self, frame: FrameReading, pos: int, begin: int, number: int) -> int:
        """Read the elements from an index on."""
        read = self.part.read
        for index in range(begin, number):
            pos = read(frame, pos) if index != self.odd else self.exception.read(frame, pos)
        return pos

    def elements(self, frame: FrameReading, pos: int) -> int:
        """Read the field."""
        number, at = self.count(frame, pos)
        exchange = frame.exchange
        least = self.least if exchange is None or exchange.array is not self else exchange.least
        at = self.admit(frame, pos, number, at, least)
        return self.rest(frame, at, 0, number)

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the field, once at each place."""
        if frame.exchange is not None and self in frame.exchange.above:
            return self.elements(frame, pos)
        return frame.once(self, self.elements, pos)


def step_of(one: Field) -> Step:
    """What reads a field."""
    return _step(one)[0]


def inner_of(one: Field) -> Array | Nested | None:
    """What reads the struct, or the structs, in a field, None if it holds none."""
    return _step(one)[1]


@cached_on_owner
def _step(one: Field) -> tuple[Step, Array | Nested | None]:
    if one.struct is None:
        return array_reader(one) if one.array else value_reader(one, one.length, nullable=one.nullable), None
    inner = Array(one) if one.array else Nested(part_of(one.struct), one.length)
    return inner.read, inner


def least_of(one: Field) -> int:
    """The fewest bytes that a field can have."""
    if one.length is not None:
        return {"int16": 2, "int32": 4}.get(one.length, 1)
    return part_of(one.struct).least if one.struct is not None else WIDTHS[one.type]


def _with_copies(names: list[str], steps: list[Step]) -> list[Step]:
    """The fields of a struct that has one twice: copies are equal, or it is not so."""
    key = object()  # of this struct alone: others have copies too
    twice = {name for index, name in enumerate(names) if name in names[:index] or name == "size"}
    return [
        copied((key, name), step, first=name not in names[:index]) if name in twice else step
        for index, (name, step) in enumerate(zip(names, steps, strict=True))
    ]


def copied(key: tuple[object, str], step: Step, *, first: bool) -> Step:
    """What reads a field that stands twice, the first time or the second."""

    def read(frame: FrameReading, start: int) -> int:
        before, end = frame.cost, step(frame, start)
        raw = frame.data[start:end]
        wanted = None if first else frame.copies.get(key)
        if key[1] == "size" and start == 4:  # what the header may hold is that of the frame without itself
            wanted = (frame.end - 8).to_bytes(4, "big")
        if wanted is not None:
            if raw != wanted:
                raise Misfit(start)
            frame.cost = max(before + 1, frame.cost - value_costs.COPY)
        frame.copies[key] = raw
        return end

    return read


def _tags(layout: Layout) -> Step:
    known = {one.tag: step_of(one) for one in layout.tagged}
    twice, unsized = layout.tag_fault == "twice", -1
    if layout.tag_fault.startswith("size "):
        unsized = int(layout.tag_fault.removeprefix("size "))

    def read(frame: FrameReading, pos: int) -> int:
        number, pos = uvarint(frame, pos)
        frame.cost += value_costs.EMPTY_TAGS
        if number:
            if number * 2 > frame.end - pos:
                raise Misfit(pos)
            for _ in range(number):
                tag, at = uvarint(frame, pos)
                size, at = uvarint(frame, at)
                one = known.get(tag)
                sized = one is None or tag != unsized
                if at + size > frame.end and sized:
                    raise Misfit(pos)
                if one is None:
                    frame.cost += value_costs.UNKNOWN_TAG + 8 * size
                    pos = at + size
                    continue
                frame.cost += value_costs.KNOWN_TAG
                pos = one(frame, at)
                if sized and pos != at + size:
                    raise Misfit(at)
        if twice:
            number, pos = uvarint(frame, pos)
            if number:
                raise Misfit(pos)
        return pos

    return read
