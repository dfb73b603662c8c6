"""Compiles a parsed filter to a function over trace lines."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from kproxy.filters import line_text, record_fields
from kproxy.filters.errors import FilterError
from kproxy.filters.fields import SEVERITIES, FilterField, Kind, Line
from kproxy.filters.nodes import And, Comparison, Node, Not, Presence, Text, Value
from kproxy.filters.pattern import PatternError, compile_pattern, glob_pattern, wildcard_pattern
from kproxy.filters.values import canonical_value, instant, number

Test = Callable[[Line], bool]
Check = Callable[[Any], bool]  # tests one value that is not None

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RANKS = {severity: rank for rank, severity in enumerate(SEVERITIES)}
_CASE_SENSITIVE = (Kind.TEXT, Kind.RECORD)
_NUMBERS = (Kind.NUMBER, Kind.COUNT, Kind.DURATION, Kind.SIZE)


def compile_node(node: Node) -> Test:
    """Return the function that tests whether a line matches a node.

    Raises:
        FilterError: The field does not support the value or the operator.
    """
    if isinstance(node, Comparison):
        return _comparison_test(node)
    if isinstance(node, Presence):
        return _presence_test(node.field)
    if isinstance(node, Text):
        return line_text.build_text_test(_search_check(node.value))
    if isinstance(node, Not):
        term = compile_node(node.term)
        return lambda line: not term(line)
    terms = [compile_node(term) for term in node.terms]
    if len(terms) == 2:  # most filters have two terms: a third faster than the loop
        first, second = terms
        if isinstance(node, And):
            return lambda line: first(line) and second(line)
        return lambda line: first(line) or second(line)
    return _all_test(terms) if isinstance(node, And) else _any_test(terms)


def _all_test(terms: Sequence[Test]) -> Test:
    def test(line: Line) -> bool:
        for term in terms:  # noqa: SIM110 - all() over a generator takes twice as long
            if not term(line):
                return False
        return True

    return test


def _any_test(terms: Sequence[Test]) -> Test:
    def test(line: Line) -> bool:
        for term in terms:  # noqa: SIM110
            if term(line):
                return True
        return False

    return test


def _search_check(value: Value) -> Check:
    if not value.quoted and any(wildcard in value.text for wildcard in "*?"):
        return compile_pattern(wildcard_pattern(value.text), ignore_case=True)
    needle = value.text.lower()
    return lambda value: needle in value.lower()


def _presence_test(field: FilterField) -> Test:
    read = field.read
    if field.kind is Kind.ERROR:
        return lambda line: bool(line.get("errors"))
    if field.kind is Kind.NUMBER and not field.many:
        return lambda line: read(line) is not None
    if field.kind is Kind.NUMBER or not field.many:
        return lambda line: bool(read(line))
    if field.kind is Kind.RECORD:
        return lambda line: any(value is not None and value is not False for value in read(line))
    return lambda line: any(read(line))


def _comparison_test(node: Comparison) -> Test:
    read, check = node.field.read, _any_check(node)
    if node.field.many:
        if node.negated:
            return lambda line: bool(values := read(line)) and not any(map(check, values))
        return lambda line: any(map(check, read(line)))
    if node.negated:
        return lambda line: (value := read(line)) is not None and not check(value)
    return lambda line: (value := read(line)) is not None and check(value)


def _any_check(node: Comparison) -> Check:
    sign = "=" if node.operator == "in" else node.operator
    checks = [_value_check(node, sign, value) for value in node.values]
    return checks[0] if len(checks) == 1 else lambda field_value: any(check(field_value) for check in checks)


def _value_check(node: Comparison, sign: str, value: Value) -> Check:
    """Return the check of one value of the field, which is not None and has the field's type."""
    field = node.field
    if field.kind is Kind.RECORD:
        return _record_check(field, sign, value)
    if sign == "~":
        if field.kind in _NUMBERS or field.kind is Kind.FLAG:
            raise FilterError(
                f"{field.name} is a {field.kind}; '~' searches text only", node.start, node.end, "write ="
            )
        return _reject_codes(field, _pattern_check(field, value, value.text))
    compare = _ORDER[sign]
    if field.kind in _NUMBERS or (field.kind is Kind.ERROR and value.text.lstrip("-").isdecimal()):
        amount = number(field, value)
        return lambda field_value: not isinstance(field_value, str) and compare(field_value, amount)
    if field.kind is Kind.FLAG and sign == "=":
        expected = canonical_value(field, value) == "true"
        return lambda field_value: field_value is expected
    if sign == "=" and not value.quoted and any(wildcard in value.text for wildcard in "*?"):
        return _reject_codes(field, _pattern_check(field, value, glob_pattern(value.text)))
    if field.kind is Kind.TIME:
        moment = instant(field, value)
        return lambda field_value: compare(field_value, moment)
    if field.kind is Kind.SEVERITY:
        rank = _RANKS[canonical_value(field, value)]
        return lambda field_value: compare(_RANKS.get(field_value, -1), rank)
    if sign != "=":
        raise FilterError(f"{field.name} does not support {sign!r}", node.start, node.end, "use =, ~ or in (...)")
    exact_text = canonical_value(field, value) if field.closed and not value.quoted else value.text
    if field.kind is Kind.TEXT:
        return lambda field_value: field_value == exact_text
    lowered = exact_text.lower()
    return _reject_codes(field, lambda field_value: field_value == exact_text or field_value.lower() == lowered)


def _record_check(field: FilterField, sign: str, value: Value) -> Check:
    """Return the check of one value in a record, which may have any type or be None."""
    as_text, compare = record_fields.as_text, _ORDER.get(sign)
    is_glob = sign == "=" and not value.quoted and any(wildcard in value.text for wildcard in "*?")
    if compare is None or is_glob:
        check = _pattern_check(field, value, glob_pattern(value.text) if is_glob else value.text)
        return lambda field_value: check(as_text(field_value))
    amount = None if value.quoted else record_fields.as_number(value.text)
    if amount is None and sign != "=":
        return lambda field_value: isinstance(field_value, str) and compare(field_value, value.text)
    if amount is None:
        return lambda field_value: as_text(field_value) == value.text
    return lambda field_value: record_fields.compare_numbers(compare, field_value, amount)


def _reject_codes(field: FilterField, check: Check) -> Check:
    """Return a check that rejects the numeric codes that an error field has in addition to names."""
    return (
        (lambda field_value: isinstance(field_value, str) and check(field_value)) if field.kind is Kind.ERROR else check
    )


def _pattern_check(field: FilterField, value: Value, pattern: str) -> Check:
    try:
        return compile_pattern(pattern, ignore_case=field.kind not in _CASE_SENSITIVE)
    except PatternError as error:
        start, end = value.start, value.end
        if not value.quoted or end - start == len(value.text) + 2:  # otherwise escapes have shifted the columns
            start += error.position + value.quoted
            end = min(start + 1, end)
        raise FilterError(f"invalid pattern {value.text!r}: {error}", start, end) from None
