"""Splits a filter into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from kproxy.filters.errors import FilterError


class TokenType(StrEnum):
    """The type of a token."""

    WORD = "word"
    STRING = "string"
    OPERATOR = "operator"
    SIGN = "sign"  # ( ) , and the connectives, such as "and" or &&
    END = "end"


@dataclass(frozen=True, slots=True)
class FilterToken:
    """``text[start:end]`` of a filter. `value` is a string without quotes; connectives are words."""

    type: TokenType
    value: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
  | (?P<operator>==|=|!=|!~|<=|>=|<|>|~)
  | (?P<sign>&&|\|\||!|\(|\)|,)
  | (?P<word>[^\s()",'=!<>~&|]+)
  | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SPELLINGS = {"&&": "and", "||": "or", "!": "not", "==": "="}
CONNECTIVES = ("and", "or", "not", "in")


def tokens(text: str) -> list[FilterToken]:
    """Return all tokens; the last one has type END.

    Raises:
        FilterError: A string is unterminated, or a character must be quoted.
    """
    result: list[FilterToken] = []
    position = 0
    while not result or result[-1].type is not TokenType.END:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable_error(text, position)
        type_ = TokenType(str(match.lastgroup))
        value, (start, end) = match[type_], match.span(type_)
        if type_ is TokenType.STRING:
            value = re.sub(r"\\([\\\"'])", r"\1", value[1:-1])
        elif type_ is TokenType.WORD and value.lower() in CONNECTIVES:
            type_, value = TokenType.SIGN, value.lower()
        else:
            value = _SPELLINGS.get(value, value)
        result.append(FilterToken(type_, value, start, end))
        position = match.end()
    return result


def quoted(value: str) -> str:
    """Return the value as a quoted string token."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unreadable_error(text: str, position: int) -> FilterError:
    position += len(text[position:]) - len(text[position:].lstrip())
    if text[position] in "\"'":
        return FilterError("unterminated string", position, len(text))
    hint = f"use {text[position] * 2} to join terms, or quote the value"
    return FilterError(f"unexpected {text[position]!r}", position, position + 1, hint)
