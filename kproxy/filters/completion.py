"""Completion: the words that may come next in an unfinished filter."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kproxy.filters.errors import FilterError
from kproxy.filters.fields import BY_NAME, FilterField, Kind, field_named
from kproxy.filters.lexer import FilterToken, TokenType, tokens

_WORD_BEFORE_CURSOR = re.compile(r"[^\s()\",'=!<>~&|]*\Z")
_WITHOUT_ORDER = (Kind.NAME, Kind.TEXT, Kind.FLAG)
_WITHOUT_TEXT = (Kind.NUMBER, Kind.COUNT, Kind.DURATION, Kind.SIZE, Kind.FLAG)

# (state, token) -> next state: the grammar of the parser without nesting.
_START, _FIELD, _NOT, _IN, _OPERATOR, _LIST, _LISTED, _TERM = (
    "start", "after field", "after field not", "after in", "after operator", "in list", "after listed", "after term",
)  # fmt: skip
_NEXT = {
    (_START, "word"): _TERM, (_START, "string"): _TERM, (_START, "not"): _START, (_START, "("): _START,
    (_FIELD, "operator"): _OPERATOR, (_FIELD, "in"): _IN, (_FIELD, "not"): _NOT,
    (_FIELD, "and"): _START, (_FIELD, "or"): _START, (_FIELD, ")"): _TERM,
    (_NOT, "in"): _IN, (_IN, "("): _LIST,
    (_OPERATOR, "word"): _TERM, (_OPERATOR, "string"): _TERM,
    (_LIST, "word"): _LISTED, (_LIST, "string"): _LISTED, (_LISTED, ","): _LIST, (_LISTED, ")"): _TERM,
    (_TERM, "and"): _START, (_TERM, "or"): _START, (_TERM, ")"): _TERM,
}  # fmt: skip


def complete(text: str, cursor: int) -> list[str]:
    """Return the words that may come at the cursor, in display order.

    Each replaces the word before the cursor and begins with it, ignoring case; without such a word, these are all words
    that may come next. Values are offered only for fields with a list of known values. After a syntax error, and inside
    a string, the list is empty.
    """
    text_before_cursor = text[:cursor]
    word_start = _WORD_BEFORE_CURSOR.search(text_before_cursor)
    prefix = word_start[0].lower() if word_start else ""
    try:
        preceding = tokens(text_before_cursor[: len(text_before_cursor) - len(prefix)])[:-1]
    except FilterError:
        return []
    return [word for word in _expected_words(preceding) if word.lower().startswith(prefix)]


def _expected_words(preceding: Iterable[FilterToken]) -> Iterable[str]:
    state: str | None = _START
    field: FilterField | None = None
    for token in preceding:
        if state == _START and token.type is TokenType.WORD:
            field = field_named(token.value)
            state = _FIELD if field else _TERM
        else:
            state = _NEXT.get((state or "", token.value if token.type is TokenType.SIGN else token.type))
    if state == _START:
        return (*BY_NAME, "not")
    if state == _FIELD and field:
        return (*_operators(field.kind), "in", "not in", "and", "or")
    if state in (_OPERATOR, _LIST) and field:
        return field.known()
    return {_NOT: ("in",), _IN: ("(",), _LISTED: (",", ")"), _TERM: ("and", "or")}.get(state or "", ())


def _operators(kind: Kind) -> Iterable[str]:
    yield from ("=", "!=")
    if kind not in _WITHOUT_ORDER:
        yield from ("<", "<=", ">", ">=")
    if kind not in _WITHOUT_TEXT:
        yield from ("~", "!~")
