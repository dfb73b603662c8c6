"""Conditions on records and on all texts in a line. Python evaluates them: only it knows the types in bodies."""

from __future__ import annotations

import functools

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.filters import Filter, parse
from kproxy.filters.line_text import COLUMNS
from kproxy.filters.nodes import Comparison, Presence, Text

#: For workers: compiled filters cannot be sent to them.
_parse_cached = functools.lru_cache(maxsize=100)(parse)


def record_condition(node: Comparison | Presence) -> Column:
    """Return the condition for a comparison or presence check on a RECORD field; never null."""
    text = str(Filter(node))
    return F.udf(lambda body: _matches(text, None, body), T.BooleanType())(F.col("body"))


def text_condition(node: Text) -> Column:
    """Return the condition that a line contains a text; never null."""
    text = str(Filter(node))
    columns = F.to_json(F.struct(*sorted(COLUMNS - {"body"})))
    return F.udf(lambda line, body: _matches(text, line, body), T.BooleanType())(columns, F.col("body"))


def _matches(filter_text: str, columns_json: str | None, body_json: str | None) -> bool:
    line = {} if columns_json is None else msgspec.json.decode(columns_json)
    try:
        line["body"] = None if body_json is None else msgspec.json.decode(body_json)
    except (msgspec.DecodeError, RecursionError):
        line["body"] = None
    return _parse_cached(filter_text).matches(line)
