"""Values that contradict a reading: shifted bytes, codes that Kafka does not define, an index far from the others.

A correct reading of a broken frame rarely has any. So even if a reading with such values is the best one tried, it may
not match what the writer did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.diagnosis.integer_costs import WRONG_COST, integer_cost
from dissectors.diagnosis.shift_signs import is_shifted
from dissectors.diagnosis.value_costs import ARBITRARY_FIELDS
from dissectors.wire.layout import Field, Layout

#: The bits by which one value contradicts a reading, and the most by which all values together do.
ABSURD_BITS = 24.0
UNLIKELY_BITS = 20.0
MAX_IMPLAUSIBILITY = 25.0

#: Fields that count the elements of an array from 0, and all fields that tell its elements apart.
_INDEXES = frozenset({"partition_index", "partition", "partition_id", "index"})
_KEYS = _INDEXES | {"node_id", "broker_id", "topic_id", "topic", "topic_name", "name", "api_key", "group_id"}

#: The largest frame whose values are examined.
SMALL_FRAME_BYTES = 32 << 10

#: An index is far from the others if it is more than this many times the next smaller one.
FAR_FACTOR = 8

#: Suffixes of the names of fields with codes. A code that is not in its table was read at a wrong offset.
_CODES = ("error_code", "is_internal")


def frame_implausibility(layout: Layout, values: Mapping[str, Any]) -> float:
    """Return the bits by which the values of a frame contradict their layout, at most `MAX_IMPLAUSIBILITY`."""
    return min(sum(_struct_implausibilities(layout, values)), MAX_IMPLAUSIBILITY)


def _struct_implausibilities(layout: Layout, values: Mapping[str, Any]) -> Iterator[float]:
    for field in layout.fields:
        value = values.get(field.name)
        if value is None:
            continue
        if field.struct is None:
            for element in value if field.array else (value,):
                if _is_implausible(field, element):
                    yield ABSURD_BITS
        elif field.array:
            yield from _key_implausibilities(value)
            for element in value:
                yield from _struct_implausibilities(field.struct, element)
        else:
            yield from _struct_implausibilities(field.struct, value)


def _is_implausible(field: Field, value: Any) -> bool:
    if isinstance(value, bool) or field.name in ARBITRARY_FIELDS:
        return False
    if isinstance(value, int) and field.name.endswith(_CODES):
        return integer_cost(field)(value) >= WRONG_COST
    return is_shifted(field, value)


def _key_implausibilities(elements: list[Mapping[str, Any]]) -> Iterator[float]:
    """Yield the bits for duplicate keys in an array, for an index far from the others, or one shifted by a byte."""
    for key in _KEYS.intersection(elements[0]) if len(elements) > 1 else ():
        values = [element[key] for element in elements if element.get(key) is not None]
        if len(set(values)) < len(values):
            yield UNLIKELY_BITS
        if key in _INDEXES and len(values) > 1:
            *_, next_greatest, greatest = sorted(values)
            if greatest > FAR_FACTOR * (next_greatest + FAR_FACTOR):
                yield UNLIKELY_BITS
            elif greatest >> 8 and not greatest & 0xFF and next_greatest != greatest - 1:
                yield UNLIKELY_BITS  # read a byte too late
