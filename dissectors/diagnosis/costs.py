"""Reads the values of a frame as fast as possible and adds up their costs in bits.

Reading stops at the first invalid bytes, or when it costs more than the best reading so far.
`dissectors.diagnosis.struct_reader` reads the structs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from dissectors.diagnosis import value_costs
from dissectors.diagnosis.length_prefixes import length_reader
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.diagnosis.whole_payloads import has_whole_payload, may_have_payload
from dissectors.wire.layout import CODES, WIDTHS, Field

#: The number of integers in an array that are evaluated; they represent the others.
SAMPLE_SIZE = 16

#: (frame reading, position) -> end of the field.
Step = Callable[["FrameReading", int], int]


class Replacement(NamedTuple):
    """Steps that replace those of one struct (`dissectors.diagnosis.struct_reader`).

    `above` are the enclosing arrays, whose results must not be cached; `array` is the one whose elements then have at
    least `min_size` bytes. Structs and arrays are compared by identity.
    """

    part: object
    steps: tuple[Step, ...]
    above: frozenset[object]
    array: object
    min_size: int


class FrameReading:
    """A frame, and what any reading has found in it so far.

    Args:
        data: The frame, length prefix included.
        words: Strings from the request or the connection.
        work: The number of fields that may be read in total.
    """

    def __init__(self, data: bytes, words: frozenset[bytes], work: int) -> None:
        self.data = data
        self.end = len(data)
        self.words = words
        self.work = work
        self.cost = 0.0
        self.limit = 0.0
        self.horizon = 0
        self.exchange: Replacement | None = None
        self.copies: dict[object, bytes] = {}
        self._cached: dict[tuple[object, int], tuple[int, float] | int] = {}

    def begin(self, limit: float, horizon: int) -> None:
        """Start a reading of at most `horizon` fields and at most `limit` bits."""
        self.cost, self.limit, self.horizon = 0.0, limit, max(self.work - horizon, 0)

    def once(self, key: object, step: Step, pos: int) -> int:
        """Run a step and return its end; cached by key and position unless a limit stopped it."""
        cached = self._cached.get((key, pos))
        if cached is None:
            return self.uncached(key, step, pos)
        if isinstance(cached, int):
            raise Misfit(cached)
        self.cost += cached[1]
        return cached[0]

    def uncached(self, key: object, step: Step, pos: int) -> int:
        """As `once`, but run the step even if its result is cached."""
        cost_before = self.cost
        try:
            end = step(self, pos)
        except (TooExpensive, WorkExhausted):
            raise
        except Misfit as misfit:
            self._cached[key, pos] = misfit.at
            raise
        self._cached[key, pos] = end, self.cost - cost_before
        return end


def value_reader(field: Field, length: str | None, *, nullable: bool) -> Step:
    """A step that reads a value of a field, with its length encoding if it has one."""
    if length is None:
        return _fixed_reader(field)
    read_length = length_reader(length)
    records, null = field.type == "records", value_costs.null_cost(field)
    if field.type != "string":
        has_payload = may_have_payload(field.name)

        def read_blob(frame: FrameReading, pos: int) -> int:
            size, pos = read_length(frame, pos)
            if size < 0:
                return _read_null(frame, pos, nullable, null)
            end = pos + size
            if end > frame.end:
                raise Misfit(pos)
            if has_payload and has_whole_payload(field.name, bytes(frame.data[pos:end])):
                frame.cost += value_costs.count_cost(size) + value_costs.PAYLOAD_BYTE_COST * size
            else:
                frame.cost += value_costs.count_cost(size) + value_costs.blob_cost(records, frame.data, pos, size)
            return end

        return read_blob
    cost = value_costs.text_cost(field)

    def read_text(frame: FrameReading, pos: int) -> int:
        size, pos = read_length(frame, pos)
        if size < 0:
            return _read_null(frame, pos, nullable, null)
        end = pos + size
        if end > frame.end:
            raise Misfit(pos)
        raw = frame.data[pos:end]
        frame.cost += value_costs.KNOWN_WORD_COST if raw in frame.words else value_costs.count_cost(size) + cost(raw)
        return end

    return read_text


def _read_null(frame: FrameReading, pos: int, nullable: bool, cost: float) -> int:
    if not nullable:
        raise Misfit(pos)
    frame.cost += cost
    return pos


_UNPACK = {type_: struct.Struct(f">{code}").unpack_from for type_, code in CODES.items()}


def _fixed_reader(field: Field) -> Step:
    width = WIDTHS[field.type]
    unpack = _UNPACK[field.type]
    cost = value_costs.integer_cost(field)
    is_free = field.name in value_costs.ARBITRARY_FIELDS

    def read(frame: FrameReading, pos: int) -> int:
        end = pos + width
        if end > frame.end:
            raise Misfit(pos)
        if not is_free:
            frame.cost += cost(unpack(frame.data, pos)[0])
        return end

    return read


def array_reader(field: Field) -> Step:
    """A step that reads an array of primitive values, cached by position."""
    assert field.length is not None
    read_count, nullable = length_reader(field.length), field.nullable
    read_element = value_reader(field, field.element_length, nullable=False)
    size = {"int16": 2, "int32": 4}.get(field.element_length, 1) if field.element_length else WIDTHS[field.type]
    has_fixed_size = field.element_length is None
    null, empty = value_costs.null_cost(field), value_costs.empty_array_cost(field)

    def read_elements(frame: FrameReading, pos: int) -> int:
        number, at = read_count(frame, pos)
        if number < 0:
            return _read_null(frame, at, nullable, null)
        if number * size > frame.end - at:
            raise Misfit(pos)
        frame.cost += value_costs.count_cost(number) if number else empty
        if has_fixed_size and number > SAMPLE_SIZE:
            before = frame.cost
            for index in range(SAMPLE_SIZE):
                read_element(frame, at + index * size)
            frame.cost = before + (frame.cost - before) * number / SAMPLE_SIZE
            frame.work -= SAMPLE_SIZE
            return at + number * size
        for index in range(number):
            if not index % SAMPLE_SIZE:
                frame.work -= SAMPLE_SIZE
                if frame.work < frame.horizon:
                    raise WorkExhausted(at)
            at = read_element(frame, at)
        return at

    return lambda frame, pos: frame.once(read_elements, read_elements, pos)
