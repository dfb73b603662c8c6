"""Compile layouts struct by struct, so that the steps of one struct can be replaced.

Each struct of a layout is compiled once. An edit changes one struct: that struct is read with other steps
(`Replacement`), all other structs as before. An array without a replaced struct is read only once at each position.
"""

from __future__ import annotations

from dissectors.diagnosis import value_costs
from dissectors.diagnosis.costs import FrameReading, Step, array_reader, value_reader
from dissectors.diagnosis.length_prefixes import length_reader, read_uvarint
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.wire.layout import WIDTHS, Field, Layout, cached_on_owner


def read_frame(frame: FrameReading, header: Layout, body: Layout) -> int:
    """Read a frame from its start and return its end. Header and body are cached by position.

    Raises:
        Misfit: The frame does not fit the layouts; it may be a subclass.
    """
    header_steps, body_steps = compiled_struct(header), compiled_struct(body)
    return frame.run_cached(body_steps, body_steps.read, frame.run_cached(header_steps, header_steps.read, 4))


class StructSteps:
    """The compiled form of a struct: the steps that read its fields and its tag buffer.

    `inner` has the readers of nested structs and arrays, by the index of their step; `min_size` is in bytes.
    """

    __slots__ = ("has_duplicates", "inner", "min_size", "steps")

    def __init__(self, layout: Layout) -> None:
        readers = [_step(field) for field in layout.fields]
        names = [field.name for field in layout.fields]
        steps = [step for step, _ in readers]
        #: Whether a field occurs twice; its second occurrence must equal the first.
        self.has_duplicates = len(set(names)) < len(names) or names[:2] == ["size", "correlation_id"]
        self.inner: dict[int, Array | NestedStruct] = {}
        if self.has_duplicates:
            steps = _with_duplicates(names, steps)
        else:
            self.inner = {index: inner for index, (_, inner) in enumerate(readers) if inner is not None}
        if layout.flexible:
            steps.append(_tags_reader(layout) if layout.tagged or layout.tag_fault else _NO_KNOWN_TAGS)
        self.steps = tuple(steps)
        self.min_size = sum(min_size_of(field) for field in layout.fields) + layout.flexible

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the struct and return its end."""
        replacement = frame.replacement
        steps = self.steps if replacement is None or replacement.compiled is not self else replacement.steps
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
    """Return the compiled form of a struct, cached."""
    return StructSteps(layout)


class NestedStruct:
    """A struct in a field. If it is nullable, `null_marker` is the presence marker that means null."""

    __slots__ = ("compiled", "null_marker")

    def __init__(self, compiled: StructSteps, length: str | None) -> None:
        self.compiled = compiled
        self.null_marker = None if length is None else 0xFF if length == "int8" else 0

    def read_presence(self, frame: FrameReading, pos: int) -> tuple[bool, int]:
        """Read the presence marker; return whether the struct is present, and where it begins."""
        if self.null_marker is None:
            return True, pos
        if pos >= frame.end:
            raise Misfit(pos)
        marker = frame.data[pos]
        if marker not in (1, self.null_marker):
            raise Misfit(pos)
        frame.cost += 1
        return marker == 1, pos + 1

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the field and return its end."""
        is_present, pos = self.read_presence(frame, pos)
        return self.compiled.read(frame, pos) if is_present else pos


class Array:
    """An array of structs; the element at `deviating_index` may have a different layout."""

    __slots__ = (
        "compiled",
        "deviating_compiled",
        "deviating_index",
        "empty_cost",
        "min_size",
        "null_cost",
        "nullable",
        "read_count",
    )

    def __init__(self, field: Field) -> None:
        assert field.struct is not None
        assert field.length is not None
        self.read_count = length_reader(field.length)
        self.nullable = field.nullable
        self.null_cost = value_costs.null_cost(field)
        self.empty_cost = value_costs.empty_array_cost(field)
        self.compiled = compiled_struct(field.struct)
        self.min_size = max(self.compiled.min_size, 1)
        self.deviating_index, self.deviating_compiled = -1, self.compiled
        if field.deviating_element is not None:
            self.deviating_index, deviating_layout = field.deviating_element
            self.deviating_compiled = compiled_struct(deviating_layout)
            self.min_size = 1

    def check_count(self, frame: FrameReading, pos: int, count: int, start: int, min_size: int) -> int:
        """Check that `count` elements of at least `min_size` bytes fit; return where they begin. -1 stands for null."""
        if count < 0:
            if not self.nullable:
                raise Misfit(start)
            frame.cost += self.null_cost
            return start
        if count * min_size > frame.end - start:
            raise Misfit(pos)
        frame.cost += value_costs.count_cost(count) if count else self.empty_cost
        return start

    def read_rest(self, frame: FrameReading, pos: int, first_index: int, count: int) -> int:
        """Read the elements beginning at `first_index`, and return the end of the array."""
        read = self.compiled.read
        for index in range(first_index, count):
            pos = read(frame, pos) if index != self.deviating_index else self.deviating_compiled.read(frame, pos)
        return pos

    def read_elements(self, frame: FrameReading, pos: int) -> int:
        """Read the field and return its end."""
        count, start = self.read_count(frame, pos)
        replacement = frame.replacement
        min_size = self.min_size if replacement is None or replacement.array is not self else replacement.min_size
        start = self.check_count(frame, pos, count, start, min_size)
        return self.read_rest(frame, start, 0, count)

    def read(self, frame: FrameReading, pos: int) -> int:
        """Read the field and return its end, cached by position."""
        if frame.replacement is not None and self in frame.replacement.enclosing_arrays:
            return self.read_elements(frame, pos)
        return frame.run_cached(self, self.read_elements, pos)


def step_of(field: Field) -> Step:
    """Return the step that reads a field."""
    return _step(field)[0]


def inner_reader(field: Field) -> Array | NestedStruct | None:
    """Return the reader of the struct or structs in a field; None if it has none."""
    return _step(field)[1]


@cached_on_owner
def _step(field: Field) -> tuple[Step, Array | NestedStruct | None]:
    if field.struct is None:
        return array_reader(field) if field.array else value_reader(field, field.length, nullable=field.nullable), None
    inner = Array(field) if field.array else NestedStruct(compiled_struct(field.struct), field.length)
    return inner.read, inner


def min_size_of(field: Field) -> int:
    """Return the smallest size of a field in bytes."""
    if field.length is not None:
        return {"int16": 2, "int32": 4}.get(field.length, 1)
    return compiled_struct(field.struct).min_size if field.struct is not None else WIDTHS[field.type]


def _with_duplicates(names: list[str], steps: list[Step]) -> list[Step]:
    """Return the steps of a struct with duplicate fields; duplicates must have equal bytes."""
    key = object()  # unique to this struct: other structs may have the same duplicates
    duplicates = {name for index, name in enumerate(names) if name in names[:index] or name == "size"}
    return [
        duplicate_reader((key, name), step, first=name not in names[:index]) if name in duplicates else step
        for index, (name, step) in enumerate(zip(names, steps, strict=True))
    ]


def duplicate_reader(key: tuple[object, str], step: Step, *, first: bool) -> Step:
    """Return a step that reads the first or the second occurrence of a duplicate field."""

    def read(frame: FrameReading, start: int) -> int:
        cost_before, end = frame.cost, step(frame, start)
        raw = frame.data[start:end]
        expected = None if first else frame.copies.get(key)
        if key[1] == "size" and start == 4:  # a size in the header counts the rest of the frame
            expected = (frame.end - 8).to_bytes(4, "big")
        if expected is not None:
            if raw != expected:
                raise Misfit(start)
            frame.cost = max(cost_before + 1, frame.cost - value_costs.MAX_DUPLICATE_BONUS)
        frame.copies[key] = raw
        return end

    return read


def _tags_reader(layout: Layout) -> Step:
    tagged_steps = {field.tag: step_of(field) for field in layout.tagged}
    is_doubled, (wrong_size_tag, _) = layout.tag_fault == "twice", layout.wrong_size or (-1, 0)

    def read(frame: FrameReading, pos: int) -> int:
        count, pos = read_uvarint(frame, pos)
        frame.cost += value_costs.EMPTY_TAGS_COST
        if count:
            if count * 2 > frame.end - pos:
                raise Misfit(pos)
            for _ in range(count):
                frame.work -= 1
                if frame.work < frame.horizon:
                    raise WorkExhausted(pos)
                if frame.cost > frame.limit:
                    raise TooExpensive(pos)
                tag, value_start = read_uvarint(frame, pos)
                size, value_start = read_uvarint(frame, value_start)
                step = tagged_steps.get(tag)
                has_right_size = step is None or tag != wrong_size_tag
                if value_start + size > frame.end and has_right_size:
                    raise Misfit(pos)
                if step is None:
                    frame.cost += value_costs.UNKNOWN_TAG_COST + 8 * size
                    pos = value_start + size
                    continue
                frame.cost += value_costs.KNOWN_TAG_COST
                pos = step(frame, value_start)
                if has_right_size and pos != value_start + size:
                    raise Misfit(value_start)
        if is_doubled:
            count, pos = read_uvarint(frame, pos)
            if count:
                raise Misfit(pos)
        return pos

    return read


#: The step shared by most structs, which have a tag buffer but no tagged fields.
_NO_KNOWN_TAGS = _tags_reader(Layout("", (), flexible=True))
