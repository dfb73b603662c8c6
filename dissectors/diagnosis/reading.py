"""Reading: a frame under a layout that may be wrong, as fast as can be, for what it costs in bits.

It stops at the first bytes that cannot be, and as soon as the reading costs more than another one that is known.
Arrays and structs that candidates share are read once at each place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from dissectors.diagnosis import evidence
from dissectors.diagnosis.misfit import Misfit, Spent, TooDear
from dissectors.diagnosis.prefixes import length_reader, uvarint
from dissectors.layout import CODES, WIDTHS, Field, Layout

#: Elements of an array of integers that are looked at; they stand for the others.
SAMPLE = 16


class Reading:
    """One frame and what has been read of it so far, by whatever layouts.

    Args:
        data: The frame, length prefix included.
        words: Strings that the request or the connection has named.
        work: Fields that may be read in all.
    """

    def __init__(self, data: bytes, words: frozenset[bytes], work: int) -> None:
        self.data = data
        self.end = len(data)
        self.words = words
        self.work = work
        self.cost = 0.0
        self.limit = 0.0
        self.horizon = 0
        self.memo: dict[tuple[int, int], tuple[int, float] | int] = {}

    def read(self, layout: Layout, *, limit: float, horizon: int) -> tuple[int, float]:
        """Where a layout ends that begins behind the length prefix, and what it costs.

        Args:
            layout: As `dissectors.edits.frame_layout` makes it.
            limit: The cost beyond which the answer is of no use.
            horizon: Fields that may be read for it.

        Raises:
            Misfit: And `TooDear`, `Spent`.
        """
        self.cost, self.limit, self.horizon = 0.0, limit, self.work - horizon
        pos = reader(layout)(self, 4)
        return pos, self.cost


Read = Callable[[Reading, int], int]


def reader(layout: Layout) -> Read:
    """The function that reads a struct."""
    made: Read | None = layout.cache.get("reading")
    if made is None:
        made = layout.cache["reading"] = _struct(layout)
    return made


def least(layout: Layout) -> int:
    """The fewest bytes that a struct can have."""
    made: int | None = layout.cache.get("least")
    if made is None:
        made = sum(_least(one) for one in layout.fields) + layout.flexible
        layout.cache["least"] = made
    return made


def _least(one: Field) -> int:
    if one.length is not None:
        return {"int16": 2, "int32": 4}.get(one.length, 1)
    return least(one.struct) if one.struct is not None else WIDTHS[one.type]


def _struct(layout: Layout) -> Read:
    reads = [_field(one) for one in layout.fields]
    number = len(reads) + 1
    names = [one.name for one in layout.fields]
    if len(set(names)) < len(names) or names[:2] == ["size", "correlation_id"]:
        reads = [_with_copies(names, reads)]
    if layout.flexible:
        reads.append(_tags(layout))

    def read(state: Reading, pos: int) -> int:
        state.work -= number
        if state.work < state.horizon:
            raise Spent(pos)
        for one in reads:
            pos = one(state, pos)
        if state.cost > state.limit:
            raise TooDear(pos)
        return pos

    return read


def _with_copies(names: list[str], reads: list[Read]) -> Read:
    """The fields of a struct that has one twice: copies are equal, or it is not so."""

    def read(state: Reading, pos: int) -> int:
        spans: dict[str, bytes] = {}
        for name, one in zip(names, reads, strict=True):
            before, start = state.cost, pos
            pos = one(state, pos)
            raw = state.data[start:pos]
            if name == "size" and start == 4:  # what the header may hold is that of the frame without itself
                spans[name] = (state.end - 8).to_bytes(4, "big")
            if name in spans:
                if raw != spans[name]:
                    raise Misfit(start)
                state.cost = before + 1
            spans[name] = raw
        return pos

    return read


def _field(one: Field) -> Read:
    """The function that reads a field; it must not hold the field, which holds it, or only the collector frees both."""
    made: Read | None = one.cache.get("reading")
    if made is None:
        if one.array:
            made = _array(one)
        elif one.struct is not None:
            made = _maybe(one) if one.length is not None else reader(one.struct)
        else:
            made = _value(one, one.length, one.nullable)
        one.cache["reading"] = made
    return made


def _value(one: Field, length: str | None, nullable: bool) -> Read:
    if length is None:
        return _fixed(one)
    get = length_reader(length)
    records = one.type == "records"
    if one.type != "string":

        def read_blob(state: Reading, pos: int) -> int:
            size, pos = get(state, pos)
            if size < 0:
                return _null(state, pos, nullable)
            end = pos + size
            if end > state.end:
                raise Misfit(pos)
            state.cost += evidence.count(size) + evidence.blob(records, state.data, pos, size)
            return end

        return read_blob
    cost = evidence.text(one)

    def read_text(state: Reading, pos: int) -> int:
        size, pos = get(state, pos)
        if size < 0:
            return _null(state, pos, nullable)
        end = pos + size
        if end > state.end:
            raise Misfit(pos)
        raw = state.data[pos:end]
        state.cost += evidence.KNOWN_WORD if raw in state.words else evidence.count(size) + cost(raw)
        return end

    return read_text


def _null(state: Reading, pos: int, nullable: bool) -> int:
    if not nullable:
        raise Misfit(pos)
    state.cost += evidence.NULL
    return pos


def _fixed(one: Field) -> Read:
    width = WIDTHS[one.type]
    unpack = struct.Struct(">" + CODES[one.type]).unpack_from
    cost = evidence.integer(one)
    free = one.name in evidence.FREE

    def read(state: Reading, pos: int) -> int:
        end = pos + width
        if end > state.end:
            raise Misfit(pos)
        if not free:
            state.cost += cost(unpack(state.data, pos)[0])
        return end

    return read


def _maybe(one: Field) -> Read:
    assert one.struct is not None
    inner = reader(one.struct)
    signed = one.length == "int8"

    def read(state: Reading, pos: int) -> int:
        if pos >= state.end:
            raise Misfit(pos)
        mark = state.data[pos]
        if mark == 1:
            state.cost += 1
            return inner(state, pos + 1)
        if mark != (0xFF if signed else 0):
            raise Misfit(pos)
        state.cost += 1
        return pos + 1

    return read


def _array(one: Field) -> Read:
    assert one.length is not None
    get = length_reader(one.length)
    odd, exception = -1, None
    if one.struct is not None:
        element, size = reader(one.struct), max(least(one.struct), 1)
        if one.exception is not None:
            odd, exception = one.exception[0], reader(one.exception[1])
            size = 1
    else:
        element = _value(one, one.element_length, False)
        size = {"int16": 2, "int32": 4}.get(one.element_length, 1) if one.element_length else WIDTHS[one.type]
    nullable, identity = one.nullable, id(one)
    counted = one.struct is None  # structs count their fields
    fixed = counted and one.element_length is None

    def elements(state: Reading, pos: int) -> int:
        number, at = get(state, pos)
        if number < 0:
            return _null(state, at, nullable)
        if number * size > state.end - at:
            raise Misfit(pos)
        state.cost += evidence.count(number)
        if fixed and number > SAMPLE:
            before = state.cost
            for index in range(SAMPLE):
                element(state, at + index * size)
            state.cost = before + (state.cost - before) * number / SAMPLE
            state.work -= SAMPLE
            return at + number * size
        for index in range(number):
            if counted and not index % SAMPLE:
                state.work -= SAMPLE
                if state.work < state.horizon:
                    raise Spent(at)
            at = element(state, at) if index != odd or exception is None else exception(state, at)
        return at

    def read(state: Reading, pos: int) -> int:
        key = (identity, pos)
        known = state.memo.get(key)
        if known is not None:
            if isinstance(known, int):
                raise Misfit(known)
            state.cost += known[1]
            return known[0]
        before = state.cost
        try:
            at = elements(state, pos)
        except (TooDear, Spent):
            raise
        except Misfit as misfit:
            state.memo[key] = misfit.at
            raise
        state.memo[key] = at, state.cost - before
        return at

    return read


def _tags(layout: Layout) -> Read:
    known = {one.tag: _field(one) for one in layout.tagged}
    twice, unsized = layout.tag_fault == "twice", -1
    if layout.tag_fault.startswith("size "):
        unsized = int(layout.tag_fault.removeprefix("size "))

    def read(state: Reading, pos: int) -> int:
        number, pos = uvarint(state, pos)
        state.cost += evidence.EMPTY_TAGS
        if number:
            if number * 2 > state.end - pos:
                raise Misfit(pos)
            for _ in range(number):
                tag, at = uvarint(state, pos)
                size, at = uvarint(state, at)
                one = known.get(tag)
                sized = one is None or tag != unsized
                if at + size > state.end and sized:
                    raise Misfit(pos)
                if one is None:
                    state.cost += evidence.UNKNOWN_TAG + 8 * size
                    pos = at + size
                    continue
                state.cost += evidence.KNOWN_TAG
                pos = one(state, at)
                if sized and pos != at + size:
                    raise Misfit(at)
        if twice:
            number, pos = uvarint(state, pos)
            if number:
                raise Misfit(pos)
        return pos

    return read
