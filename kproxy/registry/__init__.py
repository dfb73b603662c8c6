"""Where schemas come from: a directory, or a schema registry over HTTP. `dissectors.values` gets them as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from dissectors.values import Schema, SchemaKey


class SchemaSource(Protocol):
    """A source of schemas."""

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Return the schemas with these keys or, as a sentence, why there is none. Never raises."""


class Sources:
    """Several sources: the first that has a schema counts, and of the reasons the last."""

    def __init__(self, sources: Iterable[SchemaSource]) -> None:
        self._sources = [*sources]

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        schemas: dict[SchemaKey, Schema | str] = {}
        missing = [*keys]
        for source in self._sources:
            schemas |= source.lookup(missing)
            missing = [key for key in missing if not isinstance(schemas.get(key), Schema)]
        return schemas
