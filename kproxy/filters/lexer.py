"""The words and signs of a filter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from kproxy.filters.errors import FilterError


class Sort(StrEnum):
    """What a token is."""

    WORD = "word"
    STRING = "string"
    OPERATOR = "operator"
    SIGN = "sign"  # ( ) , and the connectives in either spelling
    END = "end"


@dataclass(frozen=True, slots=True)
class FilterToken:
    """``text[start:end]`` of a filter; `value` is a string without its quotes, a connective as a word."""

    sort: Sort
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
    """Every token, one of sort END last.

    Raises:
        FilterError: A string that is not closed, or a character that only a quoted value can have.
    """
    found: list[FilterToken] = []
    at = 0
    while not found or found[-1].sort is not Sort.END:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        sort = Sort(str(match.lastgroup))
        value, (start, end) = match[sort], match.span(sort)
        if sort is Sort.STRING:
            value = re.sub(r"\\([\\\"'])", r"\1", value[1:-1])
        elif sort is Sort.WORD and value.lower() in CONNECTIVES:
            sort, value = Sort.SIGN, value.lower()
        else:
            value = _SPELLINGS.get(value, value)
        found.append(FilterToken(sort, value, start, end))
        at = match.end()
    return found


def quoted(value: str) -> str:
    """The value as a string token that reads back as the same."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unreadable(text: str, at: int) -> FilterError:
    at += len(text[at:]) - len(text[at:].lstrip())
    if text[at] in "\"'":
        return FilterError("unterminated string", at, len(text))
    hint = f"use {text[at] * 2} to join terms, or quote the value"
    return FilterError(f"unexpected {text[at]!r}", at, at + 1, hint)
