"""A filter as a Spark column on rows of TRACE, equivalent to `Filter.matches` for lines."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from kproxy.filters import Filter, FilterError
from kproxy.filters.fields import SEVERITIES, FilterField, Kind
from kproxy.filters.nodes import And, Comparison, Node, Not, Presence, Text, Value
from kproxy.filters.pattern import PatternError, glob_pattern
from kproxy.filters.values import canonical_value, instant, number
from kproxy.spark.filter_columns.fields import column_of
from kproxy.spark.filter_columns.pattern import java_pattern
from kproxy.spark.filter_columns.records import record_condition, text_condition

Check = Callable[[Column], Column]  # applied to one value that is not null

_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = (Kind.NUMBER, Kind.COUNT, Kind.DURATION, Kind.SIZE)
_LONGS = range(-(1 << 63), 1 << 63)


def filter_condition(line_filter: Filter) -> Column:
    """Return the filter as a condition that is true or false, never null.

    Raises:
        FilterError: A pattern is too slow in Spark, or a date is invalid.
    """
    return _condition(line_filter.node)


def _condition(node: Node) -> Column:
    if isinstance(node, Text):
        return text_condition(node)
    if isinstance(node, Comparison | Presence) and node.field.kind is Kind.RECORD:
        return record_condition(node)
    if isinstance(node, Comparison):
        return _comparison_condition(node)
    if isinstance(node, Presence):
        return F.coalesce(_presence_condition(node.field), F.lit(False))
    if isinstance(node, Not):
        return ~_condition(node.term)
    return reduce(operator.and_ if isinstance(node, And) else operator.or_, map(_condition, node.terms))


def _presence_condition(field: FilterField) -> Column:
    column = column_of(field)
    if field.kind is Kind.ERROR:
        return F.size("errors") > 0
    if not field.many:
        return column.isNotNull() if field.kind in (Kind.NUMBER, Kind.TIME) else _is_nonempty(field, column)
    return (
        F.size(column) > 0
        if field.kind is Kind.NUMBER
        else F.exists(column, lambda element: _is_nonempty(field, element))
    )


def _is_nonempty(field: FilterField, value: Column) -> Column:
    """Whether a value is neither 0, false nor empty."""
    if field.kind is Kind.FLAG:
        return value
    return value != (0 if field.kind in _NUMBERS else "")


def _comparison_condition(node: Comparison) -> Column:
    column, check = column_of(node.field), _any_check(node)
    if node.field.many:
        matches = F.exists(column, check)
        return (F.size(column) > 0) & ~matches if node.negated else matches
    matches = check(column)
    return F.coalesce(~matches if node.negated else matches, F.lit(False))


def _any_check(node: Comparison) -> Check:
    sign = "=" if node.operator == "in" else node.operator
    checks = [_value_check(node.field, sign, value) for value in node.values]
    return lambda column: reduce(operator.or_, (check(column) for check in checks))


def _value_check(field: FilterField, sign: str, value: Value) -> Check:
    """Return a check for one value that is not null; the filter is already validated."""
    if sign == "~":
        return _pattern_check(field, value, value.text)
    compare = _ORDER[sign]
    if field.kind is Kind.ERROR and value.text.lstrip("-").isdecimal():
        return lambda column: compare(column["code"], _number_literal(field, value))
    if field.kind in _NUMBERS:
        return lambda column: compare(column, _number_literal(field, value))
    if field.kind is Kind.FLAG:
        return lambda column: column == (canonical_value(field, value) == "true")
    if sign == "=" and not value.quoted and any(wildcard in value.text for wildcard in "*?"):
        return _pattern_check(field, value, glob_pattern(value.text))
    if field.kind is Kind.TIME:
        moment = _instant_literal(field, value)
        return lambda column: compare(column, moment)
    if field.kind is Kind.SEVERITY:
        ranks = F.array(*map(F.lit, SEVERITIES))
        rank = SEVERITIES.index(canonical_value(field, value)) + 1
        return lambda column: compare(F.array_position(ranks, column), rank)
    exact = canonical_value(field, value) if field.closed and not value.quoted else value.text
    if field.kind is Kind.TEXT:
        return lambda column: column == exact
    return lambda column: F.lower(_as_text(field, column)) == exact.lower()


def _as_text(field: FilterField, value: Column) -> Column:
    """Return the value as text, for patterns."""
    if field.kind is Kind.TIME:
        utc = F.to_utc_timestamp(value, F.current_timezone())
        return F.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
    return value["name"] if field.kind is Kind.ERROR else value


def _number_literal(field: FilterField, value: Value) -> Column:
    amount = number(field, value)
    return F.lit(amount if isinstance(amount, Decimal) or amount in _LONGS else Decimal(amount))


def _instant_literal(field: FilterField, value: Value) -> Column:
    try:
        return F.lit(datetime.fromisoformat(instant(field, value)))
    except ValueError as error:
        if isinstance(error, FilterError):
            raise
        raise FilterError(f"{value.text!r} is not a time", value.start, value.end, str(error)) from None


def _pattern_check(field: FilterField, value: Value, pattern: str) -> Check:
    try:
        expression = java_pattern(pattern, ignore_case=field.kind is not Kind.TEXT)
    except PatternError as error:
        raise FilterError(f"invalid pattern for Spark {value.text!r}: {error}", value.start, value.end) from None
    return lambda column: F.rlike(_as_text(field, column), F.lit(expression))
