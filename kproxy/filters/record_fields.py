"""Fields of the filter language inside decoded records: ``value.order.id``, ``key``, ``header.traceparent``.

``PART[.FIELD...]``, where PART is ``key``, ``value`` or ``header``; ``header`` is followed by its name with any dots.
Names are case-sensitive, with the wildcards ``*`` and ``?``; ``**`` is any number of fields. Lists count as their
elements, and an object as all values in it. The page's script follows the same rules (kproxy/html/filter_records.js).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import translate
from typing import Any, Final

from kproxy.trace.record_values import MASKED, record_values

#: The parts, with their descriptions in docs/filters.md.
PARTS: Final = {
    "key": "any key of a record; `key.order.id` is a field of it",
    "value": "any value of a record; `value.order.id` is a field of it",
    "header": "any header of a record; `header.traceparent` is one of them",
}

_ANY_DEPTH: Final = "**"
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")
_MAX_NAMES: Final = 50
_MAX_PLAIN: Final = 1 << 53  # smaller whole numbers are written without an exponent everywhere


def parse_path(text: str) -> tuple[str, list[str]] | None:
    """Return the part and the field names that follow it; None if the text is not a field of records."""
    part, dot, remainder = text.partition(".")
    if part not in PARTS:
        return None
    names = [remainder] if part == "header" and dot else remainder.split(".") if dot else []
    return (part, names) if all(names) and len(names) <= _MAX_NAMES else None


def path_reader(part: str, names: Sequence[str]) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return a function that returns the values of a field in the body of a line: text, numbers, true, false and None.

    Masked values are left out.
    """
    is_header = part == "header"
    matches_header = _matcher(names[0]) if is_header and names else None
    path = () if is_header else tuple(None if name == _ANY_DEPTH else _matcher(name) for name in names)

    def read_values(line: Mapping[str, Any]) -> list[Any]:
        return [
            value
            for record_value in record_values(line.get("body"))
            if record_value.part == part and (matches_header is None or matches_header(record_value.header or ""))
            for value in _values(None if record_value.value is None else record_value.value["data"], path)
        ]

    return read_values


def all_values(data: Any) -> Iterator[Any]:
    """Yield all values in the data of a key, value or header, except masked ones."""
    return _values(data, ())


def as_text(value: Any) -> str:
    """Return a value as text, as a filter compares it."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_PLAIN:
        return str(int(value))
    return str(value)


def as_number(text: str) -> Decimal | None:
    """Return a text as a number; None if it is not numeric."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def compare_numbers(compare: Callable[[Any, Any], bool], value: Any, amount: Decimal) -> bool:
    """Compare a value with a number. Numeric text counts as a number, as decimals and large numbers are text."""
    if isinstance(value, str):
        number = as_number(value)
        return number is not None and compare(number, amount)
    if isinstance(value, float):
        return compare(value, float(amount))
    return isinstance(value, int) and not isinstance(value, bool) and compare(value, amount)


_Matcher = Callable[[str], object]


def _matcher(name: str) -> _Matcher:
    if "*" in name or "?" in name:
        return re.compile(translate(name.replace("[", "[[]"))).match
    return name.__eq__


def _values(data: Any, path: tuple[_Matcher | None, ...]) -> Iterator[Any]:
    """Yield the values at the path and below it. None in the path stands for any number of fields."""
    pending = [(data, _add_any_depth({0}, path))]
    while pending:
        item, positions = pending.pop()
        if isinstance(item, list):
            pending.extend((element, positions) for element in reversed(item))
        elif isinstance(item, dict):
            for name, member in reversed(item.items()):
                if next_positions := _next_positions(positions, name, path):
                    pending.append((member, next_positions))
        elif len(path) in positions and item != MASKED:
            yield base64.b64encode(item).decode() if isinstance(item, bytes | memoryview) else item


def _next_positions(positions: set[int], name: str, path: tuple[_Matcher | None, ...]) -> set[int]:
    """Return the positions in the path after a field with this name. Values inside the last field also count."""
    if len(path) in positions:
        return {len(path)}
    next_positions = {position for position in positions if path[position] is None}
    next_positions |= {
        position + 1 for position in positions if (matches := path[position]) is not None and matches(name)
    }
    return _add_any_depth(next_positions, path)


def _add_any_depth(positions: set[int], path: tuple[_Matcher | None, ...]) -> set[int]:
    """Add the positions after steps that stand for any number of fields; return all positions."""
    for position, matches in enumerate(path):
        if position in positions and matches is None:
            positions.add(position + 1)
    return positions
