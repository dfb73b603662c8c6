"""What can stand next in a filter that is being written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kproxy.filters.errors import FilterError
from kproxy.filters.fields import BY_NAME, FilterField, Kind
from kproxy.filters.lexer import FilterToken, Sort, tokens

_WORD_BEFORE_CURSOR = re.compile(r"[^\s()\",'=!<>~&|]*\Z")
_WITHOUT_ORDER = (Kind.NAME, Kind.TEXT, Kind.FLAG)
_WITHOUT_TEXT = (Kind.NUMBER, Kind.COUNT, Kind.DURATION, Kind.SIZE, Kind.FLAG)

# What each kind of token leads to, from where it can stand. The grammar of the parser, without its nesting.
_START, _FIELD, _NOT, _IN, _OPERATOR, _LIST, _LISTED, _TERM = (
    "start", "after field", "after field not", "after in", "after operator", "in list", "after listed", "after term",
)  # fmt: skip
_NEXT = {
    (_START, "word"): _FIELD, (_START, "not"): _START, (_START, "("): _START,
    (_FIELD, "operator"): _OPERATOR, (_FIELD, "in"): _IN, (_FIELD, "not"): _NOT,
    (_FIELD, "and"): _START, (_FIELD, "or"): _START, (_FIELD, ")"): _TERM,
    (_NOT, "in"): _IN, (_IN, "("): _LIST,
    (_OPERATOR, "word"): _TERM, (_OPERATOR, "string"): _TERM,
    (_LIST, "word"): _LISTED, (_LIST, "string"): _LISTED, (_LISTED, ","): _LIST, (_LISTED, ")"): _TERM,
    (_TERM, "and"): _START, (_TERM, "or"): _START, (_TERM, ")"): _TERM,
}  # fmt: skip


def complete(text: str, cursor: int) -> list[str]:
    """Words that can stand at the cursor, in the order to show them.

    Each is to replace the word that ends at the cursor, and begins as that does, case aside; where none has begun, they
    are all that can come next. Values are there for fields that have a list of them. After a mistake, and in a string,
    there are none.
    """
    before = text[:cursor]
    begun = _WORD_BEFORE_CURSOR.search(before)
    typed = begun[0].lower() if begun else ""
    try:
        read = tokens(before[: len(before) - len(typed)])[:-1]
    except FilterError:
        return []
    return [word for word in _expected(read) if word.lower().startswith(typed)]


def _expected(read: Iterable[FilterToken]) -> Iterable[str]:
    place: str | None = _START
    field: FilterField | None = None
    for token in read:
        if place == _START and token.sort is Sort.WORD:
            field = BY_NAME.get(token.value)
            place = _FIELD if field else None
        else:
            place = _NEXT.get((place or "", token.value if token.sort is Sort.SIGN else token.sort))
    if place == _START:
        return (*BY_NAME, "not")
    if place == _FIELD and field:
        return (*_operators(field.kind), "in", "not in", "and", "or")
    if place in (_OPERATOR, _LIST) and field:
        return field.known()
    return {_NOT: ("in",), _IN: ("(",), _LISTED: (",", ")"), _TERM: ("and", "or")}.get(place or "", ())


def _operators(kind: Kind) -> Iterable[str]:
    yield from ("=", "!=")
    if kind not in _WITHOUT_ORDER:
        yield from ("<", "<=", ">", ">=")
    if kind not in _WITHOUT_TEXT:
        yield from ("~", "!~")
