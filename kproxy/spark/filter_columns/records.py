"""Conditions on fields of records. Only Python knows their types, so that the column is a function of the body."""

from __future__ import annotations

import functools

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.filters import Filter, parse
from kproxy.filters.nodes import Comparison, Presence

#: For workers: compiled filters cannot be sent to them.
_parsed = functools.lru_cache(maxsize=100)(parse)


def record_condition(node: Comparison | Presence) -> Column:
    """Return the condition for a comparison or presence of a field of kind RECORD; it is never null."""
    text = str(Filter(node))
    return F.udf(lambda body: _matches(text, body), T.BooleanType())(F.col("body"))


def _matches(text: str, body: str | None) -> bool:
    try:
        return _parsed(text).matches({"body": None if body is None else msgspec.json.decode(body)})
    except (msgspec.DecodeError, RecursionError):
        return False
