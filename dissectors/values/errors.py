"""Errors that prevent decoding a value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from dissectors.values.value import ProblemKind, Schema, ValueProblem

T = TypeVar("T")


class SchemaError(ValueError):
    """A schema is invalid, or uses a schema that is missing. The message is a clause, e.g. ``it is not JSON``."""


def bad_schema(error: SchemaError) -> ValueProblem:
    """Return the problem of a value whose schema cannot be used."""
    return ValueProblem(f"the schema cannot be used: {error}", kind=ProblemKind.BAD_SCHEMA)


class MissingPackage(Exception):
    """A package of the extra ``payloads`` is not installed."""


def cached_parser(parse: Callable[[Schema], T]) -> Callable[[Schema], T]:
    """Return a function that parses schemas and caches both its results and the SchemaErrors that it raises.

    Without cached errors, an invalid schema would be parsed again for each record.
    """

    @functools.lru_cache(256)
    def parse_or_error(schema: Schema) -> T | SchemaError:
        try:
            return parse(schema)
        except SchemaError as error:
            return SchemaError(*error.args)

    def parse_cached(schema: Schema) -> T:
        result = parse_or_error(schema)
        if isinstance(result, SchemaError):
            raise SchemaError(*result.args)
        return result

    return parse_cached
