"""Compiles layouts struct by struct, so that the steps of one struct can be replaced.

Each struct of a layout is compiled once. An edit changes one struct: it is read with other steps (`Replacement`), and
all other structs as before. Arrays that contain no replaced struct are read once at each position.
"""

from __future__ import annotations

from dissectors.diagnosis import value_costs
from dissectors.diagnosis.costs import FrameReading, Step, array_reader, value_reader
from dissectors.diagnosis.length_prefixes import length_reader, read_uvarint
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.wire.layout import WIDTHS, Field, Layout, cached_on_owner


def read_frame(frame: FrameReading, header: Layout, body: Layout) -> int:
    """Read a frame from its start, header and body cached by position; return the end.

    Raises:
        Misfit: Or its subclasses.
    """
    header_steps, body_steps = compiled_struct(header), compiled_struct(body)
    return frame.once(body_steps, body_steps.read, frame.once(header_steps, header_steps.read, 4))


class StructSteps:
    """The compiled form of a struct: the steps that read its fields and its tag buffer.

    `inner` are the steps that read structs, by index; `min_size` is the smallest size in bytes.
    """

    __slots__ = ("copies", "inner", "min_size", "steps")

    def __init__(self, layout: Layout) -> None:
        readers = [_step(field) for field in layout.fields]
        names = [field.name for field in layout.fields]
        steps = [step for step, _ in readers]
        #: Whether a field occurs twice; the second occurrence is compared with the first.
        self.copies = len(set(names)) < len(names) or names[:2] == ["size", "correlation_id"]
        self.inner: dict[int, Array | NestedStruct] = {}
        if self.copies:
            steps = _with_duplicates(names, steps)
        else:
            self.inner = {index: inner for index, (_, inner) in enumerate(readers) if inner is not None}
        if layout.flexible:
            steps.append(_tags_reader(layout) if layout.tagged or layout.tag_fault else _NO_KNOWN_TAGS)
        self.steps = tuple(steps)
        self.min_size = sum(min_size_of(field) for field in layout.fields) + layout.flexible

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the struct."""
        exchange = frame.exchange
        steps = self.steps if exchange is None or exchange.part is not self else exchange.steps
        frame.work -= len(steps) + 1
        if frame.work < frame.horizon:
            raise WorkExhausted(pos)
        for step in steps:
            pos = step(frame, pos)
        if frame.cost > frame.limit:
            raise TooExpensive(pos)
        return pos


@cached_on_owner
def compiled_struct(layout: Layout) -> StructSteps:
    """The compiled form of a struct."""
    return StructSteps(layout)


class NestedStruct:
    """A struct in a field. If it is nullable, `null` is the presence marker that means null."""

    __slots__ = ("null", "part")

    def __init__(self, part: StructSteps, length: str | None) -> None:
        self.part = part
        self.null = None if length is None else 0xFF if length == "int8" else 0

    def present(self, frame: FrameReading, pos: int) -> tuple[bool, int]:
        """Read the presence marker: whether the struct is present, and where it begins."""
        if self.null is None:
            return True, pos
        if pos >= frame.end:
            raise Misfit(pos)
        marker = frame.data[pos]
        if marker not in (1, self.null):
            raise Misfit(pos)
        frame.cost += 1
        return marker == 1, pos + 1

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the field."""
        is_present, pos = self.present(frame, pos)
        return self.part.read(frame, pos) if is_present else pos


class Array:
    """An array of structs, of which the element at index `exception_index` may have a different layout."""

    __slots__ = ("count", "empty", "exception", "exception_index", "min_size", "null", "nullable", "part")

    def __init__(self, field: Field) -> None:
        assert field.struct is not None
        assert field.length is not None
        self.count = length_reader(field.length)
        self.nullable, self.null, self.empty = (
            field.nullable,
            value_costs.null_cost(field),
            value_costs.empty_array_cost(field),
        )
        self.part = compiled_struct(field.struct)
        self.min_size = max(self.part.min_size, 1)
        self.exception_index, self.exception = -1, self.part
        if field.exception is not None:
            self.exception_index, self.exception, self.min_size = (
                field.exception[0],
                compiled_struct(field.exception[1]),
                1,
            )

    def check_count(self, frame: FrameReading, pos: int, count: int, start: int, min_size: int) -> int:
        """Check that so many elements of at least that size can fit; return where they begin. Null has no elements."""
        if count < 0:
            if not self.nullable:
                raise Misfit(start)
            frame.cost += self.null
            return start
        if count * min_size > frame.end - start:
            raise Misfit(pos)
        frame.cost += value_costs.count_cost(count) if count else self.empty
        return start

    def rest(self, frame: FrameReading, pos: int, first_index: int, count: int) -> int:
        """Read the elements from an index to the last."""
        read = self.part.read
        for index in range(first_index, count):
            pos = read(frame, pos) if index != self.exception_index else self.exception.read(frame, pos)
        return pos

    def elements(self, frame: FrameReading, pos: int) -> int:
        """Read the field."""
        count, start = self.count(frame, pos)
        exchange = frame.exchange
        min_size = self.min_size if exchange is None or exchange.array is not self else exchange.min_size
        start = self.check_count(frame, pos, count, start, min_size)
        return self.rest(frame, start, 0, count)

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the field, cached by position."""
        if frame.exchange is not None and self in frame.exchange.above:
            return self.elements(frame, pos)
        return frame.once(self, self.elements, pos)


def step_of(field: Field) -> Step:
    """The step that reads a field."""
    return _step(field)[0]


def inner_of(field: Field) -> Array | NestedStruct | None:
    """The reader of the struct or structs in a field; None for other fields."""
    return _step(field)[1]


@cached_on_owner
def _step(field: Field) -> tuple[Step, Array | NestedStruct | None]:
    if field.struct is None:
        return array_reader(field) if field.array else value_reader(field, field.length, nullable=field.nullable), None
    inner = Array(field) if field.array else NestedStruct(compiled_struct(field.struct), field.length)
    return inner.read, inner


def min_size_of(field: Field) -> int:
    """The smallest size of a field in bytes."""
    if field.length is not None:
        return {"int16": 2, "int32": 4}.get(field.length, 1)
    return compiled_struct(field.struct).min_size if field.struct is not None else WIDTHS[field.type]


def _with_duplicates(names: list[str], steps: list[Step]) -> list[Step]:
    """The steps of a struct with a duplicate field; the duplicates must be equal."""
    key = object()  # unique to this struct: others have duplicates too
    duplicates = {name for index, name in enumerate(names) if name in names[:index] or name == "size"}
    return [
        duplicate_reader((key, name), step, first=name not in names[:index]) if name in duplicates else step
        for index, (name, step) in enumerate(zip(names, steps, strict=True))
    ]


def duplicate_reader(key: tuple[object, str], step: Step, *, first: bool) -> Step:
    """A step that reads the first or second occurrence of a duplicate field."""

    def read(frame: FrameReading, start: int) -> int:
        before, end = frame.cost, step(frame, start)
        raw = frame.data[start:end]
        expected = None if first else frame.copies.get(key)
        if key[1] == "size" and start == 4:  # a size in the header is that of the rest of the frame
            expected = (frame.end - 8).to_bytes(4, "big")
        if expected is not None:
            if raw != expected:
                raise Misfit(start)
            frame.cost = max(before + 1, frame.cost - value_costs.MAX_DUPLICATE_BONUS)
        frame.copies[key] = raw
        return end

    return read


def _tags_reader(layout: Layout) -> Step:
    tagged_steps = {field.tag: step_of(field) for field in layout.tagged}
    is_doubled, (unsized, _) = layout.tag_fault == "twice", layout.wrong_size or (-1, 0)

    def read(frame: FrameReading, pos: int) -> int:
        number, pos = read_uvarint(frame, pos)
        frame.cost += value_costs.EMPTY_TAGS_COST
        if number:
            if number * 2 > frame.end - pos:
                raise Misfit(pos)
            for _ in range(number):
                frame.work -= 1
                if frame.work < frame.horizon:
                    raise WorkExhausted(pos)
                if frame.cost > frame.limit:
                    raise TooExpensive(pos)
                tag, at = read_uvarint(frame, pos)
                size, at = read_uvarint(frame, at)
                step = tagged_steps.get(tag)
                sized = step is None or tag != unsized
                if at + size > frame.end and sized:
                    raise Misfit(pos)
                if step is None:
                    frame.cost += value_costs.UNKNOWN_TAG_COST + 8 * size
                    pos = at + size
                    continue
                frame.cost += value_costs.KNOWN_TAG_COST
                pos = step(frame, at)
                if sized and pos != at + size:
                    raise Misfit(at)
        if is_doubled:
            number, pos = read_uvarint(frame, pos)
            if number:
                raise Misfit(pos)
        return pos

    return read


#: The step of most structs, so that these share it: they have tag buffers, but no tagged fields.
_NO_KNOWN_TAGS = _tags_reader(Layout("", (), flexible=True))
