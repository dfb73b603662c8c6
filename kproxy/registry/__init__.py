"""Sources of schemas: a directory, or a schema registry over HTTP. `dissectors.values` gets the schemas as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from dissectors.values import Schema, SchemaKey


class SchemaSource(Protocol):
    """A source of schemas."""

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Return the schema with each of these keys or, as a sentence, why there is none. This never raises."""


class SchemaSources:
    """Several sources: the first one that has a schema supplies it; if none has it, the last one gives the reason."""

    def __init__(self, sources: Iterable[SchemaSource]) -> None:
        self._sources = [*sources]

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Ask the sources in turn; see `SchemaSource`."""
        schemas: dict[SchemaKey, Schema | str] = {}
        missing = [*keys]
        for source in self._sources:
            schemas |= source.lookup(missing)
            missing = [key for key in missing if not isinstance(schemas.get(key), Schema)]
        return schemas
