"""Recognise values that were read at a wrong offset, in frames that decode to their last byte.

Extreme values alone are legal. A value that is read a few bytes too early or too late looks different: it begins with
the low bytes of one small number and ends with the high bytes of the next, which are 0, or 255 if that number is
negative. Text contains the length of another string. Bytes of small numbers become codes that do not exist, or throttle
times of days.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.diagnosis.integer_costs import OUTSIDE_SET_COST, integer_cost
from dissectors.diagnosis.value_costs import ARBITRARY_FIELDS
from dissectors.wire.layout import WIDTHS, Field, Layout

#: An integer that costs at least this many bits may have been read at a wrong offset.
ODD_COST = 30.0

#: The longest throttle time that a broker asks for, in ms.
LONGEST_THROTTLE = 3_600_000

#: The control characters of ordinary text.
_ORDINARY_CONTROLS = frozenset("\t\n\r")


def shows_shift(layout: Layout, values: Mapping[str, Any]) -> bool:
    """Whether any value of a body looks as if it were read at a wrong offset."""
    return any(is_shifted(field, value) for field, value in _leaves(layout, values))


def _leaves(layout: Layout, values: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
    for field in layout.fields:
        value = values.get(field.name)
        if value is None:
            continue
        for element in value if field.array else (value,):
            if field.struct is not None:
                yield from _leaves(field.struct, element)
            else:
                yield field, element


def is_shifted(field: Field, value: Any) -> bool:
    """Whether the value of a field looks as if it were read at a wrong offset."""
    if isinstance(value, str):
        return field.type == "string" and any(
            character < " " and character not in _ORDINARY_CONTROLS for character in value
        )
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or field.name in ARBITRARY_FIELDS
        or field.type not in WIDTHS
    ):
        return False
    if field.type == "int8":
        return integer_cost(field)(value) >= OUTSIDE_SET_COST
    if field.name == "throttle_time_ms" and not -1 <= value <= LONGEST_THROTTLE:
        return abs(value) < (1 << 31) - 1  # the extremes are deliberate
    width = WIDTHS[field.type]
    return width > 1 and has_seam(value, width) and integer_cost(field)(value) >= ODD_COST


def has_seam(value: int, width: int) -> bool:
    """Whether the bytes of an integer look like the end of one number and the beginning of another.

    The smallest and the largest integer are excluded, because they are deliberate.
    """
    bits = 8 * width
    if value in (-(1 << bits - 1), (1 << bits - 1) - 1):
        return False
    data = (value % (1 << bits)).to_bytes(width, "big")
    filler_size = min(2, width - 1)
    for filler in (b"\x00" * filler_size, b"\xff" * filler_size):
        index = data.find(filler, 1)
        while index > 0:
            if data[:index].strip(filler[:1]):
                return True
            index = data.find(filler, index + 1)
    return False
