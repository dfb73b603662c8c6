"""Converts values of filters: durations, sizes, times, and words of a closed list."""

from __future__ import annotations

import re
from decimal import Decimal

from kproxy.filters.errors import FilterError, suggestion
from kproxy.filters.fields import FilterField, Kind
from kproxy.filters.nodes import Value

Number = int | Decimal

#: Units of durations, in microseconds.
DURATIONS = {"us": 1, "µs": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000}
#: Units of sizes, in bytes.
SIZES = {"B": 1, "KB": 1_000, "KiB": 1 << 10, "MB": 1_000_000, "MiB": 1 << 20}

_NUMBER = re.compile(r"(-?\d{1,20}(?:\.\d{1,9})?)([A-Za-zµ]*)")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?Z?")
_MIDNIGHT = "0000-00-00T00:00:00.000000"


def number(field: FilterField, value: Value) -> Number:
    """Return the value in the unit that the trace uses for the field. A bare number is in the field's own unit.

    Raises:
        FilterError: The value is not a number, or has a unit that the field does not support.
    """
    units = {Kind.DURATION: DURATIONS, Kind.SIZE: SIZES}.get(field.kind, {})
    example = {Kind.DURATION: "e.g. 50ms", Kind.SIZE: "e.g. 10KiB"}.get(field.kind, "use digits")
    match = _NUMBER.fullmatch(value.text)
    if match is None:
        raise _value_error(value, f"{value.text!r} is not a {field.kind}", example)
    digits, unit = match.groups()
    factor = {name.lower(): factor for name, factor in units.items()}.get(unit.lower()) if unit else field.unit
    if factor is None:
        hint = f"use {', '.join(units)}" if units else example
        raise _value_error(value, f"unknown unit {unit!r} for {field.name}", hint)
    converted = Decimal(digits) * factor / field.unit
    return int(converted) if converted == converted.to_integral_value() else converted


def instant(field: FilterField, value: Value) -> str:
    """Return the time as in traces, where text order is time order. Omitted parts are 0.

    Raises:
        FilterError: The value is not a time.
    """
    if _INSTANT.fullmatch(value.text) is None:
        hint = "use 2025-01-31, 2025-01-31T12:00 or 2025-01-31T12:00:00.5Z (UTC)"
        raise _value_error(value, f"{value.text!r} is not a time", hint)
    text = value.text.removesuffix("Z").replace(" ", "T")
    return text + _MIDNIGHT[len(text) :] + "Z"


def canonical_value(field: FilterField, value: Value) -> str:
    """Return the value in the spelling of the field's list of values; case is ignored.

    Raises:
        FilterError: The value is not in the list.
    """
    names_by_lowercase = {name.lower(): name for name in field.known()}
    if (known_value := names_by_lowercase.get(value.text.lower())) is not None:
        return known_value
    hint = suggestion(value.text, names_by_lowercase.values())
    values_hint = f"use {', '.join(names_by_lowercase.values())}" if len(names_by_lowercase) < 8 else ""
    raise _value_error(value, f"unknown {field.name} {value.text!r}", hint or values_hint)


def _value_error(value: Value, problem: str, hint: str) -> FilterError:
    return FilterError(problem, value.start, value.end, hint)
