"""Read the values of a frame as fast as possible, adding up their costs in bits.

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

#: The number of integers of an array whose costs are computed; they represent the others.
SAMPLE_SIZE = 16

#: (frame reading, position) -> end of the field.
Step = Callable[["FrameReading", int], int]


class Replacement(NamedTuple):
    """Steps that replace those of one struct (`dissectors.diagnosis.struct_reader`).

    `enclosing_arrays` are the arrays around the struct, whose results must not be cached; each element of `array` then
    has at least `min_size` bytes. Structs and arrays are compared by identity.
    """

    compiled: object
    steps: tuple[Step, ...]
    enclosing_arrays: frozenset[object]
    array: object
    min_size: int


class FrameReading:
    """A frame, the state of its current reading, and the cached results of all readings so far.

    Args:
        data: The frame, including its length prefix.
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
        self.replacement: Replacement | None = None
        self.copies: dict[object, bytes] = {}
        self._cached: dict[tuple[object, int], tuple[int, float] | int] = {}

    def begin(self, limit: float, horizon: int) -> None:
        """Start a reading of at most `horizon` fields and at most `limit` bits."""
        self.cost, self.limit, self.horizon = 0.0, limit, max(self.work - horizon, 0)

    def run_cached(self, key: object, step: Step, pos: int) -> int:
        """Run a step and return its end. The result is cached by key and position unless a limit stopped the step."""
        cached = self._cached.get((key, pos))
        if cached is None:
            return self.run_uncached(key, step, pos)
        if isinstance(cached, int):
            raise Misfit(cached)
        self.cost += cached[1]
        return cached[0]

    def run_uncached(self, key: object, step: Step, pos: int) -> int:
        """Do what `run_cached` does, but run the step even if its result is cached."""
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
    """Return a step that reads a value of a field, preceded by its length if it has a length encoding."""
    if length is None:
        return _fixed_reader(field)
    read_length = length_reader(length)
    is_records, null_cost = field.type == "records", value_costs.null_cost(field)
    if field.type != "string":
        has_payload = may_have_payload(field.name)

        def read_blob(frame: FrameReading, pos: int) -> int:
            size, pos = read_length(frame, pos)
            if size < 0:
                return _read_null(frame, pos, nullable, null_cost)
            end = pos + size
            if end > frame.end:
                raise Misfit(pos)
            if has_payload and has_whole_payload(field.name, bytes(frame.data[pos:end])):
                frame.cost += value_costs.count_cost(size) + value_costs.PAYLOAD_BYTE_COST * size
            else:
                frame.cost += value_costs.count_cost(size) + value_costs.blob_cost(is_records, frame.data, pos, size)
            return end

        return read_blob
    text_cost = value_costs.text_cost(field)

    def read_text(frame: FrameReading, pos: int) -> int:
        size, pos = read_length(frame, pos)
        if size < 0:
            return _read_null(frame, pos, nullable, null_cost)
        end = pos + size
        if end > frame.end:
            raise Misfit(pos)
        raw = frame.data[pos:end]
        frame.cost += (
            value_costs.KNOWN_WORD_COST if raw in frame.words else value_costs.count_cost(size) + text_cost(raw)
        )
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
    """Return a step that reads an array of primitive values, cached by position."""
    assert field.length is not None
    read_count, nullable = length_reader(field.length), field.nullable
    read_element = value_reader(field, field.element_length, nullable=False)
    min_size = {"int16": 2, "int32": 4}.get(field.element_length, 1) if field.element_length else WIDTHS[field.type]
    has_fixed_size = field.element_length is None
    null_cost, empty_cost = value_costs.null_cost(field), value_costs.empty_array_cost(field)

    def read_elements(frame: FrameReading, pos: int) -> int:
        count, start = read_count(frame, pos)
        if count < 0:
            return _read_null(frame, start, nullable, null_cost)
        if count * min_size > frame.end - start:
            raise Misfit(pos)
        frame.cost += value_costs.count_cost(count) if count else empty_cost
        if has_fixed_size and count > SAMPLE_SIZE:
            cost_before = frame.cost
            for index in range(SAMPLE_SIZE):
                read_element(frame, start + index * min_size)
            frame.cost = cost_before + (frame.cost - cost_before) * count / SAMPLE_SIZE
            frame.work -= SAMPLE_SIZE
            return start + count * min_size
        pos = start
        for index in range(count):
            if not index % SAMPLE_SIZE:
                frame.work -= SAMPLE_SIZE
                if frame.work < frame.horizon:
                    raise WorkExhausted(pos)
            pos = read_element(frame, pos)
        return pos

    return lambda frame, pos: frame.run_cached(read_elements, read_elements, pos)
