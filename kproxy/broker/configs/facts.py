"""What Kafka says of each config; ``facts.json`` is made by `kproxy.schema_import.configs`."""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """A config as Kafka 4.3.1 has it.

    `type` is Kafka's code (1 BOOLEAN, 2 STRING, 3 INT, 4 SHORT, 5 LONG, 6 DOUBLE, 7 LIST, 8 CLASS, 9 PASSWORD).
    `synonyms` are the brokers' configs that it has its value from where it is not set itself, the first that is set.
    """

    name: str
    type: int
    default: str | None
    read_only: bool
    sensitive: bool
    synonyms: tuple[str, ...]
    documentation: str | None


@functools.cache
def facts(kind: str) -> Mapping[str, Fact]:
    """Every config of a kind of resource, by name; none for a kind that has no fixed ones."""
    data = pkgutil.get_data(__name__, "facts.json")
    assert data is not None
    found = json.loads(data).get(kind, ())
    return {each["name"]: Fact(**{**each, "synonyms": tuple(each["synonyms"])}) for each in found}
