"""What Kafka says of each config; ``facts.json`` is made by `kproxy.schema_import.configs`."""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dissectors.schemas.lines import line

#: The type of a config that Kafka does not know.
UNKNOWN: Final = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """A config as a release has it.

    `type` is Kafka's code (1 BOOLEAN, 2 STRING, 3 INT, 4 SHORT, 5 LONG, 6 DOUBLE, 7 LIST, 8 CLASS, 9 PASSWORD).
    `synonyms` are the brokers' configs that it has its value from where it is not set itself, the first that is set.
    """

    name: str
    type: int
    default: str | None
    read_only: bool
    sensitive: bool
    synonyms: tuple[str, ...] = ()
    documentation: str | None = None


@functools.cache
def facts(kind: str, release: str) -> Mapping[str, Fact]:
    """Every config that a kind of resource has in a release line, by name; none for a kind that it does not have."""
    known = line(release)
    rows = {
        each["name"]
        for each in _rows(kind)
        if ("since" not in each or known.since(each["since"]))
        and ("until" not in each or each["until"] == known.name or not known.since(each["until"]))
    }
    return {name: fact for name, fact in all_facts(kind, release).items() if name in rows}


@functools.cache
def all_facts(kind: str, release: str) -> Mapping[str, Fact]:
    """Every config that a kind of resource has in any release, by name, with the default that it has in this one."""
    known = line(release)
    found = {}
    for each in _rows(kind):
        # In the order of the lines: the first that is not before this one has its default.
        older = (value for until, value in each["older"].items() if until == known.name or not known.since(until))
        found[each["name"]] = Fact(
            name=each["name"],
            type=each["type"],
            default=next(older, each.get("default")),
            read_only=each["read_only"],
            sensitive=each["sensitive"],
            synonyms=tuple(each["synonyms"]),
            documentation=each["documentation"],
        )
    return found


@functools.cache
def _rows(kind: str) -> list[Mapping[str, Any]]:
    data = pkgutil.get_data(__name__, "facts.json")
    assert data is not None
    found: list[Mapping[str, Any]] = json.loads(data).get(kind, [])
    return found
